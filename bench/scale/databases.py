"""Databases under one ticker, cooperative workers of a consumer, the size of a copied table."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from bench.scale.axes import axis
from bench.scale.cascade import QUEUE, Cascade
from bench.scale.meter import Cost, Meter, wait
from bench.scale.queues import install, tick
from bench.support import common

#: Seconds of rest, after which the ticker looks rarely, and those that are measured.
SETTLE, REST = 20, 30
#: Batches that cooperative workers share, and their ticks.
BATCHES = 256


@axis("databases", (1, 10, 50, 100), ("source",))
def databases(meter: Meter, size: int) -> Iterator[Cost]:
    """Databases with a queue each under one ticker: at rest, and with an event in each."""
    (source,) = meter.servers
    names = [f"db{number}" for number in range(size)]
    source.create_database(names[0])
    meter.command("install", "queue", "install", "--db", source.dsn(names[0]))
    with common.connect(source, names[0]) as conn:
        conn.execute("select pgq.create_queue('q'), pgq.register_consumer('q', 'c')")
    with common.connect(source) as conn:
        for name in names[1:]:
            conn.execute(f"create database {name} template {names[0]}".encode())
    for name in names[1:]:
        # A copy of a database has another history than its original: it says that it is one.
        meter.command("rebase", "queue", "rebase", "--db", source.dsn(name))
    file = meter.folder / "ticker.toml"
    file.write_text(f"[ticker]\ndatabases = {json.dumps([source.dsn(name) for name in names])}\n")
    ticked = "select count(*) > {} from pgq.tick"
    with meter.daemon("-c", str(file), "ticker") as ticker:
        for name in names:
            _event(meter, name)
        with meter.watched("start, a tick in each database", ticker) as found:
            for name in names:
                wait(ticked.format(1), source, name)
        yield from found
        time.sleep(SETTLE)
        with meter.watched(f"{REST} s at rest", ticker) as found:
            time.sleep(REST)
        yield from found
        with meter.watched("an event in each database, until ticked", ticker) as found:
            for name in names:
                _event(meter, name)
            for name in names:
                wait(ticked.format(2), source, name)
        yield from found


def _event(meter: Meter, name: str) -> None:
    with common.connect(meter.servers[0], name) as conn:
        conn.execute("select pgq.insert_event('q', 'type', 'data')")


@axis("subconsumers", (1, 4, 16, 64), ("source",))
def subconsumers(meter: Meter, size: int) -> Iterator[Cost]:
    """Cooperative workers that take the same batches in turn, of one event each."""
    (source,) = meter.servers
    install(meter, source)
    with common.connect(source, "src") as conn:
        conn.execute("select pgq.create_queue('q')")
        names = [f"w{number}" for number in range(size)]
        for name in names:
            conn.execute("select pgq_coop.register_subconsumer('q', 'c', %s)", [name])
        for _ in range(BATCHES):
            tick(conn)
        with meter.watched(f"{BATCHES} batches of all workers together") as found:
            for number in range(BATCHES):
                name = names[number % size]
                row = conn.execute("select pgq_coop.next_batch('q', 'c', %s)", [name]).fetchone()
                assert row is not None and row[0] is not None
                conn.execute("select count(*) from pgq.get_batch_events(%s)", [row[0]])
                conn.execute("select pgq_coop.finish_batch(%s)", [row[0]])
        yield from found
        with meter.watched("looks of all workers, nothing is there") as found:
            for name in names:
                conn.execute("select pgq_coop.next_batch('q', 'c', %s)", [name])
        yield from found


@axis("copied", (1_000_000, 4_000_000, 16_000_000), ("source", "target"))
def copied(meter: Meter, size: int) -> Iterator[Cost]:
    """Rows of a copied table, about 130 bytes each, with a key and an index."""
    cascade = Cascade(meter)
    cascade.execute(
        "root",
        "create table rows (id bigint primary key, n int, what text)",
        f"insert into rows select i, i % 1000, repeat(md5(i::text), 3)"
        f" from generate_series(1, {size}) i",
        "create index on rows (n)",
        "vacuum (analyze) rows",
        "checkpoint",
    )
    yield from cascade.replicate("rows")
    with common.connect(cascade.servers["leaf"], "leaf") as conn:
        steps = conn.execute(
            "select step, seconds, coalesce(busy, seconds) from londiste.copy_steps(%s)"
            " order by started_at",
            [QUEUE],
        ).fetchall()
    for step, seconds, busy in steps:
        # The work of its tasks stands where processor time does: the server does nearly all of it.
        yield Cost(f"step {step}", float(seconds), 0.0, float(busy), 0.0, 0)
