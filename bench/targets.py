"""What a batch writes besides the queue's own positions, while an old snapshot is held.

    python -m bench.targets [--batches 0,10000,50000] [--parts tick,batch,…]

tick    the bookkeeping of "exactly once in another database" (pgq_ext), by tick
batch   the same by batch
event   marks of ten events per batch ("once per event")
node    the position of a worker or another cascaded consumer (pgq_node)
coop    next_batch and finish_batch of a cooperative consumer
retry   maint_retry_events() after so many events were moved, ten per call
delayed the same for events that were inserted for later, a thousand per call

Another session holds a snapshot of the same database all the time.  A step is what one batch asks
for, in one transaction of a client; the steps between two measurements are made by a loop in the
server.  Commits do not wait for the disk: what is compared is the work of the functions.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import LiteralString

import psycopg

from bench.support import common
from londiste.embedded.postgres import Cluster
from londiste.install import apply

#: The numbers of batches and ticks that steps use, so that none comes twice.
NUMBER: LiteralString = "create sequence public.n start 100"


@dataclass(frozen=True)
class Part:
    """One kind of bookkeeping: how it is prepared, and the statements of one step.

    ``{n}`` is a number that grows with every step.
    """

    title: str
    prepare: tuple[LiteralString, ...]
    step: tuple[LiteralString, ...]
    per_step: int = 1


KNOWN: LiteralString = (
    "pgq_ext.note_known_source('c', '', 'q', '6f2b1c1e-1111-4111-8111-111111111111', 1, {n}, now())"
)

PARTS: dict[str, Part] = {
    "tick": Part(
        "exactly once elsewhere, by tick",
        ("select pgq_ext.set_last_tick('c', '', 1)",),
        (
            "pgq_ext.get_last_tick('c', '')",
            "(select tick_id from pgq_ext.get_known_source('c', ''))",
            "pgq_ext.set_last_tick('c', '', {n})",
            KNOWN,
        ),
    ),
    "batch": Part(
        "exactly once elsewhere, by batch",
        ("select pgq_ext.set_batch_done('c', '', 1)",),
        (
            "(select tick_id from pgq_ext.get_known_source('c', ''))",
            "pgq_ext.is_batch_done('c', '', {n})",
            "pgq_ext.set_batch_done('c', '', {n})",
            KNOWN,
            "pgq_ext.set_event_returned('c', '', {n}, {n}, 1, null, 'again')",
            "(select count(*) from pgq_ext.get_returned_events('c', '', {n}))",
        ),
    ),
    "event": Part(
        "once per event, ten events a batch",
        (),
        (
            "(select bool_or(pgq_ext.is_event_done('c', '', {n}, e))"
            " from generate_series(1, 10) e)",
            "(select bool_and(pgq_ext.set_event_done('c', '', {n}, e))"
            " from generate_series(1, 10) e)",
        ),
    ),
    "node": Part(
        "position of a node's consumer",
        (
            "select pgq_node.register_location('q', 'root', 'dbname=x', false)",
            "select pgq_node.create_node('q', 'root', 'root', 'w', null, null, null)",
            "select pgq_node.register_consumer('q', 'c', 'root', 1)",
        ),
        (
            "(select completed_tick from pgq_node.get_consumer_state('q', 'c'))",
            "(select ret_code from pgq_node.move_consumer_completed('q', 'c',"
            " (select last_tick_id from pgq_node.local_state where consumer_name = 'c'), {n}))",
        ),
    ),
    "coop": Part(
        "cooperative consumer, next_batch and finish_batch",
        (
            "select pgq.create_queue('q')",
            "insert into pgq.tick (tick_queue, tick_id, tick_event_seq)"
            " select 1, n, n from generate_series(2, 300000) n",
            "vacuum analyze pgq.tick",
            "select pgq.register_consumer_at('q', 'c', 2)",
            "select pgq_coop.register_subconsumer('q', 'c', 'a')",
            "select pgq_coop.register_subconsumer('q', 'c', 'b')",
        ),
        ("pgq_coop.finish_batch(pgq_coop.next_batch('q', 'c', 'a', '1 hour'))",),
    ),
    "retry": Part(
        "maint_retry_events(), ten events moved",
        (
            "select pgq.create_queue('q')",
            "select pgq.register_consumer('q', 'c')",
            "insert into pgq.retry_queue (ev_retry_after, ev_queue, ev_id, ev_time, ev_owner,"
            " ev_retry) select now() + n * interval '1 us', 1, n, now(), sub_id, 1"
            " from pgq.subscription, generate_series(1, 400000) n",
            "vacuum analyze pgq.retry_queue",
        ),
        ("pgq.maint_retry_events()",),
        per_step=10,
    ),
    "delayed": Part(
        "maint_retry_events(), a thousand delayed events moved",
        (
            "select pgq.create_queue('q')",
            "insert into pgq.delayed_event (ev_send_at, ev_queue, ev_id)"
            " select now() - interval '1 day' + n * interval '1 us', 1, n"
            " from generate_series(1, 400000) n",
            "vacuum analyze pgq.delayed_event",
        ),
        ("pgq.maint_retry_events()",),
        per_step=1000,
    ),
}


def main() -> None:
    """Measures each part in a database of its own and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", default="0,10000,50000")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--steps", type=int, default=500, help="measured, at each point")
    parser.add_argument("--version", type=int, default=18)
    args = parser.parse_args()
    points = [int(point) for point in args.batches.split(",")]
    print(f"\n## Milliseconds for the bookkeeping of a batch\n\n{common.machine()}\n")
    print("| bookkeeping | " + " | ".join(f"held for {point:,}" for point in points) + " |")
    print("|---|" + "--:|" * len(points))
    with common.servers("targets", version=args.version) as (cluster,):
        for name in args.parts.split(","):
            part = PARTS[name]
            figures = measure(cluster, name, part, points, args.steps)
            print(f"| {part.title} | {' | '.join(f'{ms:.2f}' for ms in figures)} |", flush=True)


def measure(cluster: Cluster, name: str, part: Part, points: list[int], steps: int) -> list[float]:
    """The best of five runs of steps in a client, at each point; milliseconds per step."""
    common.connect(cluster).execute(f"create database {name}_db".encode())
    conn = common.connect(cluster, f"{name}_db")
    apply.install(conn)
    conn.execute("set synchronous_commit = off")
    conn.execute(NUMBER)
    for statement in part.prepare:
        conn.execute(statement)
    figures, done = [], 0
    with psycopg.connect(cluster.dsn(f"{name}_db")) as holder:
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select count(*) from pgq.queue")
        for point in points:
            if point > done:
                fill(conn, part, (point - done) // part.per_step)
                done = point
            figures.append(min(run(conn, part, steps // 5) for _ in range(5)) * 1000)
            done += steps * part.per_step
        holder.rollback()
    conn.close()
    return figures


def fill(conn: psycopg.Connection, part: Part, count: int) -> None:
    """Makes so many steps in the server, a transaction each."""
    body = " ".join(f"perform {call.format(n='v_n')};" for call in part.step)
    conn.execute(
        "do $$ declare v_n int8; begin"
        f" for i in 1 .. {count} loop v_n := nextval('public.n'); {body} commit;"
        # What the ticker's maintenance does besides.
        " if i % 5000 = 0 then perform pgq.maint_positions(); commit; end if;"
        " end loop; end $$".encode()
    )


def run(conn: psycopg.Connection, part: Part, count: int) -> float:
    """Seconds per step of a client."""
    row = conn.execute("select nextval('public.n')").fetchone()
    assert row is not None
    numbers = range(row[0] + 1, row[0] + 1 + count)
    conn.execute("select setval('public.n', %s)", [numbers[-1] + 1])
    started = time.perf_counter()
    for number in numbers:
        with conn.transaction():
            for call in part.step:
                conn.execute(f"select {call.format(n=number)}".encode())
    return (time.perf_counter() - started) / count


if __name__ == "__main__":
    main()
