"""Notes what each step of a table's copy has taken, for whoever looks now or afterwards.

One function per SQL function.  Who does the steps calls them: the copy process, and the worker for
what comes after the hand-over.
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
    """What a step has moved so far; who works on it adds."""

    tasks: int = 0
    busy: float = 0.0
    rows: int | None = None
    bytes: int | None = None

    def add(self, seconds: float, rows: int | None = None, size: int | None = None) -> None:
        """One more piece is done."""
        self.tasks += 1
        self.busy += seconds
        if rows is not None:
            self.rows = (self.rows or 0) + rows
        if size is not None:
            self.bytes = (self.bytes or 0) + size


def copy_step_start(conn: Connection, queue: str, table: TableName, step: str) -> None:
    """A step begins, or goes on when it was interrupted."""
    _note(conn, "londiste.copy_step_start", queue, str(table), step)


def copy_step_waits(
    conn: Connection, queue: str, table: TableName, step: str, reason: str | None
) -> None:
    """What a step waits for, to go on by itself; None: it gets on."""
    _note(conn, "londiste.copy_step_waits", queue, str(table), step, reason)


def copy_step_end(
    conn: Connection, queue: str, table: TableName, step: str, tally: Tally | None = None
) -> None:
    """A step has ended; without effect when it was not begun."""
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
    """Calls a function whose effect a crash of the server may take back: nobody waits for a disk.

    Inside a transaction of the caller's it is committed as that is.
    """
    if conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
        call.value(conn, function, *args)
        return
    relaxed = ("pg_catalog.set_config", "synchronous_commit", "off", True)
    call.together(conn, relaxed, (function, *args))
