"""Consumer progress in the target database (schema ``pgq_ext``).

Recorded in the transaction of the effects, so that both commit or neither:

    with target.transaction():
        if ext.set_batch_done(target, consumer, batch.id):
            ...                                            apply the batch
    batches.finish_batch(source, batch.id)                 a batch that comes again is not applied

One function per SQL function of the schema ``pgq_ext``.  ``subconsumer`` is the name of a worker
of a cooperative consumer, or of any other part that keeps its own position.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from londiste.db import call
from londiste.db.connection import Connection


def is_batch_done(conn: Connection, consumer: str, batch_id: int, subconsumer: str = "") -> bool:
    """Whether this is the batch that was recorded last; earlier batches are not kept."""
    return bool(call.value(conn, "pgq_ext.is_batch_done", consumer, subconsumer, batch_id))


def set_batch_done(conn: Connection, consumer: str, batch_id: int, subconsumer: str = "") -> bool:
    """Records that this transaction applies the batch; False if that was recorded before."""
    return bool(call.value(conn, "pgq_ext.set_batch_done", consumer, subconsumer, batch_id))


def is_event_done(
    conn: Connection, consumer: str, batch_id: int, event_id: int, subconsumer: str = ""
) -> bool:
    """Whether the event of the current batch is done."""
    return bool(
        call.value(conn, "pgq_ext.is_event_done", consumer, subconsumer, batch_id, event_id)
    )


def set_event_done(
    conn: Connection, consumer: str, batch_id: int, event_id: int, subconsumer: str = ""
) -> bool:
    """Records that an event is done; False if that was recorded before.

    The first event of another batch deletes the records of the batch before.
    """
    return bool(
        call.value(conn, "pgq_ext.set_event_done", consumer, subconsumer, batch_id, event_id)
    )


def get_event_batch(conn: Connection, consumer: str, subconsumer: str = "") -> int | None:
    """The batch whose events are recorded; None if none is."""
    batch = call.value(conn, "pgq_ext.get_event_batch", consumer, subconsumer)
    return None if batch is None else int(batch)


def forget_batches(conn: Connection, consumer: str, subconsumer: str = "") -> None:
    """Deletes all records of batches, events and queue: the next batch is processed."""
    call.value(conn, "pgq_ext.forget_batches", consumer, subconsumer)


class ReturnedEvent(NamedTuple):
    """An event of an applied batch that goes back to the queue.

    seconds -- deliver it again after this time; None for a dead letter.
    max_attempts -- deliveries after which it is a dead letter instead; None for no limit.
    """

    event_id: int
    seconds: int | None
    max_attempts: int | None
    reason: str | None


def set_event_returned(
    conn: Connection,
    consumer: str,
    batch_id: int,
    event: ReturnedEvent,
    subconsumer: str = "",
) -> bool:
    """Records that an event goes back to the queue; False if that was recorded before.

    The first one of another batch deletes the records of the batch before.
    """
    return bool(
        call.value(
            conn,
            "pgq_ext.set_event_returned",
            consumer,
            subconsumer,
            batch_id,
            event.event_id,
            event.seconds,
            event.max_attempts,
            event.reason,
        )
    )


def get_returned_events(
    conn: Connection, consumer: str, batch_id: int, subconsumer: str = ""
) -> list[ReturnedEvent]:
    """The events of an applied batch that go back to the queue."""
    return call.records(
        conn, ReturnedEvent, "pgq_ext.get_returned_events", consumer, subconsumer, batch_id
    )


def get_last_tick(conn: Connection, consumer: str, subconsumer: str = "") -> int | None:
    """The tick up to which the consumer has applied everything; None if none is recorded."""
    tick = call.value(conn, "pgq_ext.get_last_tick", consumer, subconsumer)
    return None if tick is None else int(tick)


def set_last_tick(conn: Connection, consumer: str, tick: int | None, subconsumer: str = "") -> None:
    """Records the tick up to which this transaction has applied everything; None deletes it."""
    call.value(conn, "pgq_ext.set_last_tick", consumer, subconsumer, tick)


class KnownSource(NamedTuple):
    """The queue that a position belongs to; see ``londiste.pgq.position_check.Known``.

    generation, registration -- None where they are not compared.
    """

    queue_name: str
    generation: UUID | None
    registration: int | None
    tick_id: int
    tick_time: datetime


def get_known_source(conn: Connection, consumer: str, subconsumer: str = "") -> KnownSource | None:
    """The recorded queue of the position; None if none is recorded."""
    found = call.records(conn, KnownSource, "pgq_ext.get_known_source", consumer, subconsumer)
    return found[0] if found else None


def note_known_source(
    conn: Connection, consumer: str, known: KnownSource, subconsumer: str = ""
) -> None:
    """Records it, in the caller's transaction; generation and registration None: unchanged."""
    call.value(conn, "pgq_ext.note_known_source", consumer, subconsumer, *known)


def forget_known_source(conn: Connection, consumer: str, subconsumer: str = "") -> None:
    """Deletes the record: the next queue that is found counts as the queue of the position."""
    call.value(conn, "pgq_ext.forget_known_source", consumer, subconsumer)
