"""What each step of a table's copy took: kept in the database, to be shown afterwards, too.

The steps of the last copy of a table stay until its next one.  A step that is interrupted and
goes on is one step, whose time counts from its first beginning.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName

LOAD, KEY, STATES, INDEXES, KEYS, ANALYZE, CATCH_UP, HAND_OVER = (
    "load",
    "key",
    "states",
    "indexes",
    "keys",
    "analyze",
    "catch-up",
    "hand-over",
)


@dataclass(frozen=True)
class Step:
    """One step of a copy.

    seconds -- from its beginning to its end, or until now when it is not ``finished``.
    tasks -- pieces it had (chunks, indexes, batches).
    busy -- seconds of work of all of them together, None when nobody has counted.
    rows, bytes -- what it has moved; catch-up: events.
    waits -- what it waits for, to go on by itself; None when it gets on.
    """

    table: str
    step: str
    started_at: datetime
    seconds: float
    finished: bool
    tasks: int
    busy: float | None
    rows: int | None
    bytes: int | None
    waits: str | None

    @property
    def concurrency(self) -> float | None:
        """How many pieces were at work at a time, on average."""
        if self.busy is None or self.seconds <= 0:
            return None
        return self.busy / self.seconds


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


def copy_steps(conn: Connection, queue: str) -> list[Step]:
    """The steps of the last copy of each table, in the order in which they began."""
    return [
        Step(
            table=row["table_name"],
            step=row["step"],
            started_at=row["started_at"],
            seconds=row["seconds"],
            finished=row["finished"],
            tasks=row["tasks"],
            busy=row["busy"],
            rows=row["rows"],
            bytes=row["bytes"],
            waits=row["waits"],
        )
        for row in call.rows(conn, "londiste.copy_steps", queue)
    ]


@contextmanager
def step(conn: Connection, queue: str, table: TableName, name: str) -> Iterator[Tally]:
    """Notes the beginning and, unless the block fails, the end of a step.

    ``conn`` in autocommit mode.  Without a count of its own the block is one piece.
    """
    copy_step_start(conn, queue, table, name)
    tally = Tally()
    started = time.monotonic()
    yield tally
    if not tally.tasks:
        tally.add(time.monotonic() - started)
    copy_step_end(conn, queue, table, name, tally)
