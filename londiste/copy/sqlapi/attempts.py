"""SQL functions of copy attempts: one number is current, and only its tasks can write.

One function per SQL function, and the termination of tasks of superseded attempts.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import query, translated
from londiste.engine.spec import Chunk
from londiste.engine.tasks import task_name
from londiste.errors import LockTimeout
from londiste.replication.tablesync.cancel import copy_stop as copy_stop  # shared with the commands


@dataclass(frozen=True)
class Attempt:
    """A running copy, with what its finished chunks have moved; ``seconds`` since it began."""

    table: str
    attempt: int
    seconds: float
    stop_requested: bool
    total_bytes: int
    total_rows: int
    total_chunks: int
    chunks: int
    rows: int
    bytes: int


def copy_start(
    conn: Connection,
    queue: str,
    table: TableName,
    *,
    total_bytes: int = 0,
    total_rows: int = 0,
    total_chunks: int = 1,
) -> int:
    """Starts a new attempt, when all tasks of the old one have ended.  Raises LockTimeout."""
    return int(
        call.value(
            conn,
            "londiste.copy_start",
            queue,
            str(table),
            i_total_bytes=total_bytes,
            i_total_rows=total_rows,
            i_total_chunks=total_chunks,
        )
    )


def copy_end(conn: Connection, queue: str, table: TableName, attempt: int) -> bool:
    """Ends an attempt; False when it is not the current one."""
    return bool(call.value(conn, "londiste.copy_end", queue, str(table), attempt))


def copy_give_up(conn: Connection, queue: str, table: TableName, attempt: int) -> bool:
    """Ends an attempt that will not be resumed; False when it is not the current one."""
    return bool(call.value(conn, "londiste.copy_give_up", queue, str(table), attempt))


@dataclass(frozen=True)
class Stored:
    """An attempt that can be resumed; ``plan`` is what ``copy_plan`` stored."""

    attempt: int
    plan: dict[str, Any]


@dataclass(frozen=True)
class CopiedRange:
    """A chunk of such an attempt; ``snapshot`` is the one in which it was read."""

    chunk: int
    condition: str
    bytes: int
    rows: int
    done: bool
    snapshot: str | None


@dataclass(frozen=True)
class CopyChoice:
    """The mode of a table's last copy, ``snapshot`` or ``resumable``, and its reason.

    refused -- a resumable copy was found to be impossible.
    """

    mode: str
    reason: str
    refused: bool


def copy_plan(
    conn: Connection,
    queue: str,
    table: TableName,
    attempt: int,
    plan: dict[str, Any],
    chunks: Sequence[Chunk],
) -> None:
    """Stores what a process needs to resume; in the transaction of ``copy_start``."""
    call.value(
        conn,
        "londiste.copy_plan",
        queue,
        str(table),
        attempt,
        json.dumps(plan),
        [chunk.condition for chunk in chunks],
        [chunk.bytes for chunk in chunks],
        [chunk.rows for chunk in chunks],
    )


def copy_go_on(conn: Connection, queue: str, table: TableName) -> Stored | None:
    """The attempt to resume, if there is one; a request to stop it is cleared."""
    found = call.records(conn, Stored, "londiste.copy_go_on", queue, str(table))
    return found[0] if found else None


def copy_ranges(conn: Connection, queue: str, table: TableName, attempt: int) -> list[CopiedRange]:
    """The chunks of an attempt that can be resumed, in their order."""
    return call.records(conn, CopiedRange, "londiste.copy_ranges", queue, str(table), attempt)


def copy_settle(conn: Connection, queue: str, table: TableName, attempt: int) -> bool:
    """Waits until no task of the attempt runs; False: it is not current.  Raises LockTimeout."""
    return bool(call.value(conn, "londiste.copy_settle", queue, str(table), attempt))


def copy_choose(
    conn: Connection, queue: str, table: TableName, mode: str, reason: str, *, refused: bool = False
) -> None:
    """Stores the copy mode of a table."""
    call.value(conn, "londiste.copy_choose", queue, str(table), mode, reason, refused)


def copy_choices(conn: Connection, queue: str) -> dict[str, CopyChoice]:
    """The mode of each table's last or running copy."""
    return {
        row["table_name"]: CopyChoice(row["mode"], row["reason"], row["refused"])
        for row in call.rows(conn, "londiste.copy_choices", queue)
    }


def copy_obstacle(conn: Connection, queue: str, table: TableName) -> str:
    """Why events of a table (by its name on the source) lack whole rows; '' if they have them."""
    return str(call.value(conn, "londiste.copy_obstacle", queue, str(table)) or "")


def copy_progress(conn: Connection, queue: str) -> list[Attempt]:
    """The running attempts."""
    return call.records(conn, Attempt, "londiste.copy_progress", queue)


def terminate_tasks(conn: Connection, queue: str, tables: Iterable[TableName]) -> int:
    """Ends the sessions that write rows of tables; their transactions are rolled back.

    Only sessions of the same role can be ended.  Returns their number.
    """
    names = [task_name(queue, str(table)) for table in tables]
    with translated(conn):
        return conn.execute(query("terminate_copy_tasks"), {"names": names}).rowcount


def abandon(conn: Connection, queue: str, table: TableName, attempt: int) -> None:
    """Ends an attempt and its tasks; on return nothing of it is running or will be written.

    ``conn`` in autocommit mode.  Raises LockTimeout when tasks of another role do not end.
    """
    without_tasks(conn, queue, [table], lambda: copy_give_up(conn, queue, table, attempt))


def halt(conn: Connection, queue: str, table: TableName, attempt: int) -> None:
    """Ends the tasks of an attempt that another process resumes; its chunks are kept.

    ``conn`` in autocommit mode.  Raises LockTimeout when tasks of another role do not end.
    """
    without_tasks(conn, queue, [table], lambda: copy_settle(conn, queue, table, attempt))


def without_tasks(
    conn: Connection,
    queue: str,
    tables: Collection[TableName],
    action: Callable[[], object],
    *,
    seconds: float = 10.0,
) -> None:
    """Runs an action that waits for the end of all tasks of tables, after ending them.

    ``conn`` in autocommit mode.  Raises LockTimeout when tasks of another role do not end.
    """
    deadline = time.monotonic() + seconds
    while True:
        # An engine may start a task again between the two steps, hence the loop.
        terminate_tasks(conn, queue, tables)
        try:
            with conn.transaction():
                conn.execute("set local lock_timeout = 300")
                action()
            return
        except LockTimeout:
            if time.monotonic() > deadline:
                raise


def end_leftovers(conn: Connection, queue: str, table: TableName) -> None:
    """Ends tasks of an attempt whose process has died, as far as this role may."""
    with contextlib.suppress(Exception):
        terminate_tasks(conn, queue, [table])
