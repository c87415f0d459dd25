"""The attempts of a copy: one number is current, and only its tasks can write.

One function per SQL function, and the end of tasks that nobody wants any more.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

import psycopg

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.engine.tasks import task_name
from londiste.errors import LockTimeout, from_database
from londiste.replication.copying import copy_stop as copy_stop  # shared with the commands


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
    """Begins a new attempt, when all tasks of the old one have ended.  Raises LockTimeout."""
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


def copy_progress(conn: Connection, queue: str) -> list[Attempt]:
    """The attempts that run."""
    return [
        Attempt(
            table=row["table_name"],
            attempt=row["attempt"],
            seconds=row["seconds"],
            stop_requested=row["stop_requested"],
            total_bytes=row["total_bytes"],
            total_rows=row["total_rows"],
            total_chunks=row["total_chunks"],
            chunks=row["chunks"],
            rows=row["rows"],
            bytes=row["bytes"],
        )
        for row in call.rows(conn, "londiste.copy_progress", queue)
    ]


def end_tasks(conn: Connection, queue: str, table: TableName) -> int:
    """Ends the sessions that write chunks of a table; their transactions are rolled back.

    Only sessions of the same role can be ended; how many there were.
    """
    try:
        return conn.execute(
            query("terminate_copy_tasks"), {"name": task_name(queue, str(table))}
        ).rowcount
    except psycopg.Error as error:
        raise from_database(error) from error


def abandon(
    conn: Connection, queue: str, table: TableName, attempt: int, *, seconds: float = 10.0
) -> None:
    """Ends an attempt and its tasks; on return nothing of it is running or will be written.

    ``conn`` in autocommit mode.  Raises LockTimeout when tasks of another role do not end.
    """
    deadline = time.monotonic() + seconds
    while True:
        # An engine may start a task again between the two steps, hence the loop.
        end_tasks(conn, queue, table)
        try:
            with conn.transaction():
                conn.execute("set local lock_timeout = 300")
                copy_end(conn, queue, table, attempt)
            return
        except LockTimeout:
            if time.monotonic() > deadline:
                raise


def end_leftovers(conn: Connection, queue: str, table: TableName) -> None:
    """Ends tasks of an attempt whose process is gone, as far as this role may."""
    with contextlib.suppress(Exception):
        end_tasks(conn, queue, table)
