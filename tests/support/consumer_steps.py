"""Consumers for tests: a function or a class, under every delivery contract."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import londiste
from londiste import Consumer, Context, Delivery, Event
from londiste.pgq import queues
from tests.fixtures.cluster import Database

QUEUE = "q"

#: The one of cascades has tests of its own.
ALL = [d for d in Delivery if d is not Delivery.CASCADE_NODE]

ELSEWHERE = [Delivery.EXACTLY_ONCE_ELSEWHERE, Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH]


def send(db: Database, *data: str, type: str = "t", extra1: str | None = None) -> None:
    """Events in one batch of their own."""
    with londiste.Producer(db.dsn, QUEUE) as producer:
        for text in data:
            producer.send(type, text, extra1)
    tick(db)


def tick(db: Database) -> int:
    conn = db.connect()
    queues.force_tick(conn, QUEUE)
    made = queues.ticker(conn, QUEUE)
    conn.close()
    assert made is not None
    return made


def effects(db: Database) -> list[str]:
    return [data for (data,) in db.execute("select data from effects order by ev_id")]


def position(db: Database) -> int:
    """The tick that the queue has for the consumer."""
    return int(db.value("select last_tick from pgq.get_consumer_info('q', 'storing')"))


def store(event: Event, ctx: Context) -> None:
    ctx.db.execute("insert into effects values (%s, %s)", [event.id, event.data])


class Storing(Consumer):
    """Stores what it gets; fails where a test says so."""

    queue = QUEUE
    name = "storing"
    fail: Callable[[Event], Any] | None = None

    def process_event(self, event: Event, ctx: Context) -> None:
        store(event, ctx)
        if self.fail is not None:
            self.fail(event)


def make(
    db: Database, delivery: Delivery, tmp_path: Path, kind: type[Consumer] = Storing, **given: Any
) -> Any:
    cls = type(kind.__name__, (kind,), {"delivery": delivery})
    if delivery is Delivery.LOCAL_FILE:
        given.setdefault("local_tracking_file", tmp_path / "position")
    return cls(db.dsn, poll_interval=0.05, max_retry_delay=0.1, **given)
