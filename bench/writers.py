"""What replication leaves to the writers of the source: transactions per second of pgbench.

Two clients update single rows of pgbench_accounts as fast as they can, while

    alone           nothing else runs
    native          a subscription of the other server follows
    capture         the triggers write events; ticker and worker are stopped
    replication     triggers, ticker, and a worker that applies to the other server

All ways run in turns on the same two servers, each in databases of its own.  After each turn both
sides are compared.  Ratios are medians over the rounds of ratios of the same round.

    python -m bench.writers [--rows 1000000] [--seconds 8] [--rounds 3] [--json FILE]
                            [--record FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.methods.copy import SETTINGS, Native, Ours, Way, prepared
from bench.support import common
from bench.support.peers import Peers, add_option, bindir
from bench.workloads.copy_tables import ACCOUNTS
from bench.workloads.pgbench_writers import Writers
from londiste.embedded.postgres import Cluster

ALONE, NATIVE, CAPTURE, REPLICATION = "alone", "native", "capture", "replication"


class Alone(Way):
    """A table that nobody follows."""

    name = ALONE
    key = "alone"


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--warm", type=float, default=2, help="seconds of writing before it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file that takes the results")
    common.add_record_option(parser)
    add_option(parser)
    args = parser.parse_args()
    began = time.perf_counter()
    with (
        tempfile.TemporaryDirectory() as folder,
        common.servers("source", "target", bindir=bindir(args.bindir), settings=SETTINGS) as (
            source,
            target,
        ),
    ):
        pgbench = Peers(target).pgbench()
        if pgbench is None:
            parser.error("pgbench is not installed")
        with ways(source, target, Path(folder), args.rows) as found:
            rates = measure(found, pgbench, Path(folder), args)
        with common.connect(target) as conn:
            machine = common.machine(conn)
    ratios = {
        name: statistics.median(
            rate / alone for rate, alone in zip(mine, rates[ALONE], strict=True)
        )
        for name, mine in rates.items()
    }
    common.table(
        ["", "transactions/s", "× alone"],
        [[n, f"{common.median(mine):,.0f}", f"{ratios[n]:.2f}"] for n, mine in rates.items()],
        "writers",
    )
    common.goals(
        [
            common.Goal("replication: × alone", ratios[REPLICATION], 0.75),
            common.Goal("replication: × native", ratios[REPLICATION] / ratios[NATIVE], 0.9),
        ]
    )
    print(
        f"\nMedians of {args.rounds} rounds; both sides equal after each. {machine};"
        f" took {time.perf_counter() - began:.0f} s"
    )
    common.write_json(args.json, "writers", {"tps": rates, "ratio": ratios})
    common.record(args.record)


@contextlib.contextmanager
def ways(source: Cluster, target: Cluster, folder: Path, rows: int) -> Iterator[dict[str, Way]]:
    """Prepared and in sync, by their keys; all gone afterwards."""
    place = (source, target, folder, ACCOUNTS)
    followed: dict[str, Way] = {NATIVE: Native(*place), CAPTURE: Ours(*place)}
    found = {ALONE: Alone(*place), **followed}
    with prepared(source, ACCOUNTS, rows, list(found.values())):
        for way in followed.values():
            way.fresh()
            way.copy()
        yield found


def measure(
    found: dict[str, Way], pgbench: Path, folder: Path, args: argparse.Namespace
) -> dict[str, list[float]]:
    """Transactions per second of each way in each round."""
    ours = found[CAPTURE]
    assert isinstance(ours, Ours)
    rates: dict[str, list[float]] = {ALONE: [], NATIVE: [], CAPTURE: [], REPLICATION: []}
    for number in range(args.rounds):
        order = list(rates)
        for name in order[number % 4 :] + order[: number % 4]:
            way = found.get(name, ours)
            if name == CAPTURE:
                send(ours, signal.SIGSTOP)
            with Writers(pgbench, way.source, way.key, args.rows, folder) as writers:
                writers.warm(args.warm)
                start = time.time()
                time.sleep(args.seconds)
                end = time.time()
                writers.finish()
            rates[name].append(writers.rate(start, end))
            if name == CAPTURE:
                send(ours, signal.SIGCONT)
            if name != ALONE:
                # Also waits until what was written is applied: nobody works during the next turn.
                way.check()
    return rates


def send(ours: Ours, number: signal.Signals) -> None:
    """A signal to ticker and worker."""
    for process in ours.running:
        process.send_signal(number)


if __name__ == "__main__":
    main()
