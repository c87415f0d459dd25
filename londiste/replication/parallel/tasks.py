"""Tasks of one attempt at a batch: each stages a slice, in order for the merge.

A task's rows commit together with its result.  The merge waits for one result after the other,
while later tasks still run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from londiste.daemon import crash
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.queries import translated
from londiste.engine.base import Engine
from londiste.errors import (
    EventError,
    LondisteError,
    SparkUnavailable,
    Superseded,
    TransientError,
)
from londiste.pgq import batches
from londiste.pgq.batches import BlockRange
from londiste.pgq.types import Batch
from londiste.replication.parallel import sqlapi as attempts

#: Seconds between looks for slices that are ready.
POLL_SECONDS = 0.1
#: Stretches of ids of which a batch's events are counted.
STRETCHES = 4096
#: A job that fails so often for the same batch, for reasons that may go away, is given up.
ATTEMPTS = 3

T = TypeVar("T")


class FallBackToSerial(Exception):
    """The batch has to be applied serially; the text gives the reason."""


def spread(source: Connection, batch: Batch, threshold: int) -> Sequence[BlockRange]:
    """Ranges of the events of a batch; empty when a job is not worthwhile.

    threshold -- events from which on it is worthwhile; 0: never.

    The ticks' number of events is an upper bound, and costs nothing; only a batch
    that may be large is counted.
    """
    if not 0 < threshold <= batch.size_estimate:
        return ()
    width = max(1, batch.size_estimate // STRETCHES)
    found = batches.batch_event_spread(source, batch.id, width)
    return found if sum(stretch.events for stretch in found) >= threshold else ()


def stage_slice(
    queue: str,
    attempt: int,
    number: int,
    *,
    source: str,
    target: str,
    fill: Callable[[Connection, Connection], str],
) -> int:
    """Stages one slice in one transaction on the target, unless it is staged; its number.

    queue, attempt -- of ``attempts.apply_start``.
    source, target -- connection strings.
    fill -- reads from the first session and writes into the second, whose transaction is open;
        returns the result of the slice.

    Raises Superseded when a newer attempt has begun or the batch is written, and what ``fill``
    raises; then nothing is left behind.
    """
    with session(target, name=attempts.task_name(queue), autocommit=True) as conn:
        with translated(describe_dsn(target)):
            conn.execute("begin")
        todo = attempts.apply_slice_start(conn, queue, attempt, number)
        if todo == "superseded":
            raise Superseded(
                f"attempt {attempt} at a batch is superseded",
                detail=f"{queue}: a newer attempt has started, or the batch is written",
            )
        if todo == "done":
            return number
        with session(source, name="londiste worker read", autocommit=True) as reader:
            result = fill(reader, conn)
        attempts.apply_slice_end(conn, queue, attempt, number, result)
        crash.point("large.mid-slice")
        with translated(describe_dsn(target)):
            conn.execute("commit")
        crash.point("large.after-slice")
    return number


class Tasks(Generic[T]):
    """The tasks of an attempt, running in a thread.

    engine -- runs them; task -- the function for each item, which marks its slice with a result
        (``attempts.apply_slice_end``).  The n-th item is slice n.
    """

    def __init__(
        self,
        engine: Callable[[], Engine],
        task: Callable[[T], int],
        items: Sequence[T],
        parallel: int,
        *,
        queue: str,
        attempt: int,
    ) -> None:
        self._engine = engine
        self._task = task
        self._items = items
        self._parallel = parallel
        self._queue = queue
        self._attempt = attempt
        self._changed = threading.Event()
        self._over = False
        self._stopped = False
        self._error: Exception | None = None
        self._results: list[str] = []
        self._thread = threading.Thread(target=self._run, name="londiste job", daemon=True)
        self._thread.start()

    def result(self, conn: Connection, number: int) -> str:
        """Waits for a slice's task; returns its result.

        conn -- a session on the database of the attempt; reads what is committed.

        Raises FallBackToSerial when there will be none, TransientError when another attempt may
        succeed.
        """
        while number >= len(self._results):
            self._changed.clear()
            over, error = self._over, self._error
            for found, result in attempts.apply_slices(
                conn, self._queue, self._attempt, len(self._results)
            ):
                if found != len(self._results):
                    break
                self._results.append(result)
            if number < len(self._results):
                break
            if error is not None:
                raise error
            if over:
                raise FallBackToSerial("a task ended without staging its slice")
            self._changed.wait(POLL_SECONDS)
        return self._results[number]

    def stop(self) -> None:
        """Cancels the remaining tasks; running ones end by themselves."""
        self._stopped = True

    def _run(self) -> None:
        try:
            for _ in self._engine().run(self._task, self._items, self._parallel):
                self._changed.set()
                if self._stopped:
                    break
        except Exception as error:
            self._error = _translated(error)
        self._over = True
        self._changed.set()


def _translated(error: Exception) -> Exception:
    if isinstance(error, SparkUnavailable):
        return FallBackToSerial(f"{error.message}: {error.detail}")
    if isinstance(error, TransientError):
        return error
    if isinstance(error, Superseded):
        # Whether another process is at work the position decides, not a task.
        return TransientError(error.message, detail=error.detail)
    if isinstance(error, LondisteError):
        text = error.message if isinstance(error, EventError) else f"the job failed: {error}"
        return FallBackToSerial(": ".join(filter(None, [text, error.detail])))
    return FallBackToSerial(f"the job failed: {type(error).__name__}: {error}")
