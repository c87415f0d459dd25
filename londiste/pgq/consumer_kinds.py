"""Consumer kinds: what kind of program a registered consumer is."""

from __future__ import annotations

import contextlib
from enum import StrEnum

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
