"""Dead letters: events that a consumer gave up on, kept until somebody decides about them.

    event_retry_or_fail(conn, batch.id, event.id, 60, max_attempts=5, reason=str(error))
    ...
    for event in failed_events(conn, queue, consumer): ...      what is there, and why
    failed_event_retry(conn, queue, consumer, event.id)         once more, attempts counted anew
    failed_event_delete(conn, queue, consumer, event.id)        forget it

They belong to the subscription: cooperative consumers share them, and they go with it when the
main consumer is unregistered.  ``get_waiting_info`` counts them, so that a command can warn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from londiste.db import call
from londiste.db.connection import Connection
from londiste.pgq.types import FailedEvent, WaitingInfo

#: Failed events are read in lists of this many.
PAGE = 1000


def event_failed(conn: Connection, batch_id: int, event_id: int, reason: str | None) -> int:
    """Gives up on an event of an open batch: 1, or 0 when it is put aside already.

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
    """Asks for an event again in so many seconds, or gives it up; which of them.

    max_attempts -- deliveries altogether, the first included; None leaves it to the queue's
        ``max_retries``, which holds in any case.
    reason -- kept with the event when it fails.

    Raises StateError when the batch is not open or has no such event.
    """
    answer: Literal["retry", "failed"] = call.value(
        conn, "pgq.event_retry_or_fail", batch_id, event_id, seconds, max_attempts, reason
    )
    return answer


def failed_event_list(
    conn: Connection,
    queue: str,
    consumer: str,
    *,
    count: int | None = None,
    offset: int | None = None,
) -> list[FailedEvent]:
    """Failed events by id: ``count`` of them (None: all) behind the first ``offset``.

    Raises UnknownConsumer when the consumer is not registered.
    """
    return call.records(
        conn, _failed_event, "pgq.failed_event_list", queue, consumer, count, offset
    )


def failed_events(conn: Connection, queue: str, consumer: str) -> Iterator[FailedEvent]:
    """All failed events by id, a page in memory at a time.

    Every page is a query of its own: who retries or deletes while reading takes a list first.
    """
    offset = 0
    while page := failed_event_list(conn, queue, consumer, count=PAGE, offset=offset):
        yield from page
        offset += len(page)


def failed_event_count(conn: Connection, queue: str, consumer: str) -> int:
    """How many events of the consumer failed.  Raises UnknownConsumer."""
    return int(call.value(conn, "pgq.failed_event_count", queue, consumer))


def failed_event_retry(conn: Connection, queue: str, consumer: str, event_id: int) -> int:
    """Puts a failed event back into the queue, for this consumer; its id.

    Raises UnknownConsumer, or StateError when it is not among the failed ones.
    """
    return int(call.value(conn, "pgq.failed_event_retry", queue, consumer, event_id))


def failed_event_retry_all(conn: Connection, queue: str, consumer: str) -> int:
    """Puts all failed events back into the queue; how many.  Raises UnknownConsumer."""
    return int(call.value(conn, "pgq.failed_event_retry_all", queue, consumer))


def failed_event_delete(conn: Connection, queue: str, consumer: str, event_id: int) -> None:
    """Forgets a failed event.  Raises UnknownConsumer, or StateError when there is none."""
    call.value(conn, "pgq.failed_event_delete", queue, consumer, event_id)


def failed_event_delete_all(conn: Connection, queue: str, consumer: str) -> int:
    """Forgets all failed events; how many.  Raises UnknownConsumer."""
    return int(call.value(conn, "pgq.failed_event_delete_all", queue, consumer))


def get_waiting_info(
    conn: Connection, queue: str | None = None, consumer: str | None = None
) -> list[WaitingInfo]:
    """How many events wait for a retry or failed, per consumer; None stands for all."""
    rows = call.rows(conn, "pgq.get_waiting_info", queue, consumer)
    return [WaitingInfo(**row) for row in rows]


def _failed_event(
    reason: str | None, time: object, queue_id: int, id: int, *fields: object
) -> FailedEvent:
    """A row of pgq.failed_queue, whose number of the queue nobody needs."""
    ev_time, txid, owner, *rest = fields
    return FailedEvent(reason, time, id, ev_time, txid, owner, *rest)  # type: ignore[arg-type]


__all__ = [
    "event_failed",
    "event_retry_or_fail",
    "failed_event_count",
    "failed_event_delete",
    "failed_event_delete_all",
    "failed_event_list",
    "failed_event_retry",
    "failed_event_retry_all",
    "failed_events",
    "get_waiting_info",
]
