"""Replay of a backlog: this project's worker against a native subscription, same changes.

Four tables of six columns (the fourth with a second unique index) are filled on the source and
copied to two target databases.  Then the same changes (40 % insert, 50 % update with a fifth of
them on hot keys, 10 % delete, ten rows a transaction) are captured by our trigger and, through
a slot made beforehand, kept for the subscription.  Each side applies the backlog alone; both
targets are checked against the source afterwards.

    python -m bench.replay [--events 200000] [--rows 100000] [--batch 10000] [--rounds 1]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from bench import common
from londiste.embedded.postgres import Cluster

QUEUE = "bench"
TABLES = [f"t{n}" for n in range(1, 5)]
DDL = """
create table {t} (id bigint primary key, a int, b text, c numeric, d timestamptz, e bool)
"""
FILL = """
insert into {t} select i, i % 1000, 'row ' || i, i / 7.0,
    timestamptz '2024-01-01' + i * interval '1 s',
    i % 2 = 0 from generate_series(1, {rows}) i
"""


def main() -> None:
    """Runs the benchmark and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rows", type=int, default=100_000, help="rows per table at the start")
    parser.add_argument("--batch", type=int, default=10_000, help="events between two ticks")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    ours: list[float] = []
    native: list[float] = []
    for number in range(args.rounds):
        # A fresh pair each round, and turns: neither side always finds the caches warm.
        a, b = one_round(args.events, args.rows, args.batch, native_first=number % 2 == 0)
        ours.append(a)
        native.append(b)
    common.report(
        f"Replay of {args.events:,} events in batches of {args.batch:,}",
        "events",
        [
            common.Row("native subscription", common.median(native), args.events),
            common.Row("londiste worker", common.median(ours), args.events),
        ],
        base="native subscription",
        notes=[f"Medians of {args.rounds} rounds; both targets equal to the source after each."],
    )


def one_round(events: int, rows: int, batch: int, *, native_first: bool) -> tuple[float, float]:
    """Seconds of our worker and of the subscription for the same backlog."""
    with (
        common.servers("source", "target") as (source, target),
        tempfile.TemporaryDirectory() as tmp,
    ):
        source.create_database("src")
        for name in ("ours", "native"):
            target.create_database(name)
        fill(source, target, rows)
        files = settings(Path(tmp), source, target)
        prepare_ours(files)
        with common.connect(source, "src") as conn:
            conn.execute("create publication p for table t1, t2, t3, t4")
            conn.execute("select pg_create_logical_replication_slot('s', 'pgoutput')")
            change(conn, events, rows, batch)
        with common.connect(target, "native") as conn:
            conn.execute(
                f"create subscription s connection '{source.dsn('src')}' publication p"
                " with (create_slot = false, slot_name = 's', copy_data = false, enabled = false)"
            )
        runs = {"native": lambda: native(source, target), "ours": lambda: ours(files, target)}
        order = ["native", "ours"] if native_first else ["ours", "native"]
        seconds = {name: runs[name]() for name in order}
        check(source, target)
        with common.connect(target, "native") as conn:
            conn.execute("drop subscription s")
        return seconds["ours"], seconds["native"]


def fill(source: Cluster, target: Cluster, rows: int) -> None:
    """The same tables with the same rows in all three databases."""
    for cluster, name in ((source, "src"), (target, "ours"), (target, "native")):
        with common.connect(cluster, name) as conn:
            for table in TABLES:
                conn.execute(DDL.format(t=table))
                conn.execute(FILL.format(t=table, rows=rows))
            conn.execute("create unique index on t4 (d)")
            conn.execute("vacuum analyze")


def settings(folder: Path, source: Cluster, target: Cluster) -> dict[str, Path]:
    """Settings files of the two nodes."""
    files = {}
    for name, cluster, database in (("root", source, "src"), ("leaf", target, "ours")):
        files[name] = folder / f"{name}.toml"
        files[name].write_text(
            f'[londiste]\ndb = "{cluster.dsn(database)}"\nqueue_name = "{QUEUE}"\n'
            f'job_name = "{name}"\nengine = "local"\nloop_delay = 0.05\n'
        )
    return files


def londiste(file: Path, *args: str) -> None:
    """Runs a command of ours."""
    subprocess.run([sys.executable, "-m", "londiste", "-q", "-c", str(file), *args], check=True)


def prepare_ours(files: dict[str, Path]) -> None:
    """Root and leaf, the tables attached without a copy: they are equal already."""
    root, leaf = files["root"], files["leaf"]
    locations = {name: dsn(file) for name, file in files.items()}
    for file in (root, leaf):
        londiste(file, "install")
    londiste(root, "create-root", "root", locations["root"])
    londiste(leaf, "create-leaf", "leaf", locations["leaf"], "--provider", locations["root"])
    londiste(root, "add-table", *TABLES)
    londiste(leaf, "add-table", *TABLES, "--expect-sync")


def dsn(file: Path) -> str:
    """The connection string in a settings file."""
    for line in file.read_text().splitlines():
        if line.startswith("db = "):
            return line.split('"')[1]
    raise ValueError(file)


def change(conn: psycopg.Connection, events: int, rows: int, batch: int) -> None:
    """Makes the changes, ten rows a transaction, with a tick after every ``batch`` events."""
    pick = random.Random(1)
    live = dict.fromkeys(TABLES, rows)
    gone: dict[str, set[int]] = {table: set() for table in TABLES}
    hot = min(2000, rows)
    done = 0
    conn.execute("select pgq.ticker(%s)", [QUEUE])
    while done < events:
        with conn.pipeline(), conn.transaction():
            for _ in range(10):
                table = pick.choice(TABLES)
                what = pick.random()
                if what < 0.4:
                    live[table] += 1
                    key = live[table]
                    conn.execute(
                        f"insert into {table} values (%s, 1, 'new', 1.5,"
                        " timestamptz '2024-01-01' + %s * interval '1 s', true)",
                        [key, key],
                    )
                else:
                    top = hot if what < 0.5 else live[table]
                    key = pick.randint(1, top)
                    while key in gone[table]:
                        key = pick.randint(1, live[table])
                    if what < 0.9:
                        conn.execute(
                            f"update {table} set a = a + 1, c = c + 0.1 where id = %s", [key]
                        )
                    else:
                        conn.execute(f"delete from {table} where id = %s", [key])
                        gone[table].add(key)
        done += 10
        if done % batch == 0:
            tick(conn)
    tick(conn)


def tick(conn: psycopg.Connection) -> None:
    """A tick now, whatever the queue's settings are."""
    conn.execute("select pgq.force_tick(%s)", [QUEUE])
    conn.execute("select pgq.ticker(%s)", [QUEUE])


def ours(files: dict[str, Path], target: Cluster) -> float:
    """Starts the worker on the backlog; seconds until the last tick is applied."""
    del target
    started = time.perf_counter()
    londiste(files["leaf"], "worker", "--once")
    return time.perf_counter() - started


def native(source: Cluster, target: Cluster) -> float:
    """Enables the subscription; seconds until it has flushed the last change."""
    with common.connect(source, "src") as src, common.connect(target, "native") as dst:
        row = src.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        started = time.perf_counter()
        dst.execute("alter subscription s enable")
        common.wait_until(
            "select coalesce(bool_and(replay_lsn >= "
            f"'{row[0]}'::pg_lsn), false) from pg_stat_replication where application_name = 's'",
            src,
        )
        return time.perf_counter() - started


def check(source: Cluster, target: Cluster) -> None:
    """Both targets hold what the source holds."""
    for table in TABLES:
        found = []
        for cluster, name in ((source, "src"), (target, "ours"), (target, "native")):
            with common.connect(cluster, name) as conn:
                query = f"select count(*), sum(hashtextextended({table}::text, 0)) from {table}"
                found.append(conn.execute(query).fetchone())  # type: ignore[call-overload]
        if len(set(found)) != 1:
            raise AssertionError(f"{table}: source, ours, native: {found}")


if __name__ == "__main__":
    main()
