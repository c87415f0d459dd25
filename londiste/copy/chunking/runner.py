"""Runs the chunks of a copy attempt on the engine, and stops them when the copy is cancelled."""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from londiste.copy import step_timings
from londiste.copy.prepare import find
from londiste.copy.sessions import CopySessions, Stopping
from londiste.copy.sqlapi import attempts
from londiste.daemon import logcontext
from londiste.db.connection import session
from londiste.engine.spec import ChunkDone, CopySpec
from londiste.errors import LondisteError, Superseded, TransientError
from londiste.replication.model import ReplicatedTable

log = logging.getLogger(__name__)

#: Seconds between checks whether a running copy is still requested.
WATCH = 0.5


def run(sides: CopySessions, spec: CopySpec, table: ReplicatedTable, *, keep: bool) -> None:
    """Copies the chunks; returns when all are in the table.

    keep -- finished chunks are kept when the copy is interrupted: another process resumes the
        attempt.  Otherwise the attempt ends.

    Raises Superseded when the copy is no longer requested, Stopping, and errors of either side;
    no task of the attempt runs any more then, as far as this role can end it.
    """
    started = time.monotonic()
    result: list[ChunkDone] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            result.extend(sides.job.engine.copy(spec, sides.job.parallel))
        except BaseException as error:
            failure.append(error)

    worker = threading.Thread(
        target=logcontext.carried(work), name=f"copy of {table.name}", daemon=True
    )
    waits = step_timings.StepWaits(sides.here, sides.queue, step_timings.LOAD)
    worker.start()
    while worker.is_alive():
        worker.join(WATCH)
        step = sides.job.engine.starting() if worker.is_alive() else ""
        waits.note([table.name], step or None)
        reason = unwanted(sides, table, spec.attempt) if worker.is_alive() else None
        if reason is not None:
            _break_off(sides, spec, table, keep=keep)
            worker.join(10)
            raise reason
    if failure:
        # When that fails too, the next process ends the tasks.
        with contextlib.suppress(LondisteError):
            _break_off(sides, spec, table, keep=keep)
        raise failure[0]
    rows, size = sum(done.rows for done in result), sum(done.bytes for done in result)
    seconds = max(time.monotonic() - started, 0.001)
    log.info("table %s: copied %d rows, %.1f MB in %.1f s", table.name, rows, size / 1e6, seconds)


def unwanted(sides: CopySessions, table: ReplicatedTable, number: int) -> LondisteError | None:
    """Why attempt ``number`` must stop; None while it may continue."""
    if sides.stopping():
        return Stopping("the copy process is stopping")
    node = sides.here
    now = find(node, sides.queue, table)
    if now is None or now.state != "in-copy":
        return Superseded(f"table {table.name}: its copy is no longer requested")
    for attempt in attempts.copy_progress(node, sides.queue):
        if attempt.table == str(table.name) and attempt.attempt == number:
            if attempt.stop_requested:
                return TransientError(
                    f"table {table.name}: a command stopped its copy to get the table's lock",
                    hint="wait: the copy continues automatically if it is still requested",
                )
            return None
    return Superseded(f"table {table.name}: copy {number} is superseded")


def _break_off(sides: CopySessions, spec: CopySpec, table: ReplicatedTable, *, keep: bool) -> None:
    with session(
        sides.job.db,
        name="londiste copy",
        autocommit=True,
        lock_timeout_ms=1000,
        silent_seconds=sides.job.answer_seconds,
    ) as conn:
        end = attempts.halt if keep else attempts.abandon
        end(conn, sides.queue, table.name, spec.attempt)
