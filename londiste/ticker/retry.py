"""Retries and delayed events: inserts them into their queue when they are due."""

from __future__ import annotations

from collections.abc import Callable

from londiste.db.connection import Connection
from londiste.pgq import queues


def run_once(conn: Connection, *, stopping: Callable[[], bool] = lambda: False) -> int:
    """Moves all due events, some per transaction; their number."""
    moved = 0
    while not stopping():
        count = queues.maint_retry_events(conn)
        if not count:
            break
        moved += count
    return moved
