"""Log of the actions that operators have started in the console.

One function per SQL function.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from londiste.db import call
from londiste.db.connection import Connection


@dataclass(frozen=True)
class LoggedAction:
    """An action of an operator; outcome None: under way, or interrupted."""

    action_id: int
    operator: str
    action: str
    command: str
    reason: str | None
    began_at: datetime
    ended_at: datetime | None
    outcome: str | None


def log_action(
    conn: Connection, queue: str, operator: str, action: str, command: str, reason: str
) -> int:
    """Records that an action begins; the number of the record."""
    args = (queue, operator, action, command, reason or None)
    return int(call.value(conn, "londiste.log_action", *args))


def finish_action(conn: Connection, queue: str, action_id: int, outcome: str) -> bool:
    """Records the outcome of an action; False if it has one."""
    return bool(call.value(conn, "londiste.finish_action", queue, action_id, outcome))


def get_action_log(conn: Connection, queue: str, limit: int) -> list[LoggedAction]:
    """The newest actions, the newest first."""
    return call.records(conn, LoggedAction, "londiste.get_action_log", queue, limit)
