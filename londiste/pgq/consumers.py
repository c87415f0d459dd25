"""Registered consumers: what kind of program each is, and their pauses.

A pause is a row in the database of the queue.  So any client with the rights of a consumer can
pause, and a restarted program stays paused.
"""

from __future__ import annotations

import contextlib
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from londiste.db import call
from londiste.db.connection import Connection
from londiste.errors import InstallError


class ConsumerKind(StrEnum):
    """Kinds of consumers; ``CONSUMER`` if none is recorded.

    SINK -- no consumer, a query of Spark that writes here.
    NODE, COPY, WATERMARK -- what a cascade registers, known by its name.
    """

    CONSUMER = "consumer"
    STREAM = "stream"
    LAKE = "lake"
    DISPATCH = "dispatch"
    MOVER = "mover"
    SPLITTER = "splitter"
    SINK = "sink"
    NODE = "node"
    COPY = "copy"
    WATERMARK = "watermark"

    @property
    def is_of_cascade(self) -> bool:
        """Whether the cascade itself registers it."""
        return self in (ConsumerKind.NODE, ConsumerKind.COPY, ConsumerKind.WATERMARK)


def note_consumer_kind(conn: Connection, queue: str, consumer: str, kind: ConsumerKind) -> None:
    """Records the kind of a consumer; no effect with older schemas.  Raises UnknownConsumer."""
    with contextlib.suppress(InstallError):
        call.value(conn, "pgq.note_consumer_kind", queue, consumer, kind.value)


def get_consumer_kinds(conn: Connection, queue: str | None = None) -> dict[tuple[str, str], str]:
    """(queue, consumer) -> kind of those that recorded one; None stands for all queues."""
    try:
        rows = call.rows(conn, "pgq.get_consumer_kinds", queue)
    except InstallError:
        return {}
    return {(row["queue_name"], row["consumer_name"]): row["kind"] for row in rows}


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
