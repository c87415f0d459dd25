"""Consumer pauses: pause, resume and list paused consumers.

A pause is a row in the database of the queue.  So any client with the rights of a consumer can
pause, and a restarted program stays paused.
"""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from londiste.db import call
from londiste.db.connection import Connection


class Paused(NamedTuple):
    """A consumer that is paused."""

    queue: str
    consumer: str
    since: datetime
    reason: str | None


def pause_consumer(conn: Connection, queue: str, consumer: str, reason: str | None = None) -> bool:
    """Pauses a consumer after its batch; False if it is paused already.

    Raises UnknownConsumer.
    """
    return bool(call.value(conn, "pgq.pause_consumer", queue, consumer, reason))


def resume_consumer(conn: Connection, queue: str, consumer: str) -> bool:
    """Resumes a consumer; False if it was not paused."""
    return bool(call.value(conn, "pgq.resume_consumer", queue, consumer))


def get_paused_consumers(
    conn: Connection, queue: str | None = None, consumer: str | None = None
) -> list[Paused]:
    """The paused consumers; None stands for all queues, all consumers."""
    return call.records(conn, Paused, "pgq.get_paused_consumers", queue, consumer)
