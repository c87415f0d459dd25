"""Puts events into their queue when the time of their retry, or of their sending, has come."""

from __future__ import annotations

from collections.abc import Callable

from londiste.db.connection import Connection
from londiste.pgq import queues


def run_once(conn: Connection, *, stopping: Callable[[], bool] = lambda: False) -> int:
    """Moves all events that are due, a few per transaction; returns how many."""
    moved = 0
    while not stopping():
        count = queues.maint_retry_events(conn)
        if not count:
            break
        moved += count
    return moved
