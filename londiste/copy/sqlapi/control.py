"""SQL functions of pause and rate limits of running copies.

One function per SQL function.  The limits are rows of the node's database; the tasks obey them
(``engine/throttle.py``) wherever they run, and the copy process takes no snapshot while it is
paused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from londiste.db import call
from londiste.db.connection import Connection

#: The lowest rate limit in bytes per second; below it a pause is clearer.
SLOWEST = 16_384


@dataclass(frozen=True)
class Control:
    """Pause and limits; by default none.

    break_off -- a pause that rolls running chunks back.
    bytes_per_second, tasks -- limits for all copies of the node together, None for none.
    held_bytes_per_second, held_reason -- the limit of the load throttle.
    changed_at -- time of the last change by a command.
    full_speed -- the copies do not give way to the writers of the provider.
    """

    paused: bool = False
    break_off: bool = False
    bytes_per_second: int | None = None
    tasks: int | None = None
    held_bytes_per_second: int | None = None
    held_reason: str | None = None
    changed_at: datetime | None = None
    full_speed: bool = False


def get_copy_control(conn: Connection, queue: str) -> Control:
    """Pause and limits of the copies of a queue."""
    for row in call.rows(conn, "londiste.get_copy_control", queue):
        return Control(**row)
    return Control()


def copy_pause(conn: Connection, queue: str, *, break_off: bool = False) -> bool:
    """Stops starting new chunks; False when paused already.  Raises UnknownNode.

    break_off -- running chunks are rolled back instead of finished.
    """
    return bool(call.value(conn, "londiste.copy_pause", queue, break_off))


def copy_resume(conn: Connection, queue: str) -> bool:
    """Resumes copies; False when they were not paused."""
    return bool(call.value(conn, "londiste.copy_resume", queue))


def copy_throttle(
    conn: Connection,
    queue: str,
    bytes_per_second: int | None,
    tasks: int | None,
    *,
    full_speed: bool | None = None,
) -> None:
    """Sets the limits; None removes one.  Raises UnknownNode, BadOption.

    full_speed -- whether copies do not give way to the writers of the provider; None: unchanged.
    """
    call.value(conn, "londiste.copy_throttle", queue, bytes_per_second, tasks, full_speed)


def copy_hold(
    conn: Connection, queue: str, bytes_per_second: int | None, reason: str | None
) -> None:
    """Sets the limit of the load throttle with its reason; None removes it."""
    call.value(conn, "londiste.copy_hold", queue, bytes_per_second, reason)
