"""Lets the engine copy the chunks of an attempt, and looks meanwhile if that is still wanted."""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from londiste.copy.prepare import find
from londiste.copy.sessions import CopySessions, Stopping
from londiste.copy.sqlapi import attempts
from londiste.daemon import logcontext
from londiste.db.connection import session
from londiste.engine.spec import ChunkDone, CopySpec
from londiste.errors import LondisteError, Superseded, TransientError
from londiste.replication.model import ReplicatedTable

log = logging.getLogger(__name__)

#: Seconds between looks at a running copy: is it still wanted?
WATCH = 0.5


def run(sides: CopySessions, spec: CopySpec, table: ReplicatedTable, *, keep: bool) -> None:
    """Returns when every chunk is in the table.

    keep -- what is done stays when the copy breaks off: another process goes on with the attempt.
        Otherwise the attempt ends.

    Raises Superseded when the table is not to be copied any more, Stopping, and whatever went wrong
    on either side; no task of the attempt runs any more then, as far as this role can see to it.
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
    worker.start()
    while worker.is_alive():
        worker.join(WATCH)
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
    log.info("%s: %d rows copied, %.1f MB in %.1f s", table.name, rows, size / 1e6, seconds)


def unwanted(sides: CopySessions, table: ReplicatedTable, number: int) -> LondisteError | None:
    """Why attempt ``number`` must not go on; None while it may."""
    if sides.stopping():
        return Stopping("the copy process ends")
    node = sides.here
    now = find(node, sides.queue, table)
    if now is None or now.state != "in-copy":
        return Superseded(f"table {table.name} is not to be copied any more")
    for attempt in attempts.copy_progress(node, sides.queue):
        if attempt.table == str(table.name) and attempt.attempt == number:
            if attempt.stop_requested:
                return TransientError(
                    f"copy of {table.name} was asked to let go of the table",
                    hint="it goes on by itself when the table is still to be copied",
                )
            return None
    return Superseded(f"copy {number} of {table.name} is superseded")


def _break_off(sides: CopySessions, spec: CopySpec, table: ReplicatedTable, *, keep: bool) -> None:
    with session(sides.job.db, name="londiste copy", autocommit=True, lock_timeout_ms=1000) as conn:
        end = attempts.halt if keep else attempts.abandon
        end(conn, sides.queue, table.name, spec.attempt)
