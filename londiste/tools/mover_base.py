"""Shared parts of programs that insert events into other queues."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from londiste.consumer import ConsumerSettings, Event
from londiste.db import advisory_lock
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.names import word
from londiste.db.queries import translated
from londiste.errors import BadOption, UnknownQueue
from londiste.install import compat
from londiste.pgq import producer, queues

#: What is moved; the target queue gives new ids.
FIELDS = ("time", "type", "data", "extra1", "extra2", "extra3", "extra4")


def put(conn: Connection, queue: str, events: Iterable[Event]) -> int:
    """Inserts events with their original time; returns their number.

    One COPY; ``events`` are taken one by one.  Raises as ``producer.insert_events``.
    """
    rows = (
        (event.time, event.type, event.data, event.extra1, event.extra2, event.extra3, event.extra4)
        for event in events
    )
    return producer.insert_events(conn, queue, rows, fields=FIELDS)


def check(settings: ConsumerSettings, target_queue: str | None = None) -> None:
    """Checks the target: it must exist, and must not be the source queue.

    target_queue -- the target queue; None: not known yet.
    """
    with _target(settings) as conn:
        compat.check(conn, "pgq", original=True)
        compat.check(conn, "pgq_ext")
        if target_queue is None:
            return
        if not queues.get_queue_info(conn, target_queue):
            raise unknown(target_queue, settings)
        if target_queue == settings.queue_name and same_database(settings, conn):
            raise BadOption(
                f"queue {target_queue}: source and target are the same queue",
                detail=f"in {describe_dsn(settings.db)}",
                hint="set dst_queue_name to another queue, or target_db to another database",
            )


def same_database(settings: ConsumerSettings, target: Connection) -> bool:
    """Whether source and target are one database."""
    with session(settings.db, name="londiste mover", autocommit=True) as conn:
        with translated(describe_dsn(settings.target_db or settings.db)):
            return advisory_lock.same_database(conn, target)


def unknown(queue: str, settings: ConsumerSettings) -> UnknownQueue:
    """Error of a missing target queue."""
    where = settings.target_db or settings.db
    return UnknownQueue(
        f"queue {queue}: the target queue does not exist",
        detail=f"in {describe_dsn(where)}",
        hint=f"create it there: londiste queue create {word(queue)}",
    )


@contextmanager
def _target(settings: ConsumerSettings) -> Iterator[Connection]:
    where = settings.target_db or settings.db
    with session(where, name="londiste mover", autocommit=True) as conn:
        yield conn
