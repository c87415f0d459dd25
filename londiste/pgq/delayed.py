"""Delayed events: inserted now, delivered after a given time, cancellable until then.

The ticker daemon puts them into the queue (``queues.maint_retry_events``); ``queues.next_due``
tells it when.  In a queue that takes no events they wait until it does.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.pgq.producer import FIELDS
from londiste.pgq.types import DelayedEvent, DelayedInfo


def insert_event_at(
    conn: Connection,
    queue: str,
    send_at: datetime | timedelta,
    type: str | None,
    data: str | None,
    extra1: str | None = None,
    extra2: str | None = None,
    extra3: str | None = None,
    extra4: str | None = None,
) -> int:
    """Inserts an event for a time; its id.  A past time means now.

    send_at -- the time, or the delay from now by the clock of the server.

    Raises UnknownQueue, StateError when inserts are disabled or above the limit per transaction.
    """
    event = (type, data, extra1, extra2, extra3, extra4)
    if isinstance(send_at, timedelta):
        fields = dict(zip(FIELDS, event, strict=True))
        ((id,),) = tuples(conn, "insert_event_after", queue=queue, delay=send_at, **fields)
        return int(id)
    return int(call.value(conn, "pgq.insert_event_at", queue, send_at, *event))


def delayed_event_list(
    conn: Connection, queue: str, *, count: int | None = None, offset: int | None = None
) -> list[DelayedEvent]:
    """Events that wait, the next first: ``count`` of them (None: all) after ``offset``.

    Raises UnknownQueue.
    """

    def event(send_at: datetime, queue_id: int, *rest: Any) -> DelayedEvent:
        return DelayedEvent(send_at, *rest)

    return call.records(conn, event, "pgq.delayed_event_list", queue, count, offset)


def cancel_delayed_event(conn: Connection, queue: str, event_id: int) -> int:
    """Cancels a delayed event: 1, or 0 if it is not delayed any more.  Raises UnknownQueue."""
    return int(call.value(conn, "pgq.cancel_delayed_event", queue, event_id))


def get_delayed_info(conn: Connection, queue: str | None = None) -> list[DelayedInfo]:
    """Number of delayed events in one queue, or per queue."""
    return call.records(conn, DelayedInfo, "pgq.get_delayed_info", queue)
