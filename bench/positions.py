"""Positions of consumers while an old snapshot is held: 4.0.0 and today in one run.

    python -m bench.positions [--batches 0,10000,50000,200000] [--old-limit 50000]

Both SQL versions are installed in databases of one server.  A consumer takes empty batches as fast
as it can (``next_batch_info`` and ``finish_batch``, a transaction each), first with nobody else,
then while another session holds a snapshot that it took before.  A pair is counted in the client;
the batches between two measurements are made by a loop in the server, because the old layout would
take hours otherwise.  Beyond ``--old-limit`` the old layout is left out: its cost per batch grows
with every batch, so reaching a point costs the square of it.

Commits do not wait for the disk here: what is compared is the work of the functions.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.support import common
from londiste.embedded.postgres import Cluster
from londiste.install import apply

OLD = Path(__file__).parent.parent / "tests" / "upgrade" / "frozen" / "4.0.0"

#: Ticks made before and while the snapshot is held, for what is measured besides positions.
TICKS = 1_000_000
AGE = 10_000

#: Makes as many batches as asked for, each in two transactions.
FILL = """
do $$
declare
    v_batch int8;
begin
    for i in 1 .. {count} loop
        v_batch := pgq.next_batch('q', 'c');
        commit;
        perform pgq.finish_batch(v_batch);
        commit;
        if i % 5000 = 0 and to_regproc('pgq.maint_positions') is not null then
            perform pgq.maint_positions();
            commit;
        end if;
    end loop;
end;
$$
"""


@dataclass
class Side:
    """One version of the SQL: its session, and what was measured."""

    name: str
    conn: psycopg.Connection
    done: int = 0
    per_second: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", default="0,10000,50000,200000")
    parser.add_argument("--old-limit", type=int, default=50000)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--version", type=int, default=18)
    args = parser.parse_args()
    points = [int(point) for point in args.batches.split(",")]
    with common.servers("positions", version=args.version) as (cluster,):
        old, new = (
            prepare(cluster, "old", OLD, points[-1]),
            prepare(cluster, "new", None, points[-1]),
        )
        compare([old, new], "no snapshot held", args.pairs)
        holders = [hold(cluster, name) for name in ("old", "new")]
        old.done = new.done = 0
        for point in points:
            sides = [side for side in (old, new) if side is new or point <= args.old_limit]
            for side in sides:
                fill(side, point)
            compare(sides, f"held for {point:,} batches", args.pairs)
        report(old, new)
        print_others(new, "no snapshot held")
        age_others(new)
        print_others(new, f"held for {AGE:,} changes")
        for holder in holders:
            holder.close()


def prepare(cluster: Cluster, name: str, root: Path | None, batches: int) -> Side:
    """A database with a queue, ticks enough, and a consumer at the first of them."""
    common.connect(cluster).execute(f"create database {name}_db")
    with psycopg.connect(cluster.dsn(f"{name}_db"), autocommit=True) as installer:
        apply.install(installer, **({} if root is None else {"root": root}))  # type: ignore[arg-type]
    conn = common.connect(cluster, f"{name}_db")
    conn.execute("set synchronous_commit = off")
    conn.execute("select pgq.create_queue('q')")
    conn.execute(
        "insert into pgq.tick (tick_queue, tick_id, tick_event_seq)"
        " select 1, n, n from generate_series(2, %s) n",
        [batches + 100_000],
    )
    conn.execute("create table public.position (name text primary key, last_tick int8)")
    conn.execute("insert into public.position values ('q', 0)")
    conn.execute("vacuum analyze")
    conn.execute("select pgq.register_consumer_at('q', 'c', 2)")
    return Side(name, conn)


def hold(cluster: Cluster, name: str) -> psycopg.Connection:
    """A session that looks at its database as it is now, and goes on looking."""
    conn = psycopg.connect(cluster.dsn(f"{name}_db"))
    conn.execute("set transaction isolation level repeatable read")
    conn.execute("select count(*) from pgq.queue")
    return conn


def fill(side: Side, until: int) -> None:
    """Takes batches until so many were taken since the snapshot."""
    if until > side.done:
        side.conn.execute(FILL.format(count=until - side.done))
        side.done = until


def measure(side: Side, pairs: int) -> float:
    """Batches per second of a client that takes one after the other."""
    started = time.perf_counter()
    for _ in range(pairs):
        row = side.conn.execute("select * from pgq.next_batch_info('q', 'c')").fetchone()
        assert row is not None
        side.conn.execute("select pgq.finish_batch(%s)", [row[0]])
    side.done += pairs
    return pairs / (time.perf_counter() - started)


def compare(sides: list[Side], label: str, pairs: int) -> None:
    """Measures in turns, so that what else the machine does meets both."""
    for _ in range(8):
        for side in sides:
            keep_best(side, label, measure(side, pairs // 8))
    for side in sides:
        side.bytes[label] = size(side)


def keep_best(side: Side, label: str, per_second: float) -> None:
    """The best of the runs: what disturbs makes it slower, never faster."""
    side.per_second[label] = max(per_second, side.per_second.get(label, 0.0))


def size(side: Side) -> int:
    """Bytes of what positions take, with indexes."""
    row = side.conn.execute(
        "select sum(pg_total_relation_size(oid))::int8 from pg_class"
        " where relnamespace = 'pgq'::regnamespace and relkind = 'r' and relname = any(%s)",
        [["subscription", "registration", "position_0", "position_1", "position_state"]],
    ).fetchone()
    assert row is not None
    return int(row[0])


def age_others(side: Side) -> None:
    """Makes and deletes ticks as rotation does, and moves what is an UPDATE per batch."""
    for number in range(10):
        last = TICKS + AGE * number // 10
        side.conn.execute(
            "insert into pgq.tick (tick_queue, tick_id, tick_event_seq)"
            " select 1, n, n from generate_series(%s, %s) n",
            [last + 1, last + AGE // 10],
        )
        side.conn.execute("delete from pgq.tick where tick_id <= %s", [last])
        side.conn.execute("select pgq.register_consumer_at('q', 'c', %s)", [last + 1])
    side.conn.execute(
        f"do $$ begin for i in 1 .. {AGE} loop"
        " update public.position set last_tick = i where name = 'q'; commit;"
        " end loop; end $$"
    )


def print_others(side: Side, label: str) -> None:
    """Microseconds of looks that each batch or tick needs."""
    looks = {
        "newest tick (get_queue_info)": "select last_tick_id from pgq.get_queue_info('q')",
        "tick after the consumer": "select tick_id from pgq.tick where tick_queue = 1"
        " and tick_id > (select max(sub_last_tick) from pgq.subscription) order by 1 limit 1",
        "oldest tick": "select min(tick_id) from pgq.tick where tick_queue = 1",
        "row with an UPDATE per batch": "select last_tick from public.position where name = 'q'",
    }
    print(f"\n{label}:")
    for name, look in looks.items():
        times = []
        for _ in range(200):
            started = time.perf_counter()
            side.conn.execute(look)
            times.append(time.perf_counter() - started)
        print(f"* {name}: {common.median(times) * 1e6:,.0f} µs")
    row = side.conn.execute("select pg_total_relation_size('pgq.tick')").fetchone()
    assert row is not None
    print(f"* pgq.tick: {row[0] / 1e6:.1f} MB")


def report(old: Side, new: Side) -> None:
    """Prints a Markdown table and one JSON line."""
    print(f"\n## Batches per second of one consumer\n\n{common.machine()}\n")
    print("| snapshot | 4.0.0, batches/s | now, batches/s | now / 4.0.0 | 4.0.0, MB | now, MB |")
    print("|---|--:|--:|--:|--:|--:|")
    for label, now in new.per_second.items():
        before = old.per_second.get(label)
        print(
            f"| {label} | {f'{before:,.0f}' if before else '–'} | {now:,.0f} |"
            f" {f'{now / before:.2f}' if before else '–'} |"
            f" {megabytes(old, label)} | {megabytes(new, label)} |"
        )
    print("\n" + json.dumps({"old": old.per_second, "new": new.per_second}))


def megabytes(side: Side, label: str) -> str:
    """The size measured there."""
    return f"{side.bytes[label] / 1e6:.1f}" if label in side.bytes else "–"


if __name__ == "__main__":
    main()
