"""Records the duration of each step of a table's copy.

One function per SQL function.  The copy process calls them, and the worker for steps after the
hand-over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName

#: The worker checks the rows of both tables of each key that was taken off.
FOREIGN_KEYS = "foreign-keys"


@dataclass
class Tally:
    """Progress of a step; the code that works on it adds to it."""

    tasks: int = 0
    busy: float = 0.0
    rows: int | None = None
    bytes: int | None = None

    def add(self, seconds: float, rows: int | None = None, size: int | None = None) -> None:
        """Adds one finished chunk."""
        self.tasks += 1
        self.busy += seconds
        if rows is not None:
            self.rows = (self.rows or 0) + rows
        if size is not None:
            self.bytes = (self.bytes or 0) + size


def copy_step_start(conn: Connection, queue: str, table: TableName, step: str) -> None:
    """Records that a step starts, or resumes after an interruption."""
    _note(conn, "londiste.copy_step_start", queue, str(table), step)


def copy_step_waits(
    conn: Connection, queue: str, table: TableName, step: str, reason: str | None
) -> None:
    """Records what a step waits for; None: it continues."""
    _note(conn, "londiste.copy_step_waits", queue, str(table), step, reason)


def copy_step_end(
    conn: Connection, queue: str, table: TableName, step: str, tally: Tally | None = None
) -> None:
    """Records the end of a step; without effect when it was not started."""
    done = tally or Tally()
    _note(
        conn,
        "londiste.copy_step_end",
        queue,
        str(table),
        step,
        done.tasks or None,
        done.busy if done.tasks else None,
        done.rows,
        done.bytes,
    )


def _note(conn: Connection, function: str, *args: Any) -> None:
    """Calls a function with asynchronous commit: a crash of the server may lose its effect.

    Inside a transaction of the caller it commits with that.
    """
    if conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        call.value(conn, function, *args)
        return
    relaxed = ("pg_catalog.set_config", "synchronous_commit", "off", True)
    call.together(conn, relaxed, (function, *args))
