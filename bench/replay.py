"""Replay of a backlog: Londiste, a native subscription and Londiste 3, with the same changes.

``bench/workloads/replay_changes.py`` describes the workloads.  In each round every method gets the
same changes on its own source server.  Then the methods catch up one after the other.  Then all
targets are checked against their sources, and the sources against each other.  Printed are medians
of the rounds, and CPU for an event over all processes.  Londiste 3 has the first workload only; it
is skipped with a note when it is not installed, and with --skip-original.

    python -m bench.replay [--workloads rows,packed,hot] [--events 1000000] [--rows 250000]
                           [--batch 10000] [--rounds 3] [--bindir DIR] [--json FILE]
                           [--record FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path

from bench.methods.replay import Londiste3, Native, Ours, Run, Way
from bench.support import common
from bench.support.peers import Peers, add_option, bindir
from bench.workloads import replay_changes
from londiste.embedded.postgres import Cluster

SETTINGS = {"checkpoint_timeout": "1h", "max_wal_size": "16GB"}
#: Workload -> what our events a second must be at least, against native.
AGAINST_NATIVE = {"rows": 1.15, "packed": 1.5, "hot": 1.0}
#: Of the recorded table.
HEADERS = (
    *("workload", "way", "s", "× native, clock"),
    *("processor time, µs/event", "program", "source", "target", "MB"),
)
#: Workload -> the form of capture it is for.
FORMS = {"rows": "row", "packed": "statement", "hot": "row"}


def main() -> None:
    """Runs the workloads and prints a table for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", default=",".join(replay_changes.WORKLOADS))
    parser.add_argument("--events", type=int, default=1_000_000, help="rows changed, each round")
    parser.add_argument("--rows", type=int, default=250_000, help="rows per table at the start")
    parser.add_argument("--batch", type=int, default=10_000, help="rows changed between two ticks")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--skip-original", action="store_true", help="without Londiste 3")
    parser.add_argument("--json", type=Path, help="file that takes the result")
    common.add_record_option(parser)
    add_option(parser)
    args = parser.parse_args()
    found: list[common.Goal] = []
    notes: list[str] = []
    cells: list[list[str]] = []
    for workload in args.workloads.split(","):
        with ways(workload, args, notes) as all_ways:
            found += measure(workload, all_ways, args, cells)
    common.goals(found)
    for note in dict.fromkeys(notes):
        print(f"\nskipped: {note}")
    common.keep("backlog", HEADERS, cells, labels=2)
    common.record(args.record)
    common.write_json(
        args.json, "replay goals", {g.name: [g.value, g.limit, g.reached] for g in found}
    )


@contextlib.contextmanager
def ways(workload: str, args: argparse.Namespace, notes: list[str]) -> Iterator[list[Way]]:
    """The ways that can be measured here, prepared, each with its own source."""
    with (
        common.servers(
            *("target", "source1", "source2", "source3"),
            bindir=bindir(args.bindir),
            settings=SETTINGS,
        ) as (target, *sources),
        tempfile.TemporaryDirectory() as folder,
    ):
        peers = Peers(target)
        makers: list[Callable[[Cluster, Cluster, Path, str], Way]] = [Native, Ours]
        Ours.form = FORMS[workload]
        original = workload == "rows" and not args.skip_original
        if original and peers.extension("pgq", "pgq_node", "londiste"):
            program = peers.program("londiste")
            if program is not None:
                Londiste3.program = program
                makers.append(Londiste3)
        notes += peers.notes
        found = [
            make(source, target, Path(folder), workload)
            for make, source in zip(makers, sources, strict=False)
        ]
        for way in found:
            way.prepare(args.rows)
        yield found
        for way in found:
            way.end()


def measure(
    workload: str, found: list[Way], args: argparse.Namespace, cells: list[list[str]]
) -> list[common.Goal]:
    """The rounds of one workload; prints the table and returns what was to be reached.

    cells -- receives the rows of the recorded table.
    """
    began = time.perf_counter()
    runs: dict[str, list[Run]] = defaultdict(list)
    events = 0
    for number in range(args.rounds):
        for way in found:
            events = way.change((number + 1) / 10, args.events, args.batch)
        start = number % len(found)
        for way in [*found[start:], *found[:start]]:
            runs[way.name].append(way.catch_up())
        check(found)
    speed = {
        name: common.median([a.seconds / b.seconds for a, b in zip(native, mine, strict=True)])
        for name, mine in runs.items()
        for native in [runs[Native.name]]
    }
    rows = []
    for name, mine in runs.items():
        per_event = [
            f"{common.median([part(run) for run in mine]) / events * 1e6:.1f}"
            for part in map(attrgetter, ("cpu", "program", "source", "target"))
        ]
        seconds = common.median([run.seconds for run in mine])
        memory = max(run.memory for run in mine)
        ratio = f"{speed[name]:.2f}"
        peak = f"{memory:.0f}" if memory else ""
        cells.append([workload, name, f"{seconds:.2f}", ratio, *per_event, peak])
        rows.append(
            [
                *(name, f"{seconds:.2f}", f"{events / seconds:,.0f}", ratio),
                *(*per_event, peak or "–"),
            ]
        )
    print(f"\n## Replay: {workload}, {events:,} changes a round, a tick every {args.batch:,}")
    common.table(
        ["way", "s", "events/s", "× native", "CPU µs/event", "program", "source", "target", "MB"],
        rows,
    )
    with common.connect(found[0].target) as conn:
        print(
            f"\nMedians of {args.rounds} rounds, {args.rows:,} rows a table at the start; every"
            f" target equal to its source after each. {common.machine(conn)}; took"
            f" {time.perf_counter() - began:.0f} s"
        )
    common.write_json(
        args.json,
        f"replay {workload}",
        {
            "events": events,
            "ratio": speed,
            "runs": {name: [vars(run) for run in mine] for name, mine in runs.items()},
        },
    )
    return goals(workload, runs, speed)


def goals(workload: str, runs: dict[str, list[Run]], speed: dict[str, float]) -> list[common.Goal]:
    """What the figures of a workload have to reach."""
    ours, native = runs[Ours.name], runs[Native.name]
    cost = common.median([a.cpu / b.cpu for a, b in zip(ours, native, strict=True)])
    found = [
        common.Goal(f"{workload}: events/s × native", speed[Ours.name], AGAINST_NATIVE[workload])
    ]
    if workload == "rows":
        theirs = speed.get(Londiste3.name)
        value = None if theirs is None else speed[Ours.name] / theirs
        found.append(common.Goal(f"{workload}: events/s × Londiste 3", value, 3.0))
    found.append(common.Goal(f"{workload}: CPU per event × native", cost, 0.75, False))
    return found


def check(found: list[Way]) -> None:
    """All sources hold the same, and every target what its source holds."""
    contents = {
        f"{side} of {way.name}": way.contents(cluster)
        for way in found
        for side, cluster in (("source", way.source), ("target", way.target))
    }
    if any(value != next(iter(contents.values())) for value in contents.values()):
        raise AssertionError(f"databases differ: {contents}")


if __name__ == "__main__":
    main()
