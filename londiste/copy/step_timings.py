"""Timings of the steps of a table's copy, kept in the database.

The steps of the last copy of a table stay until its next one.  A step that is interrupted and
resumed is one step, timed from its first start.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.replication.tablesync.copy_steps import FOREIGN_KEYS as FOREIGN_KEYS
from londiste.replication.tablesync.copy_steps import Tally as Tally
from londiste.replication.tablesync.copy_steps import copy_step_end as copy_step_end
from londiste.replication.tablesync.copy_steps import copy_step_start as copy_step_start
from londiste.replication.tablesync.copy_steps import copy_step_waits as copy_step_waits

LOAD, PARTITIONS, KEY, STATES, INDEXES, KEYS, ANALYZE, CATCH_UP, HAND_OVER = (
    "load",
    "partitions",
    "key",
    "states",
    "indexes",
    "keys",
    "analyze",
    "catch-up",
    "hand-over",
)


@dataclass(frozen=True)
class StepTiming:
    """Timing of one step of a copy.

    seconds -- from its beginning to its end, or until now when it is not ``finished``.
    tasks -- pieces it had (chunks, indexes, batches).
    busy -- seconds of work of all of them together, None when not counted.
    rows, bytes -- what it has moved; catch-up: events.
    waits -- the reason of a wait that ends automatically; None when there is none.
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
    def at_work(self) -> float | None:
        """Average number of pieces at work at a time."""
        if self.busy is None or self.seconds <= 0:
            return None
        return self.busy / self.seconds


def copy_steps(conn: Connection, queue: str) -> list[StepTiming]:
    """The steps of the last copy of each table, in the order in which they began."""
    return call.records(conn, StepTiming, "londiste.copy_steps", queue)


def copy_waits(conn: Connection, queue: str) -> dict[str, str]:
    """Reasons of waits that end automatically, by table."""
    return {
        row["table_name"]: row["waits"] for row in call.rows(conn, "londiste.copy_waits", queue)
    }


class StepWaits:
    """Records why a step of some tables waits; the copy process logs it."""

    def __init__(self, conn: Connection, queue: str, step: str) -> None:
        self._conn = conn
        self._queue = queue
        self._step = step
        self._noted: str | None = None

    def note(self, tables: Iterable[TableName], text: str | None) -> None:
        """Records the reason of the wait; None: there is none."""
        if text == self._noted:
            return
        for table in tables:
            copy_step_waits(self._conn, self._queue, table, self._step, text)
        self._noted = text


@contextmanager
def step(conn: Connection, queue: str, table: TableName, name: str) -> Iterator[Tally]:
    """Records the start and, unless the block fails, the end of a step.

    ``conn`` in autocommit mode.  Without a count of its own the block is one piece.
    """
    copy_step_start(conn, queue, table, name)
    tally = Tally()
    started = time.monotonic()
    yield tally
    if not tally.tasks:
        tally.add(time.monotonic() - started)
    copy_step_end(conn, queue, table, name, tally)
