"""Replay of the same backlog by one queue and by two, set up with ``londiste replicate --queues``.

Two tables without relatives get the same number of rows while no daemon runs, with a tick after
each 10,000 rows.  Measured is the time from the first row on the target to the last one.

Two workers gain only what one worker leaves idle.  They, the two servers and the backends of both
need a processor each.  A machine with 2 cores shows no gain of its own: two workers only get a
larger share of processors that other work wants too.

    python -m bench.side_by_side [--rows 200000] [--queues 1,2] [--rounds 3]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile

import psycopg

from bench.support import common
from londiste.embedded.postgres import Cluster

TABLES = ("one", "two")
#: Rows of a table between two ticks; a transaction is a tenth of it.
BATCH = 10_000


def main() -> None:
    """Runs the benchmark and prints its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000, help="of each of the two tables")
    parser.add_argument("--queues", default="1,2", help="numbers of queues, the base first")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    counts = [int(text) for text in args.queues.split(",")]
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    with (
        common.servers("source", "target") as (source, target),
        tempfile.TemporaryDirectory() as state,
    ):
        os.environ["XDG_STATE_HOME"] = state
        for count in counts:
            _set_up(source, target, count)
        for number in range(args.rounds):
            first = number * args.rows + 1
            for count in counts:
                _write(source, count, first, args.rows)
            for count in counts:
                seconds[count].append(_replay(source, target, count, first, args.rows))
    rows = [
        common.Row(_name(count), common.median(found), len(TABLES) * args.rows)
        for count, found in seconds.items()
    ]
    common.report("Backlog of several queues", "rows", rows, _name(counts[0]))


def _name(count: int) -> str:
    return f"{count} queue{'s' if count > 1 else ''}"


def _command(source: Cluster, target: Cluster, count: int, *more: str) -> list[str]:
    dsns = [cluster.dsn(f"queues{count}") for cluster in (source, target)]
    return [sys.executable, "-m", "londiste", "replicate", *dsns, *more]


def _set_up(source: Cluster, target: Cluster, count: int) -> None:
    for cluster in (source, target):
        cluster.create_database(f"queues{count}")
    with common.connect(source, f"queues{count}") as conn:
        for table in TABLES:
            conn.execute(f"create table {table} (id bigint primary key, n int, what text)".encode())
    subprocess.run(
        _command(source, target, count, "--queues", str(count), "--once"),
        check=True,
        capture_output=True,
    )


def _write(source: Cluster, count: int, first: int, rows: int) -> None:
    """Inserts the rows of a round, while no daemon runs."""
    with common.connect(source, f"queues{count}") as conn:
        # Only replay is measured: the disk need not be waited for here.
        conn.execute("set synchronous_commit = off")
        step = BATCH // 10
        for start in range(first, first + rows, step):
            end = min(start + step, first + rows) - 1
            for table in TABLES:
                values = f"i, i % 1000, 'row ' || i from generate_series({start}, {end}) i"
                conn.execute(f"insert into {table} select {values}".encode())
            if (end - first + 1) % BATCH == 0:
                _tick(conn)
        _tick(conn)


def _tick(conn: psycopg.Connection) -> None:
    conn.execute("select pgq.force_tick(queue_name) from pgq.get_queue_info()")
    conn.execute("select pgq.ticker()")


def _replay(source: Cluster, target: Cluster, count: int, first: int, rows: int) -> float:
    """The time from the first row to the last one."""
    last = first + rows - 1
    there = " {} ".join(f"exists (select from {table} where id = {{}})" for table in TABLES)
    process = subprocess.Popen(
        _command(source, target, count), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        with common.connect(target, f"queues{count}") as conn:
            common.wait_until("select " + there.format(first, "or", first), conn)
            found = common.wait_until("select " + there.format(last, "and", last), conn)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
    for table in TABLES:
        count_and_hash = f"select count(*), sum(hashtext({table}::text)) from {table}".encode()
        contents = []
        for cluster in (source, target):
            with common.connect(cluster, f"queues{count}") as conn:
                contents.append(conn.execute(count_and_hash).fetchone())
        assert contents[0] == contents[1], f"{table}: {contents}"
    return found


if __name__ == "__main__":
    main()
