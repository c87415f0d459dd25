"""Tasks of one attempt at a batch: each stages a slice, in order for the merge.

A task's rows commit together with its result.  The merge waits for one result after the other,
while later tasks still run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from londiste.daemon import crash
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.queries import translated
from londiste.engine.base import Engine
from londiste.errors import EventError, LondisteError, SparkUnavailable, Superseded, TransientError
from londiste.pgq import batches
from londiste.pgq.batches import BlockRange
from londiste.pgq.types import Batch
from londiste.replication.parallel import slices
from londiste.replication.parallel import sqlapi as attempts
from londiste.replication.parallel.slices import S, Slice, StagedSlice, StageTask
from londiste.wording import exception_text

log = logging.getLogger(__name__)

#: Seconds between looks for slices that are ready.
POLL_SECONDS = 0.1
#: Stretches of ids of which a batch's events are counted.
STRETCHES = 4096
#: A job that fails so often for the same batch, for reasons that may go away, is given up.
ATTEMPTS = 3


class FallBackToSerial(Exception):
    """The batch has to be applied serially; the text gives the reason."""


def spread(source: Connection, batch: Batch, threshold: int, limit: int) -> Sequence[BlockRange]:
    """Ranges of the events of a batch; empty when a job is not worthwhile.

    threshold -- events from which on it is worthwhile; 0: never.
    limit -- the largest number of events that it may have (``SizeLimits``); only a batch that may
        be large is counted.
    """
    if not 0 < threshold <= limit:
        return ()
    width = max(1, limit // STRETCHES)
    found = batches.batch_event_spread(source, batch.id, width)
    return found if sum(stretch.events for stretch in found) >= threshold else ()


def stage_slice(task: StageTask[Any], fill: Callable[[Connection, Connection], StagedSlice]) -> int:
    """Stages one slice in one transaction on the target, unless it is staged; its number.

    fill -- reads from the first session and writes into the second, whose transaction is open;
        returns the result of the slice.  After an EventError or FallBackToSerial the result is
        that the batch has to be applied serially, which finds the event.

    Raises Superseded when a newer attempt has begun or the batch is written, and what ``fill``
    raises; then nothing is left behind.
    """
    spec, number = task.spec, task.slice.number
    patient = {"autocommit": True, "silent_seconds": spec.answer_seconds}
    with session(spec.target, name=attempts.task_name(spec.queue), **patient) as conn:
        where = describe_dsn(spec.target)
        with translated(where):
            conn.execute("begin")
        todo = attempts.apply_slice_start(conn, spec.queue, spec.attempt, number)
        if todo == "superseded":
            raise Superseded(
                f"attempt {spec.attempt} at a batch is superseded",
                detail=f"{spec.queue}: a newer attempt has started, or the batch is written",
            )
        if todo == "done":
            return number
        with session(spec.source, name="londiste worker read", **patient) as reader:
            try:
                result = fill(reader, conn)
            except EventError as error:
                result = StagedSlice(refused=error.message)
            except FallBackToSerial as why:
                result = StagedSlice(refused=str(why))
        attempts.apply_slice_end(conn, spec.queue, spec.attempt, number, result.dump())
        crash.point("large.mid-slice")
        with translated(where):
            conn.execute("commit")
        crash.point("large.after-slice")
    return number


class Tasks(Generic[S]):
    """The tasks of an attempt, running in a thread.

    engine -- runs them; task -- the function for each item, which marks its slice with a result
        (``stage_slice``).  The n-th item is slice n.
    """

    def __init__(
        self,
        engine: Callable[[], Engine],
        task: Callable[[StageTask[S]], int],
        items: Sequence[StageTask[S]],
        parallel: int,
        spec: S,
    ) -> None:
        self._engine = engine
        self._task = task
        self._items = items
        self._parallel = parallel
        self._spec = spec
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
                conn, self._spec.queue, self._spec.attempt, len(self._results)
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
    return FallBackToSerial(f"the job failed: {type(error).__name__}: {exception_text(error)}")


@dataclass(frozen=True)
class Job(Generic[S]):
    """The tasks of one batch at work, and their slices."""

    spec: S
    parts: list[Slice]
    tasks: Tasks[S]


@dataclass
class Jobs:
    """Starts the job of a large batch, and records how the batch was applied.

    engine -- started with the first large batch.
    name -- of the engine.
    threshold -- events from which a batch is large; 0: none is.
    parallel -- tasks at a time.
    queue -- name of the attempts.
    """

    engine: Callable[[], Engine]
    name: str
    threshold: int
    parallel: int
    queue: str
    slice_events: int = field(default=slices.SLICE_EVENTS, kw_only=True)
    _failed: dict[int, int] = field(default_factory=dict, kw_only=True)

    def begin(
        self,
        conn: Connection,
        batch: Batch,
        stretches: Sequence[BlockRange],
        task: Callable[[StageTask[S]], int],
        spec: Callable[[int], S],
    ) -> Job[S]:
        """Starts the tasks of a batch; ``conn`` is in autocommit mode.

        stretches -- see ``spread``.
        spec -- the input of the tasks, for the number of the attempt.

        Raises FallBackToSerial, TransientError.
        """
        failures = self._failed.get(batch.id, 0)
        if failures >= ATTEMPTS:
            raise FallBackToSerial(f"the job failed {failures} times")
        count = sum(stretch.events for stretch in stretches)
        attempt = attempts.apply_start(
            conn, self.queue, batch, events=count, threshold=self.threshold, engine=self.name
        )
        made = spec(attempt)
        parts = slices.cut(stretches, self.parallel, self.slice_events)
        log.info(
            "batch %d: %d events, staged by %d tasks of engine %s",
            *(batch.id, count, len(parts), self.name),
        )
        # It counts as failed until the batch is done.
        self.forget_failures()
        self._failed[batch.id] = failures + 1
        items = [StageTask(made, part) for part in parts]
        job = Job(made, parts, Tasks(self.engine, task, items, self.parallel, made))
        crash.point("large.begun")
        return job

    def end(
        self, conn: Connection, batch: Batch, events: int, started: float, way: str, reason: str
    ) -> None:
        """Records how the batch was applied; the caller's transaction decides."""
        attempts.apply_end(
            conn,
            self.queue,
            batch,
            events=events,
            threshold=self.threshold,
            engine=self.name,
            way=way,
            reason=reason,
            seconds=time.monotonic() - started,
        )

    def forget_failures(self) -> None:
        """After a batch is done."""
        self._failed.clear()

    def sweep(self, conn: Connection) -> None:
        """Drops staging tables that are not needed any more, with no batch in progress.

        A table that a task still writes into is dropped by the next attempt.
        """
        try:
            with conn.transaction():
                attempts.apply_sweep(conn, self.queue)
        except LondisteError as error:
            log.warning("staging tables not dropped yet: %s", error)
