"""Dead letters: failed events of a consumer, kept until they are retried or deleted.

    event_retry_or_fail(conn, batch.id, event.id, 60, max_attempts=5, reason=str(error))
    ...
    for event in failed_events(conn, queue, consumer): ...      the events and their reasons
    failed_event_retry(conn, queue, consumer, event.id)         deliver again, attempts restart at 0
    failed_event_delete(conn, queue, consumer, event.id)        delete it

They belong to the subscription: cooperative consumers share them, and they go with it when the
main consumer is unregistered.  ``get_waiting_info`` counts them, so that a command can warn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import argument, word
from londiste.pgq.types import FailedEvent, WaitingInfo

#: Failed events are read in lists of this many.
PAGE = 1000


def event_failed(conn: Connection, batch_id: int, event_id: int, reason: str | None) -> int:
    """Moves an event of an open batch to the dead letters: 1, or 0 if it is one already.

    Raises StateError when the batch is not open or has no such event.
    """
    return int(call.value(conn, "pgq.event_failed", batch_id, event_id, reason))


def event_retry_or_fail(
    conn: Connection,
    batch_id: int,
    event_id: int,
    seconds: int,
    *,
    max_attempts: int | None,
    reason: str | None,
) -> Literal["retry", "failed"]:
    """Schedules a retry after ``seconds``, or moves the event to the dead letters; which of both.

    max_attempts -- deliveries altogether, the first included; None: the queue's
        ``max_retries``, which always applies.
    reason -- kept with the event when it fails.

    Raises StateError when the batch is not open or has no such event.
    """
    answer: Literal["retry", "failed"] = call.value(
        conn, "pgq.event_retry_or_fail", batch_id, event_id, seconds, max_attempts, reason
    )
    return answer


def events_retry_or_fail(
    conn: Connection,
    batch_id: int,
    event_ids: Sequence[int],
    seconds: Sequence[int | None],
    max_attempts: Sequence[int | None],
    reasons: Sequence[str | None],
) -> int:
    """Schedules retries of events, or moves them to the dead letters; the number moved now.

    seconds -- None: a dead letter at once.
    max_attempts, reasons -- as in ``event_retry_or_fail``.

    Raises StateError when the batch is not open, does not have one of the events, or has different
    ones with its id.
    """
    lists = (list(each) for each in (event_ids, seconds, max_attempts, reasons))
    return int(call.value(conn, "pgq.events_retry_or_fail", batch_id, *lists))


def failed_event_list(
    conn: Connection,
    queue: str,
    consumer: str,
    *,
    count: int | None = None,
    offset: int | None = None,
) -> list[FailedEvent]:
    """Failed events by id: ``count`` of them (None: all) after the first ``offset``.

    Raises UnknownConsumer when the consumer is not registered.
    """
    return call.records(
        conn, _failed_event, "pgq.failed_event_list", queue, consumer, count, offset
    )


def failed_events(conn: Connection, queue: str, consumer: str) -> Iterator[FailedEvent]:
    """All failed events by id, a page in memory at a time.

    Every page is a query of its own: to retry or delete while reading, make a list first.
    """
    offset = 0
    while page := failed_event_list(conn, queue, consumer, count=PAGE, offset=offset):
        yield from page
        offset += len(page)


def failed_event_count(conn: Connection, queue: str, consumer: str) -> int:
    """Number of failed events of the consumer.  Raises UnknownConsumer."""
    return int(call.value(conn, "pgq.failed_event_count", queue, consumer))


def failed_event_retry(conn: Connection, queue: str, consumer: str, event_id: int) -> int:
    """Puts a failed event back into the queue, for this consumer; its id.

    Raises UnknownConsumer, or StateError when it is not among the failed ones.
    """
    return int(call.value(conn, "pgq.failed_event_retry", queue, consumer, event_id))


def failed_event_retry_all(conn: Connection, queue: str, consumer: str) -> int:
    """Puts all failed events back into the queue; their number.  Raises UnknownConsumer."""
    return int(call.value(conn, "pgq.failed_event_retry_all", queue, consumer))


def failed_event_delete(conn: Connection, queue: str, consumer: str, event_id: int) -> None:
    """Deletes a failed event.  Raises UnknownConsumer, or StateError if there is none."""
    call.value(conn, "pgq.failed_event_delete", queue, consumer, event_id)


def failed_event_delete_all(conn: Connection, queue: str, consumer: str) -> int:
    """Deletes all failed events; their number.  Raises UnknownConsumer."""
    return int(call.value(conn, "pgq.failed_event_delete_all", queue, consumer))


def get_waiting_info(
    conn: Connection, queue: str | None = None, consumer: str | None = None
) -> list[WaitingInfo]:
    """Number of retries and dead letters per consumer; None stands for all."""
    return call.records(conn, WaitingInfo, "pgq.get_waiting_info", queue, consumer)


def _failed_event(
    reason: str | None, time: object, queue_id: int, id: int, *fields: object
) -> FailedEvent:
    """A row of pgq.failed_queue, whose number of the queue nobody needs."""
    ev_time, txid, owner, *rest = fields
    return FailedEvent(reason, time, id, ev_time, txid, owner, *rest)  # type: ignore[arg-type]


def in_words(conn: Connection, queue: str, consumer: str) -> str:
    """Events that are lost with a consumer, as the end of a sentence; empty if there are none."""
    text = ""
    for one in get_waiting_info(conn, queue, consumer):
        if one.retries:
            text += f", {one.retries} events to retry"
        if one.dead:
            text += f", {one.dead} dead letters"
    return text


def lists(conn: Connection, queue: str, consumer: str) -> list[str]:
    """The commands that list what waits for a consumer."""
    commands = []
    for one in get_waiting_info(conn, queue, consumer):
        if one.retries:
            commands.append(
                f"londiste queue retry list {word(queue)} --consumer {argument(consumer)}"
            )
        if one.dead:
            commands.append(f"londiste queue dead list {word(queue)} {argument(consumer)}")
    return commands
