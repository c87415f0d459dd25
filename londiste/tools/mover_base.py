"""Shared parts of programs that insert events into other queues."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from londiste.changes.decode import shown
from londiste.consumer import Batch, ConsumerSettings, Event
from londiste.db import advisory_lock
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.names import word
from londiste.db.queries import translated
from londiste.dsn import db_option
from londiste.errors import BadOption, EventError, UnknownQueue
from londiste.install import compat
from londiste.pgq import producer, queues

#: What is moved; the target queue gives new ids.
FIELDS = ("time", "type", "data", "extra1", "extra2", "extra3", "extra4")


class TargetQueues:
    """The queues that one batch is moved into, in the transaction of the position.

    A node of a cascade accepts row changes, scripts and messages of the cascade from captures and
    administrators only.  The mover is an administrator, those who wrote the events may not be.
    """

    def __init__(self, conn: Connection, batch: Batch, settings: ConsumerSettings) -> None:
        self._conn = conn
        self._batch = batch
        self._settings = settings
        self._nodes: dict[str, bool] = {}

    def put(self, queue: str, events: Sequence[Event]) -> int:
        """Inserts events with their original time, by one COPY; returns their number.

        Raises EventError for an event that a plain producer may not insert into this queue;
        otherwise as ``producer.insert_events``.
        """
        rows = (
            (each.time, each.type, each.data, each.extra1, each.extra2, each.extra3, each.extra4)
            for each in events
        )
        count = producer.insert_events(self._conn, queue, rows, fields=FIELDS)
        # After the insert: now the queue cannot become a node.
        if queue not in self._nodes:
            self._nodes[queue] = queues.is_node(self._conn, queue)
        if self._nodes[queue]:
            types, tables = [event.type for event in events], [event.extra1 for event in events]
            place = producer.first_refused_event(self._conn, queue, types, tables)
            if place is not None:
                raise self._refused(queue, events[place])
        return count

    def _refused(self, queue: str, event: Event) -> EventError:
        table = f", table {shown(event.extra1)}" if event.extra1 else ""
        return refused(
            event,
            self._batch,
            f"queue {queue} is a node of a cascade and takes such events from administrators only",
            f"type {shown(event.type)}{table}: subscribers would apply it, though"
            f" every producer of queue {self._batch.queue} can write it",
            "replicate the table itself: londiste add-table; or leave the event out:"
            f" {without(event.id, self._settings.consumer_filter)}",
        )


def refused(event: Event, batch: Batch, message: str, detail: str, hint: str) -> EventError:
    """Error of an event that stops its batch."""
    return EventError(
        f"event {event.id} of queue {batch.queue}: {message}",
        detail=detail,
        hint=hint,
        queue=batch.queue,
        batch_id=batch.id,
        event_id=event.id,
    )


def without(event_id: int, condition: str) -> str:
    """The option that leaves an event out, as a condition does already; '' for none."""
    # A comment at the end would swallow the parenthesis.
    end = "\n" if "--" in condition else ""
    others = f" and ({condition}{end})" if condition.strip() else ""
    return "--set " + shlex.quote(f"consumer_filter=ev_id <> {event_id}{others}")


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
        _require_other(settings, target_queue, conn)


def check_registering(settings: ConsumerSettings, target_queue: str) -> None:
    """Refuses the source queue as target; the target may be created later."""
    with _target(settings) as conn:
        _require_other(settings, target_queue, conn)


def _require_other(settings: ConsumerSettings, target_queue: str, conn: Connection) -> None:
    if target_queue == settings.queue_name and same_database(settings, conn):
        raise BadOption(
            f"queue {target_queue}: source and target are the same queue",
            detail=f"in {describe_dsn(settings.db)}",
            hint="name another target queue in the settings, or set target_db to another database",
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
        hint=f"create it there: londiste queue create {db_option(where)} {word(queue)}",
    )


@contextmanager
def _target(settings: ConsumerSettings) -> Iterator[Connection]:
    where = settings.target_db or settings.db
    with session(where, name="londiste mover", autocommit=True) as conn:
        yield conn
