"""Consumers of one queue, and queues in one database: what ticks, batches and maintenance cost."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg

from bench.scale.axes import axis
from bench.scale.meter import Cost, Meter, settings, wait
from bench.support import common
from londiste.embedded.postgres import Cluster

#: Repetitions of what takes less time than a processor's clock shows.
REPEATED = 50


@axis("consumers", (1, 10, 100, 1000), ("source",))
def consumers(meter: Meter, size: int) -> Iterator[Cost]:
    """Consumers of a queue that is ticked and rotated; each consumer reads a batch."""
    (source,) = meter.servers
    install(meter, source)
    with common.connect(source, "src") as conn:
        conn.execute("select pgq.create_queue('q')")
        names = [f"c{number}" for number in range(size)]
        for name in names:
            conn.execute("select pgq.register_consumer('q', %s)", [name])
        with meter.watched(f"{REPEATED} ticks") as found:
            for _ in range(REPEATED):
                tick(conn)
        yield from found
        some = names[:10]
        with meter.watched(f"{REPEATED} batches of one consumer") as found:
            for number in range(REPEATED):
                batch(conn, some[number % len(some)])
        yield from found
        # One consumer alone has read all ticks.
        tick(conn)
        with meter.watched("a batch of each consumer") as found:
            for name in names:
                batch(conn, name)
        yield from found
        yield from _maintenance(meter, source)
        yield meter.command("queue status", "queue", "status", "--db", source.dsn("src"))


@axis("queues", (1, 10, 100, 500), ("source",))
def queues(meter: Meter, size: int) -> Iterator[Cost]:
    """Queues of a database with a consumer each, in which nothing happens, and one that is used."""
    (source,) = meter.servers
    install(meter, source)
    with common.connect(source, "src") as conn:
        for number in range(size):
            conn.execute("select pgq.create_queue(%s)", [f"q{number}"])
            conn.execute("select pgq.register_consumer(%s, 'c')", [f"q{number}"])
        conn.execute("select pgq.insert_event('q0', 'type', 'data')")
        with meter.watched(f"{REPEATED} rounds of pgq.ticker()") as found:
            for _ in range(REPEATED):
                conn.execute("select pgq.ticker()")
        yield from found
        yield from _maintenance(meter, source)
        file = settings(meter.folder, "ticker", "ticker", {"db": source.dsn("src")})
        with meter.daemon("-c", file, "ticker") as ticker:
            last = "select max(tick_id) from pgq.tick join pgq.queue on queue_id = tick_queue"
            last += f" where queue_name = 'q{size - 1}'"
            row = conn.execute(last.encode()).fetchone()
            assert row is not None
            with meter.watched("ticker: start, a tick of each queue", ticker) as found:
                for number in range(size):
                    conn.execute("select pgq.insert_event(%s, 'type', 'data')", [f"q{number}"])
                wait(f"select ({last}) > {row[0]}", source, "src")
            yield from found
        yield meter.command("queue status", "queue", "status", "--db", source.dsn("src"))


def install(meter: Meter, source: Cluster, database: str = "src") -> None:
    """Creates a database with the queue's SQL."""
    source.create_database(database)
    meter.command("install", "queue", "install", "--db", source.dsn(database))


def tick(conn: psycopg.Connection) -> None:
    """An event, and a tick behind it."""
    conn.execute("select pgq.insert_event('q', 'type', 'data')")
    conn.execute("select pgq.force_tick('q')")
    conn.execute("select pgq.ticker('q')")


def batch(conn: psycopg.Connection, consumer: str) -> None:
    """Opens the next batch, reads it and finishes it."""
    row = conn.execute("select pgq.next_batch('q', %s)", [consumer]).fetchone()
    assert row is not None and row[0] is not None
    conn.execute("select count(*) from pgq.get_batch_events(%s)", [row[0]])
    conn.execute("select pgq.finish_batch(%s)", [row[0]])


def _maintenance(meter: Meter, source: Cluster) -> Iterator[Cost]:
    """Looks for all that is due, and does it."""
    yield meter.command("maintenance", "queue", "maint", "--db", source.dsn("src"))
