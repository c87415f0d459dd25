"""Consumers that take no batch until somebody lets them go on: pause, resume, look.

It is a row in the queue's database, so whoever may consume can pause from anywhere, and a program
that starts again stays paused.
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
    """Has a consumer stop after its batch; False when it is paused already.

    Raises UnknownConsumer.
    """
    return bool(call.value(conn, "pgq.pause_consumer", queue, consumer, reason))


def resume_consumer(conn: Connection, queue: str, consumer: str) -> bool:
    """Lets a consumer go on; False when it was not paused."""
    return bool(call.value(conn, "pgq.resume_consumer", queue, consumer))


def get_paused_consumers(
    conn: Connection, queue: str | None = None, consumer: str | None = None
) -> list[Paused]:
    """The consumers that are paused; None stands for all queues, all consumers."""
    return call.records(conn, Paused, "pgq.get_paused_consumers", queue, consumer)


__all__ = ["Paused", "get_paused_consumers", "pause_consumer", "resume_consumer"]
