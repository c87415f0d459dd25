"""SQL functions of large batches: attempts, of which only the current one can stage.

One function per SQL function, and the termination of tasks of superseded attempts.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from datetime import datetime

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.queries import query, translated
from londiste.errors import LockTimeout
from londiste.pgq.types import Batch


@dataclass(frozen=True)
class LargeBatch:
    """The last batch that was large enough for a job, and how it was applied.

    events -- their number.
    threshold -- from how many events on a batch is large.
    way -- job: staged by the engine; part: some tables were applied serially; worker: all were;
        None: not committed.
    reason -- why not all of it went through the job.
    seconds -- from its start to its commit.
    """

    from_tick: int
    to_tick: int
    events: int
    threshold: int
    engine: str
    way: str | None
    reason: str
    started_at: datetime
    seconds: float | None


def task_name(queue: str) -> str:
    """application_name of the sessions that stage a queue's batches; they can be ended by it."""
    digest = hashlib.sha256(queue.encode()).hexdigest()
    return f"londiste worker task {digest[:24]}"


def apply_start(
    conn: Connection,
    queue: str,
    batch: Batch,
    *,
    events: int,
    threshold: int,
    engine: str,
    seconds: float = 30.0,
) -> int:
    """Starts an attempt after the tasks of the last one have ended; drops what they staged.

    ``conn`` in autocommit mode.  Raises LockTimeout when tasks of another role do not end.
    """
    deadline = time.monotonic() + seconds
    while True:
        # An engine may start a task again between the two steps, hence the loop.
        terminate_tasks(conn, queue)
        try:
            with conn.transaction():
                conn.execute("set local lock_timeout = 300")
                return int(
                    call.value(
                        conn,
                        "londiste.apply_start",
                        queue,
                        batch.prev_tick_id,
                        batch.tick_id,
                        events,
                        threshold,
                        engine,
                    )
                )
        except LockTimeout:
            if time.monotonic() > deadline:
                raise


def apply_stage_events(conn: Connection, queue: str, attempt: int) -> str:
    """Creates the table in which tasks of an attempt stage events; returns its name."""
    return str(call.value(conn, "londiste.apply_stage_events", queue, attempt))


def apply_sweep(conn: Connection, queue: str) -> int | None:
    """Drops staging tables; returns the attempt if there was one.  Raises LockTimeout."""
    found = call.value(conn, "londiste.apply_sweep", queue)
    return None if found is None else int(found)


def apply_slice_start(conn: Connection, queue: str, attempt: int, number: int) -> str:
    """What a task has to do: ``stage``, ``done`` or ``superseded``."""
    return str(call.value(conn, "londiste.apply_slice_start", queue, attempt, number))


def apply_slice_end(conn: Connection, queue: str, attempt: int, number: int, result: str) -> None:
    """Stores the result of a task; its transaction decides."""
    call.value(conn, "londiste.apply_slice_end", queue, attempt, number, result)


def apply_slices(
    conn: Connection, queue: str, attempt: int, from_slice: int
) -> list[tuple[int, str]]:
    """The slices that are staged, with their results, from a number on."""
    return call.records(
        conn,
        lambda number, result: (int(number), str(result)),
        "londiste.apply_slices",
        queue,
        attempt,
        from_slice,
    )


def apply_end(
    conn: Connection,
    queue: str,
    batch: Batch,
    *,
    events: int,
    threshold: int,
    engine: str,
    way: str,
    reason: str,
    seconds: float,
) -> None:
    """Records how the batch was applied; the caller's transaction decides."""
    call.value(
        conn,
        "londiste.apply_end",
        queue,
        batch.prev_tick_id,
        batch.tick_id,
        events,
        threshold,
        engine,
        way,
        reason[:1000],
        seconds,
    )


def get_large_batch(conn: Connection, queue: str) -> LargeBatch | None:
    """The last large batch of a queue here."""
    found = call.records(conn, LargeBatch, "londiste.get_large_batch", queue)
    return found[0] if found else None


def terminate_tasks(conn: Connection, queue: str) -> int:
    """Terminates the sessions that stage slices; their transactions are rolled back.

    Only sessions of the same role can be ended; how many there were.
    """
    with translated(conn):
        return conn.execute(query("terminate_copy_tasks"), {"names": [task_name(queue)]}).rowcount
