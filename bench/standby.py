"""Load on the provider while a backlog is replayed, with and without a standby that is read.

Two leaves of one root have the same backlog.  Their workers catch up one after the other, one with
read_from and one without, in turns.  Afterwards both targets are checked against the source.
Printed are medians of the rounds: processor time of the servers, and the time on the clock.

    python -m bench.standby [--events 500000] [--batch 10000] [--rounds 3] [--record FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import conninfo

from bench.support import common, cpu
from bench.workloads import replay_changes
from londiste.embedded.account import server_account, short_temp_dir
from londiste.embedded.postgres import Cluster

SETTINGS = {"checkpoint_timeout": "1h", "max_wal_size": "16GB", "wal_level": "replica"}
QUEUE, KEY, WORKLOAD = "bench", "shop", "rows"
LEAVES = {"provider": "worker", "standby": "worker, read_from"}
HEADERS = ("way", "provider, s", "standby, s", "subscriber, s", "worker, s", "clock, s")


@dataclass(frozen=True)
class Used:
    """Processor time of the servers and the worker, and the clock, in seconds."""

    provider: float
    standby: float
    target: float
    worker: float
    clock: float


def main() -> None:
    """Measures, and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=10_000, help="rows changed between two ticks")
    parser.add_argument("--rounds", type=int, default=3)
    common.add_record_option(parser)
    args = parser.parse_args()
    found: dict[str, list[Used]] = {leaf: [] for leaf in LEAVES}
    with (
        common.servers("source", "target", settings=SETTINGS) as (source, target),
        tempfile.TemporaryDirectory() as folder,
    ):
        prepare(source, target, Path(folder), args.rows)
        with standby(source) as place:
            for leaf in LEAVES:
                configure(Path(folder), leaf, target, place if leaf == "standby" else None)
            for number in range(args.rounds):
                write(source, args.events, args.batch, number)
                wait_for_replay(source, place)
                for leaf in sorted(LEAVES, reverse=bool(number % 2)):
                    found[leaf].append(measure(Path(folder), leaf, source, target, place))
        check(source, target)
    cells = [[LEAVES[leaf], *medians(runs)] for leaf, runs in found.items()]
    print(f"\n{args.events:,} events, medians of {args.rounds} rounds; {common.machine()}\n")
    common.table(HEADERS, cells, "read_from")
    common.record(args.record)


def medians(runs: list[Used]) -> list[str]:
    """One cell for each field."""
    fields = ("provider", "standby", "target", "worker", "clock")
    return [f"{common.median([getattr(run, name) for run in runs]):.2f}" for name in fields]


def prepare(source: Cluster, target: Cluster, folder: Path, rows: int) -> None:
    """A root and two leaves with equal tables."""
    databases = {"root": source.dsn(KEY), **{leaf: target.dsn(leaf) for leaf in LEAVES}}
    for cluster, names in ((source, [KEY]), (target, list(LEAVES))):
        for name in names:
            cluster.create_database(name)
            with common.connect(cluster, name) as conn:
                replay_changes.create(conn, WORKLOAD, rows)
    tables = replay_changes.tables(WORKLOAD)
    for name, dsn in databases.items():
        settings(folder, name, dsn)
        run(folder, name, "install")
        if name == "root":
            run(folder, name, "create-root", name, dsn)
            run(folder, name, "add-table", *tables, "--form", "row")
        else:
            run(folder, name, "create-leaf", name, dsn, "--provider", databases["root"])
            run(folder, name, "add-table", *tables, "--expect-sync")


def settings(folder: Path, name: str, dsn: str, *more: str) -> None:
    """The settings file of a node."""
    lines = [f'db = "{dsn}"', f'queue_name = "{QUEUE}"', f'job_name = "{name}"']
    lines += ['engine = "local"', "read_from_wait = 30.0", *more]
    (folder / f"{name}.toml").write_text("[londiste]\n" + "\n".join(lines) + "\n")


def configure(folder: Path, leaf: str, target: Cluster, place: Path | None) -> None:
    """With a standby to read from, or without."""
    more = [] if place is None else [f'read_from = "{at(place, KEY)}"']
    settings(folder, leaf, target.dsn(leaf), *more)


def at(place: Path, database: str) -> str:
    """Connection string of the standby."""
    return conninfo.make_conninfo(host=str(place), port=5432, user="postgres", dbname=database)


@contextlib.contextmanager
def standby(source: Cluster) -> Iterator[Path]:
    """A streaming standby of the source; the directory of its socket."""
    account = server_account()
    place = Path(tempfile.mkdtemp(prefix="ld-bench", dir=short_temp_dir(account)))
    account.own(place, 0o700)

    def program(name: str, *words: object) -> None:
        subprocess.run(
            [str(source.program(name)), *map(str, words)],
            env=source.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            **account.popen_options(),
        )

    data = place / "data"
    options = f"-c unix_socket_directories='{place}' -c port=5432"
    try:
        program("pg_basebackup", "-D", data, "-R", "-c", "fast", "-d", source.dsn("postgres"))
        program("pg_ctl", "-D", data, "-l", place / "log", "-o", options, "-w", "start")
        yield place
        program("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)


def write(source: Cluster, events: int, batch: int, number: int) -> None:
    """The backlog of one round, a tick after each batch."""
    with common.connect(source, KEY) as conn:
        # Only reading is measured: the disk need not be waited for here.
        conn.execute("set synchronous_commit = off")
        for start in range(0, events, batch):
            replay_changes.change(conn, (number * 0.1 + start / 1e7) % 1, batch)
            conn.execute("select pgq.force_tick(%s)", [QUEUE])
            conn.execute("select pgq.ticker(%s)", [QUEUE])


def wait_for_replay(source: Cluster, place: Path) -> None:
    """The standby has all of it: what is measured is reading."""
    with common.connect(source, KEY) as conn:
        row = conn.execute("select pg_current_wal_flush_lsn()").fetchone()
    assert row is not None
    with psycopg.connect(at(place, "postgres"), autocommit=True) as conn:
        common.wait_until(f"select pg_last_wal_replay_lsn() >= '{row[0]}'", conn)


def measure(folder: Path, leaf: str, source: Cluster, target: Cluster, place: Path) -> Used:
    """One worker catches up."""
    pid = int((place / "data/postmaster.pid").read_text().split("\n", 1)[0])
    assert source.pid is not None and target.pid is not None
    watches = [cpu.Stopwatch(one) for one in (source.pid, pid, target.pid)]
    started = time.perf_counter()
    process = subprocess.Popen(command(folder, leaf, "worker", "--once"))
    _, code, usage = os.wait4(process.pid, 0)
    clock = time.perf_counter() - started
    if code != 0:
        raise AssertionError(f"the worker ended with {code}")
    used = [watch.cpu() for watch in watches]
    return Used(used[0], used[1], used[2], usage.ru_utime + usage.ru_stime, clock)


def check(source: Cluster, target: Cluster) -> None:
    """All have the same rows."""
    answers = []
    for cluster, database in ((source, KEY), *((target, leaf) for leaf in LEAVES)):
        with common.connect(cluster, database) as conn:
            answers.append(replay_changes.contents(conn, WORKLOAD))
    if answers.count(answers[0]) != len(answers):
        raise AssertionError("the targets differ from the source")


def run(folder: Path, node: str, *words: str) -> None:
    """Runs a command of ours on one of the nodes."""
    done = subprocess.run(command(folder, node, *words), capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"londiste {' '.join(words)}: {done.stderr}")


def command(folder: Path, node: str, *words: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-m", "londiste", "-q", "-c", str(folder / f"{node}.toml"), *words]


if __name__ == "__main__":
    main()
