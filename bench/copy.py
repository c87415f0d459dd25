"""Initial copy: Londiste beside raw psql pipes, a native subscription, pgcopydb and Londiste 3.

    load    rows alone, of pgbench_accounts and of a wide table: two raw binary psql pipes side by
            side are the measure
    end     the same until the table is ok, with key, indexes and foreign keys, by the programs as
            people run them: in one snapshot, resumable, by Spark
    busy    accounts while pgbench -c 2 updates it, until ok; what is left to the writers meanwhile
    many    small tables until all are ok
    memory  the most that our copy processes had resident in the parts before, the JVM not counted

All ways of a part run in turns on the same two servers, each in databases of its own.  After every
copy both sides are compared, rows and checksums, indexes and foreign keys.  Ratios are medians over
the rounds of ratios of the same round.  Peers that are not installed are named and left out.

    python -m bench.copy [--parts load,end,busy,many,memory] [--rows 5000000] [--tables 1000]
                         [--rounds 1] [--no-spark] [--skip-original] [--json FILE]
                         [--record FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.methods.copy import SETTINGS, Londiste3, Native, Ours, Pgcopydb, Way, prepared
from bench.support import common
from bench.support.peers import Peers, add_option, bindir
from bench.workloads.copy_load import Load, engines, speed
from bench.workloads.copy_tables import ACCOUNTS, CASES, Case, many
from bench.workloads.pgbench_writers import Writers
from londiste.embedded.postgres import Cluster

PARTS = ("load", "end", "busy", "many", "memory")
SPARK = "londiste, spark, snapshot"
SNAPSHOT, RESUMABLE = "londiste, local, snapshot", "londiste, local, resumable"
MEMORY = 150.0


class Bench:
    """Two servers, what is installed, and what was found."""

    def __init__(
        self, source: Cluster, target: Cluster, folder: Path, args: argparse.Namespace
    ) -> None:
        self.source = source
        self.target = target
        self.folder = folder
        self.args = args
        self.peers = Peers(target)
        self.goals: list[common.Goal] = []
        self.memory: dict[str, float] = {}

    def run(self, parts: Sequence[str]) -> None:
        """The parts in their order."""
        if "load" in parts:
            carriers = engines(self.args.spark)
            try:
                for name in self.args.cases.split(","):
                    self.goals += Load(self.source, self.target, CASES[name], self.args).run(
                        carriers
                    )
            finally:
                for carrier in carriers.values():
                    carrier.close()
        if "end" in parts:
            for name in self.args.cases.split(","):
                self.end(CASES[name])
        if "busy" in parts:
            self.busy()
        if "many" in parts:
            self.many()
        if "memory" in parts:
            self.report_memory()

    def end(self, case: Case) -> None:
        """From add-table, or what a peer has for that, until the table is ok."""
        with self.ways(case, self.args.rows, self.all_ways(case)) as found:
            times = self.rounds(found)
        fastest = [
            speed(times[peer], times[SNAPSHOT])
            for peer in (Native.name, Pgcopydb.name)
            if peer in times
        ]
        theirs = times.get(Londiste3.name)
        what = f"{case.name} until ok"
        self.goals += [
            common.Goal(f"{what}: × the better of native and pgcopydb", min(fastest), 1.25),
            common.Goal(
                f"{what}: × Londiste 3",
                None if theirs is None else speed(theirs, times[SNAPSHOT]),
                4.0,
            ),
            common.Goal(
                f"{what}: resumable × snapshot", speed(times[SNAPSHOT], times[RESUMABLE]), 0.8
            ),
        ]
        if SPARK in times:
            self.goals += [
                common.Goal(
                    f"{what}, engine spark: × native", speed(times[Native.name], times[SPARK]), 1.5
                ),
                common.Goal(
                    f"{what}, engine spark: × local", speed(times[SNAPSHOT], times[SPARK]), 0.95
                ),
            ]
        self.report(f"{what}, {self.args.rows:,} rows", f"copy end {case.name}", times)

    def busy(self) -> None:
        """The same while the table is written to."""
        pgbench = self.peers.pgbench()
        if pgbench is None:
            return
        kinds = [Native(*self.place(ACCOUNTS)), *self.ours(ACCOUNTS)[:2]]
        tps: dict[str, list[float]] = {}
        before: dict[str, list[float]] = {}
        times: dict[str, list[float]] = {}
        with self.ways(ACCOUNTS, self.args.rows, kinds) as found:
            for way in self.turns(found):
                way.fresh()
                with Writers(pgbench, way.source, way.key, self.args.rows, self.folder) as writers:
                    writers.warm(self.args.warm)
                    started = time.time()
                    seconds = way.copy()
                    writers.finish()
                times.setdefault(way.name, []).append(seconds)
                tps.setdefault(way.name, []).append(writers.rate(started, started + seconds))
                before.setdefault(way.name, []).append(
                    writers.rate(started - self.args.warm / 2, started)
                )
                way.check()
                way.forget()
        self.report(
            f"accounts until ok under pgbench -c 2, {self.args.rows:,} rows",
            "copy busy",
            times,
            {
                "TPS before": {name: common.median(v) for name, v in before.items()},
                "TPS meanwhile": {name: common.median(v) for name, v in tps.items()},
            },
        )
        for name in (SNAPSHOT, RESUMABLE):
            self.goals.append(
                common.Goal(
                    f"busy, {name.split(', ')[-1]}: × native",
                    speed(times[Native.name], times[name]),
                    1.0,
                )
            )
            # A rate is the better the higher it is: the ratio is the other way round.
            self.goals.append(
                common.Goal(
                    f"busy, {name.split(', ')[-1]}: TPS × native's",
                    speed(tps[name], tps[Native.name]),
                    0.9,
                )
            )

    def many(self) -> None:
        """What a table costs however small it is."""
        case = many(self.args.tables)
        kinds = [Native(*self.place(case)), Ours(*self.place(case), mode="auto")]
        with self.ways(case, self.args.small_rows, kinds) as found:
            times = self.rounds(found)
        self.goals.append(
            common.Goal(
                "small tables until ok: × native",
                speed(times[Native.name], times[kinds[1].name]),
                1.0,
            )
        )
        self.report(
            f"{self.args.tables:,} tables of {self.args.small_rows:,} rows until ok",
            "copy many",
            times,
        )

    # -- the ways ----------------------------------------------------------

    def place(self, case: Case) -> tuple[Cluster, Cluster, Path, Case]:
        """What every way needs."""
        return self.source, self.target, self.folder, case

    def ours(self, case: Case) -> list[Way]:
        """Our ways: snapshot and resumable without Spark, then with it."""
        found: list[Way] = [
            Ours(*self.place(case), mode="snapshot"),
            Ours(*self.place(case), mode="resumable"),
        ]
        if self.args.spark:
            found.append(Ours(*self.place(case), engine="spark"))
            found.append(Ours(*self.place(case), engine="spark", waits=True))
        return found

    def all_ways(self, case: Case) -> list[Way]:
        """Ours and those of the peers that are installed."""
        found: list[Way] = [Native(*self.place(case))]
        program = self.peers.program("pgcopydb")
        if program is not None:
            Pgcopydb.program = program
            found.append(Pgcopydb(*self.place(case)))
        found += self.ours(case)
        if not self.args.skip_original and self.peers.extension("pgq", "pgq_node", "londiste"):
            program, ticker = self.peers.program("londiste"), self.peers.program("pgqd")
            if program is not None and ticker is not None:
                Londiste3.program, Londiste3.ticker = program, ticker
                found.append(Londiste3(*self.place(case)))
        return found

    @contextlib.contextmanager
    def ways(self, case: Case, rows: int, found: list[Way]) -> Iterator[list[Way]]:
        """Prepared, each with its databases; all gone afterwards."""
        with prepared(self.source, case, rows, found):
            yield found
            for way in found:
                if way.memory:
                    self.memory[way.name] = max(way.memory, self.memory.get(way.name, 0.0))

    def turns(self, found: list[Way]) -> Iterator[Way]:
        """Each way once a round, another first in each."""
        for number in range(self.args.rounds):
            start = number % len(found)
            yield from [*found[start:], *found[:start]]

    def rounds(self, found: list[Way]) -> dict[str, list[float]]:
        """Seconds of each way in each round, checked."""
        times: dict[str, list[float]] = {way.name: [] for way in found}
        for way in self.turns(found):
            way.fresh()
            times[way.name].append(way.copy())
            way.check()
            way.forget()
        return times

    # -- what was found ----------------------------------------------------

    def report(
        self,
        title: str,
        key: str,
        times: dict[str, list[float]],
        more: dict[str, dict[str, float]] | None = None,
    ) -> None:
        """Prints the table of a part."""
        columns = more or {}
        ratio = {name: speed(times[Native.name], mine) for name, mine in times.items()}
        print(f"\n## {title[0].upper()}{title[1:]}")
        common.table(
            ["way", "s", "× native", *columns],
            [
                [
                    *(name, f"{common.median(mine):.2f}", f"{ratio[name]:.2f}"),
                    *(f"{values[name]:,.0f}" for values in columns.values()),
                ]
                for name, mine in times.items()
            ],
            key.removeprefix("copy ").replace(" ", "-"),
        )
        common.write_json(self.args.json, key, {"ratio": ratio, "s": times, **columns})

    def report_memory(self) -> None:
        """Peaks of our copy processes, JVMs not counted."""
        if not self.memory:
            print("\nMemory is that of the copies of end, busy and many: none has run.")
            return
        print("\n## Memory of the copy process")
        common.table(["way", "MB at most"], [[n, f"{mb:.0f}"] for n, mb in self.memory.items()])
        common.write_json(self.args.json, "copy memory", {"MB": self.memory})
        self.goals.append(
            common.Goal("MB of a copy process", max(self.memory.values()), MEMORY, False)
        )


def main() -> None:
    """Runs the parts and says what was reached."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--cases", default=",".join(CASES), help="tables of load and end")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--tables", type=int, default=1000, help="of many")
    parser.add_argument("--small-rows", type=int, default=1000, help="in each of them")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--chunks", type=int, default=8, help="of the load alone")
    parser.add_argument("--parallel", type=int, default=2, help="chunks of it at a time")
    parser.add_argument("--warm", type=float, default=4, help="seconds of writing before a copy")
    parser.add_argument("--no-spark", dest="spark", action="store_false")
    parser.add_argument("--skip-original", action="store_true", help="without Londiste 3")
    parser.add_argument("--json", type=Path, help="file that takes the results")
    common.add_record_option(parser)
    add_option(parser)
    args = parser.parse_args()
    parts = args.parts.split(",")
    if unknown := set(parts) - set(PARTS) | set(args.cases.split(",")) - set(CASES):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        common.servers("source", "target", bindir=bindir(args.bindir), settings=SETTINGS) as (
            source,
            target,
        ),
    ):
        bench = Bench(source, target, Path(folder), args)
        bench.run(parts)
        common.goals(bench.goals)
        for note in bench.peers.notes:
            print(f"\nskipped: {note}")
        with common.connect(target) as conn:
            print(
                f"\nMedians of {args.rounds} rounds; every target equal to its source."
                f" {common.machine(conn)}; took {time.perf_counter() - began:.0f} s"
            )
    common.record(args.record)
    common.write_json(
        args.json, "copy goals", {g.name: [g.value, g.limit, g.reached] for g in bench.goals}
    )


if __name__ == "__main__":
    main()
