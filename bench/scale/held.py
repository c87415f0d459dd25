"""Open snapshots and prepared transactions that are held, and ticks that wait for a consumer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psycopg

from bench.scale import queues
from bench.scale.axes import axis
from bench.scale.meter import Cost, Meter
from bench.support import common

#: Repetitions of what takes less time than a processor's clock shows.
REPEATED = 200


@axis("held", (100, 1_000, 10_000, 36_000), ("source",))
def held(meter: Meter, size: int) -> Iterator[Cost]:
    """Batches while a snapshot is held: 36,000 are an hour at ten a second; a prepared one too."""
    yield from _held(meter, size, "snapshot")
    yield from _held(meter, size, "prepared")


def _held(meter: Meter, size: int, what: str) -> Iterator[Cost]:
    (source,) = meter.servers
    database = f"held_{what}"
    queues.install(meter, source, database)
    with (
        common.connect(source, database) as conn,
        common.connect(source, database) as other,
        contextlib.ExitStack() as stack,
    ):
        conn.execute("select pgq.create_queue('q'), pgq.register_consumer('q', 'c')")
        conn.execute("create table public.t (id int primary key)")
        _batches(conn, REPEATED)
        if what == "snapshot":
            other.execute("begin isolation level repeatable read")
            other.execute("select count(*) from public.t")
            stack.callback(other.execute, "rollback")
        else:
            other.execute("begin")
            other.execute("insert into public.t values (1)")
            other.execute("prepare transaction 'held'")
            stack.callback(other.execute, "rollback prepared 'held'")
        with meter.watched(f"{what}: these batches") as found:
            _batches(conn, size)
        yield from found
        with meter.watched(f"{what}: {REPEATED} batches more") as found:
            _batches(conn, REPEATED)
        yield from found
        with meter.watched(f"{what}: maintenance") as found:
            conn.execute("select pgq.maint_rotate_tables_step1('q')")
            conn.execute("select pgq.maint_rotate_tables_step2()")
        yield from found
        yield meter.command(
            f"{what}: queue status", "queue", "status", "--db", source.dsn(database)
        )


@axis("ticks", (1_000, 10_000, 100_000, 1_000_000), ("source",))
def ticks(meter: Meter, size: int) -> Iterator[Cost]:
    """Ticks that a consumer has not read: 17 million are a day of 200 a second."""
    (source,) = meter.servers
    queues.install(meter, source)
    with common.connect(source, "src") as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("select pgq.set_queue_config('q', 'external_ticker', 'true')")
        conn.execute("select pgq.register_consumer('q', 'behind'), pgq.register_consumer('q', 'c')")
        with meter.watched("the ticks") as found:
            _ticks(conn, size)
        yield from found
        conn.execute("analyze pgq.tick")
        with meter.watched(f"{REPEATED} ticks more") as found:
            _ticks(conn, REPEATED)
        yield from found
        with meter.watched(f"{REPEATED} batches of the consumer behind") as found:
            for _ in range(REPEATED):
                queues.batch(conn, "behind")
        yield from found
        conn.execute(
            "select pgq.register_consumer_at('q', 'c', max(tick_id) - %s) from pgq.tick", [REPEATED]
        )
        with meter.watched(f"{REPEATED} batches of one that is not") as found:
            for _ in range(REPEATED):
                queues.batch(conn, "c")
        yield from found
        with meter.watched("get_queue_info, get_consumer_info") as found:
            conn.execute("select * from pgq.get_queue_info()").fetchall()
            conn.execute("select * from pgq.get_consumer_info()").fetchall()
        yield from found
        yield meter.command("queue status", "queue", "status", "--db", source.dsn("src"))
        yield meter.command(
            "queue maint, nothing to remove", "queue", "maint", "--db", source.dsn("src")
        )
        conn.execute("update pgq.queue set queue_rotation_period = '0'")
        for rotation in ("first", "second"):
            # It frees what is older than the rotation before it.
            _ticks(conn, 1)
            for name in ("behind", "c"):
                conn.execute(
                    "select pgq.register_consumer_at('q', %s, max(tick_id)) from pgq.tick", [name]
                )
            yield meter.command(
                f"queue maint, all read, {rotation}", "queue", "maint", "--db", source.dsn("src")
            )
        row = conn.execute("select count(*) from pgq.tick").fetchone()
        assert row is not None and row[0] < 10, row


def _ticks(conn: psycopg.Connection, number: int) -> None:
    conn.execute(
        "select count(pgq.ticker('q', last + i, now(), 0))"
        " from (select max(tick_id) as last from pgq.tick) m, generate_series(1, %s) i",
        [number],
    )


def _batches(conn: psycopg.Connection, number: int) -> None:
    for _ in range(number):
        queues.tick(conn)
        queues.batch(conn, "c")
