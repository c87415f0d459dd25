"""From commit on the source to visible on the target at a steady rate, at default settings.

Ours is what ``create-root``, ``create-leaf``, ``add-table``, ``ticker`` and ``worker`` make of
themselves; a native subscription of the same two servers stands beside it, in turns.  A producer in
a process of its own commits transactions of one row and notes when each commit was over; a watcher
asks the target every half millisecond which rows it sees.  The rows are compared afterwards.

Then everything rests, and the ticker's and the worker's processor time and memory are taken.

    python -m bench.latency [--rate 200] [--seconds 10] [--rounds 3] [--idle 30]
                            [--json FILE] [--record FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.support import common, paced
from londiste.embedded.postgres import Cluster

QUEUE = "bench"
DDL = "create table {} (id bigint primary key, made timestamptz not null, what text)"
INSERT = (
    "insert into {0} select n, clock_timestamp(), 'row ' || n"
    " from generate_series(%s::int8 + {1}, %s::int8 + {1}) n"
)

#: Seconds between two looks of the watcher.
LOOK = 0.0005

NO_PEERS = (
    "Debian's pgqd and python3-londiste are not installed here: skipped, as they need a server with"
    " the C extension pgq."
)


@dataclass(frozen=True)
class Idle:
    """What a resting process takes: per cent of a core, megabytes resident."""

    name: str
    cpu: float
    memory: float


def main() -> None:
    """Runs the benchmark and prints two tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=200, help="transactions a second")
    parser.add_argument("--seconds", type=float, default=10, help="of each turn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle", type=float, default=30, help="seconds of rest; 0: none")
    parser.add_argument("--json", type=Path, help="file that takes the result")
    common.add_record_option(parser)
    args = parser.parse_args()
    with (
        common.servers("source", "target") as (source, target),
        tempfile.TemporaryDirectory() as folder,
        running(source, target, Path(folder)) as processes,
    ):
        ways = {"native subscription": "native", "londiste at default settings": "ours"}
        found: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(args.rounds):
            for name in ways if number % 2 == 0 else reversed(list(ways)):
                found[name] += turn(source, target, ways[name], args.rate, args.seconds)
        for table in ways.values():
            check(source, target, table)
        resting = rest(processes, args.idle) if args.idle else []
    report(args.rate, found, resting)
    common.record(args.record)
    common.write_json(
        args.json, "latency", {name: percentiles(values) for name, values in found.items()}
    )


@contextlib.contextmanager
def running(
    source: Cluster, target: Cluster, folder: Path
) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Two databases with both kinds of replication, and our two processes."""
    for cluster, database in ((source, "src"), (target, "dst")):
        cluster.create_database(database)
        with common.connect(cluster, database) as conn:
            for table in ("ours", "native"):
                conn.execute(DDL.format(table).encode())
    with common.connect(source, "src") as conn:
        conn.execute("create publication p for table native")
    with common.connect(target, "dst") as conn:
        conn.execute(
            f"create subscription s connection '{source.dsn('src')}' publication p".encode()
        )
    files = {
        "root": (folder / "root.toml", source.dsn("src")),
        "leaf": (folder / "leaf.toml", target.dsn("dst")),
    }
    for name, (file, dsn) in files.items():
        file.write_text(f'[londiste]\ndb = "{dsn}"\nqueue_name = "{QUEUE}"\njob_name = "{name}"\n')
    (folder / "ticker.toml").write_text(f'[ticker]\ndb = "{source.dsn("src")}"\n')
    (root, root_dsn), (leaf, leaf_dsn) = files["root"], files["leaf"]
    for file in (root, leaf):
        londiste(file, "install")
    londiste(root, "create-root", "root", root_dsn)
    londiste(leaf, "create-leaf", "leaf", leaf_dsn, "--provider", root_dsn)
    londiste(root, "add-table", "ours")
    londiste(leaf, "add-table", "ours")
    processes = {
        name: subprocess.Popen(
            [sys.executable, "-m", "londiste", "-q", "-c", str(folder / file), name]
        )
        for name, file in (("ticker", "ticker.toml"), ("worker", "leaf.toml"))
    }
    try:
        with common.connect(target, "dst") as conn:
            common.wait_until(
                "select exists (select 1 from londiste.table_info where merge_state = 'ok')", conn
            )
            common.wait_until(
                "select not exists (select 1 from pg_subscription_rel where srsubstate <> 'r')"
                " and exists (select 1 from pg_subscription_rel)",
                conn,
            )
        yield processes
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait()
        with common.connect(target, "dst") as conn:
            conn.execute("drop subscription s")


def londiste(file: Path, *args: str) -> None:
    """Runs a command of ours."""
    subprocess.run([sys.executable, "-m", "londiste", "-q", "-c", str(file), *args], check=True)


def turn(source: Cluster, target: Cluster, table: str, rate: float, seconds: float) -> list[float]:
    """Seconds from commit to visible, of each transaction."""
    with common.connect(source, "src") as conn:
        row = conn.execute(f"select coalesce(max(id), 0) from {table}".encode()).fetchone()
    assert row is not None
    last: int = row[0]
    producer = paced.start(source.dsn("src"), INSERT.format(table, last + 1), rate, seconds)
    seen: list[float] = []
    query = f"select max(id) from {table} where id > %s".encode()
    with common.connect(target, "dst") as conn:
        while len(seen) < producer.total:
            top = conn.execute(query, [last], prepare=True).fetchone()
            if top is not None and top[0] is not None:
                seen += [time.monotonic()] * (top[0] - last)
                last = top[0]
            time.sleep(LOOK)
    return [there - made for there, made in zip(seen, producer.committed(), strict=True)]


def check(source: Cluster, target: Cluster, table: str) -> None:
    """The target holds what the source holds."""
    found = []
    for cluster, database in ((source, "src"), (target, "dst")):
        with common.connect(cluster, database) as conn:
            query = f"select count(*), sum(hashtextextended(t::text, 0)) from {table} t"
            found.append(conn.execute(query.encode()).fetchone())
    if found[0] != found[1]:
        raise AssertionError(f"{table}: source and target: {found}")


def rest(processes: dict[str, subprocess.Popen[bytes]], seconds: float) -> list[Idle]:
    """What our processes take while nothing happens."""
    # The looks of before get rarer within this time.
    time.sleep(20)
    before = {name: _processor_seconds(process.pid) for name, process in processes.items()}
    started = time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - started
    return [
        Idle(
            name,
            (_processor_seconds(process.pid) - before[name]) / took * 100,
            _resident(process.pid),
        )
        for name, process in processes.items()
    ]


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} says nothing of its memory")


def percentiles(values: Sequence[float]) -> list[float]:
    """The milliseconds within which half, 95 and 99 of a hundred were there."""
    ordered = sorted(values)
    return [
        round(ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000, 1)
        for part in (0.5, 0.95, 0.99)
    ]


def report(rate: float, found: dict[str, list[float]], resting: Sequence[Idle]) -> None:
    """Prints the tables in Markdown and one line of JSON."""
    title = f"Commit to visible at {rate:g} transactions a second"
    print(f"\n## {title}\n\n{common.machine()}")
    rows, cells = [], []
    for name, values in found.items():
        p50, p95, p99 = percentiles(values)
        rows.append({"name": name, "count": len(values), "p50": p50, "p95": p95, "p99": p99})
        cells.append([name, f"{p50:.1f}", f"{p95:.1f}", f"{p99:.1f}"])
    common.table(["way", "p50 ms", "p95 ms", "p99 ms"], cells, "commit-to-visible")
    print(f"\n{len(next(iter(found.values()))):,} transactions of each way.")
    print("\nThe rows of both sides are equal afterwards.")
    if not (shutil.which("pgqd") and shutil.which("londiste3")):
        print(f"\n{NO_PEERS}")
    if resting:
        rest_cells = [[one.name, f"{one.cpu:.2f}", f"{one.memory:.0f}"] for one in resting]
        common.table(["", "per cent of a core", "MB resident"], rest_cells, "at-rest")
    idle = [{"name": i.name, "cpu": round(i.cpu, 3), "mb": round(i.memory, 1)} for i in resting]
    print("\n" + json.dumps({"title": title, "unit": "ms", "rows": rows, "idle": idle}))


if __name__ == "__main__":
    main()
