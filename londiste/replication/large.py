"""A batch that is large enough is read, decoded and folded by tasks of the engine.

    begin    the number of the attempt, and a place to stage rows       committed at once
    tasks    each reads a slice and stages what is left of it           one transaction each
    merge    slice after slice, as they become ready, into the tables   the worker's transaction,
             and the position                                           with the position

So the tables change in one transaction, as with a small batch, and its size costs this process no
memory.  What tasks leave behind when they fail or run twice is seen by nobody, and swept by the
next attempt.

Nothing here may stop replication: tables that cannot be written from what is staged go the
ordinary way in the same transaction, and so does the whole batch when the engine fails.  That is
said in the log and in ``londiste status``, because it costs time.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from londiste.changes.types import SystemEvent
from londiste.daemon import crash
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.shape import TableShape
from londiste.engine.base import Engine
from londiste.errors import (
    EventError,
    LondisteError,
    SparkUnavailable,
    Superseded,
    TransientError,
)
from londiste.pgq import batches
from londiste.pgq.batches import Stretch
from londiste.pgq.types import Batch
from londiste.replication import attempts, slices
from londiste.replication.merge import MergeFailed, Merger
from londiste.replication.plan import Interest
from londiste.replication.slices import Staged
from londiste.replication.stage import stage

log = logging.getLogger(__name__)

#: Seconds between looks for slices that are ready.
LOOK = 0.1
#: Stretches of ids of which a batch's events are counted.
STRETCHES = 4096
#: A job that fails so often for the same batch, for reasons that may go away, is given up.
ATTEMPTS = 3
#: Estimated size of the changes that a task folds together.
FLUSH_BYTES = 64 << 20


@dataclass(frozen=True)
class Merged:
    """What became of the batch.

    messages -- of the cascade, in order; None when they are met again in ``left``'s events.
    left -- tables whose events have to be applied in the ordinary way.
    """

    events: int
    applied: int
    messages: tuple[SystemEvent, ...]
    left: Mapping[TableName, str]


class GiveUp(Exception):
    """The whole batch has to go the ordinary way; the text says why."""


@dataclass
class LargeBatches:
    """Decides which batches are large, and carries them.

    engine -- made when the first large batch comes.
    name -- of the engine.
    threshold -- events from which a batch is large; 0: none is.
    parallel -- tasks at a time.
    source, target -- connection strings of the provider and this node.
    """

    engine: Callable[[], Engine]
    name: str
    threshold: int
    parallel: int
    queue: str
    node: str
    source: str = field(repr=False)
    target: str = field(repr=False)
    slice_events: int = slices.SLICE_EVENTS
    flush_bytes: int = FLUSH_BYTES
    _failed: dict[int, int] = field(default_factory=dict)

    def _spread(self, source: Connection, batch: Batch) -> Sequence[Stretch]:
        """Where the events of the batch lie; empty when a job is not worth its start.

        What ticks say of the number of events is an upper bound, and costs nothing; only a batch
        that may be large is counted.
        """
        if not 0 < self.threshold <= batch.size_estimate:
            return ()
        width = max(1, batch.size_estimate // STRETCHES)
        spread = batches.batch_event_spread(source, batch.id, width)
        return spread if sum(stretch.events for stretch in spread) >= self.threshold else ()

    @contextlib.contextmanager
    def carried(
        self,
        source: Connection,
        conn: Connection,
        batch: Batch,
        interest: Interest,
        shapes: Callable[[], Mapping[TableName, TableShape]],
        *,
        forwards: bool,
    ) -> Iterator[LargeBatch | None]:
        """For the length of a batch: what carries it, None for a batch that is not large.

        source -- session on the provider.
        conn -- session here, idle, in autocommit mode; the caller opens its transaction inside.
        forwards -- the node hands every event on: then the worker has to read them all anyway.
        """
        started = time.monotonic()
        spread = self._spread(source, batch)
        if not spread:
            yield None
            return
        count = sum(stretch.events for stretch in spread)
        large = LargeBatch(self, conn, batch, interest, count, started)
        if forwards:
            large.reason = "a branch reads every event to hand it on"
        else:
            try:
                large.job = self._begin(conn, batch, interest, shapes(), spread)
            except GiveUp as why:
                large.reason = str(why)
                log.warning("batch %d is applied in the ordinary way: %s", batch.id, why)
        try:
            yield large
        finally:
            if large.job is not None:
                large.job.stop()
        self._failed.clear()
        if large.job is not None:
            _sweep(conn, self.queue)

    def _begin(
        self,
        conn: Connection,
        batch: Batch,
        interest: Interest,
        shapes: Mapping[TableName, TableShape],
        spread: Sequence[Stretch],
    ) -> Job:
        """Starts the tasks; ``conn`` is in autocommit mode.  Raises GiveUp, TransientError."""
        failures = self._failed.get(batch.id, 0)
        if failures >= ATTEMPTS:
            raise GiveUp(f"the job failed {failures} times")
        count = sum(stretch.events for stretch in spread)
        attempt = attempts.apply_start(
            conn, self.queue, batch, events=count, threshold=self.threshold, engine=self.name
        )
        spec = slices.StageSpec(
            self.queue,
            self.node,
            attempt,
            self.source,
            self.target,
            batch,
            interest,
            shapes,
            self.flush_bytes,
        )
        parts = slices.cut(spread, self.parallel, self.slice_events)
        log.info(
            "batch %d: %d events, staged by %d tasks of engine %s",
            batch.id,
            count,
            len(parts),
            self.name,
        )
        # It counts as failed until the batch is done.
        self._failed = {batch.id: failures + 1}
        job = Job(self.engine, spec, parts, self.parallel)
        crash.point("large.begun")
        return job


@dataclass
class LargeBatch:
    """One large batch on its way; without a job it goes the ordinary way, for ``reason``."""

    batches: LargeBatches
    conn: Connection
    batch: Batch
    interest: Interest
    events: int
    started: float
    job: Job | None = None
    reason: str = ""

    def apply(self, ordinary: Callable[[Interest], object]) -> Merged | None:
        """Writes the batch inside the open transaction, and notes which way it went.

        ordinary -- applies what it is given of the batch in the ordinary way.

        None when that was all of it.  Raises TransientError, and what ``ordinary`` raises.
        """
        merged = None
        if self.job is not None:
            try:
                merged = self.job.merge(self.conn)
            except GiveUp as why:
                self.reason = str(why)
                log.warning("batch %d is applied in the ordinary way: %s", self.batch.id, why)
        way = "job"
        if merged is None:
            way = "worker"
            ordinary(self.interest)
        elif merged.left:
            way = "part"
            self.reason = "; ".join(f"{table}: {why}" for table, why in merged.left.items())
            ordinary(self.interest.only(merged.left))
        attempts.apply_end(
            self.conn,
            self.batches.queue,
            self.batch,
            events=self.events,
            threshold=self.batches.threshold,
            engine=self.batches.name,
            way=way,
            reason=self.reason,
            seconds=time.monotonic() - self.started,
        )
        return merged


class Job:
    """The tasks of one batch, under way in a thread, and the merge of what they stage."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        spec: slices.StageSpec,
        parts: list[slices.Slice],
        parallel: int,
    ) -> None:
        self._engine = engine
        self._spec = spec
        self._parts = parts
        self._parallel = parallel
        self._changed = threading.Event()
        self._over = False
        self._stopped = False
        self._error: Exception | None = None
        self._staged: list[Staged] = []
        self._thread = threading.Thread(target=self._run, name="londiste job", daemon=True)
        self._thread.start()

    def merge(self, conn: Connection) -> Merged:
        """Writes the slices in their order, as they become ready, in the open transaction.

        Raises GiveUp with nothing written, TransientError when the transaction is of no use.
        """
        left: dict[TableName, str] = {}
        while True:
            try:
                with conn.transaction():
                    self._merge(conn, left)
                break
            except MergeFailed as failed:
                log.warning(
                    "%s: what the job has staged does not fit (%s); its events are applied in the"
                    " ordinary way",
                    failed.table,
                    failed.text,
                )
                left[failed.table] = failed.text
        return Merged(
            sum(s.events for s in self._staged),
            sum(s.applied for s in self._staged),
            tuple(message for s in self._staged for message in s.messages),
            left,
        )

    def stop(self) -> None:
        """Nobody wants the rest of the tasks; those that run end by themselves."""
        self._stopped = True

    def _merge(self, conn: Connection, left: dict[TableName, str]) -> None:
        merger = Merger(conn, self._spec.attempt, self._spec.shapes, self._spec.node)
        written: set[TableName] = set()
        for part in self._parts:
            staged = self._ready(conn, part.number)
            if staged.refused:
                raise GiveUp(staged.refused)
            for table, why in staged.left.items():
                if table not in left:
                    left[table] = why
                    if table in written:
                        raise MergeFailed(table, why)
                    log.info("%s: applied event by event: %s", table, why)
            for chunk in staged.chunks:
                if chunk.table not in left:
                    written.add(chunk.table)
                    merger.write(part.number, chunk)
            crash.point("large.mid-merge")

    def _ready(self, conn: Connection, number: int) -> Staged:
        """What the task of a slice has staged; waits for it."""
        while number >= len(self._staged):
            self._changed.clear()
            over, error = self._over, self._error
            for found, result in attempts.apply_slices(
                conn, self._spec.queue, self._spec.attempt, len(self._staged)
            ):
                if found != len(self._staged):
                    break
                self._staged.append(Staged.load(result))
            if number < len(self._staged):
                break
            if error is not None:
                raise error
            if over:
                raise GiveUp("a task has ended and staged nothing")
            self._changed.wait(LOOK)
        return self._staged[number]

    def _run(self) -> None:
        tasks = [slices.StageTask(self._spec, part) for part in self._parts]
        try:
            for _ in self._engine().run(stage, tasks, self._parallel):
                self._changed.set()
                if self._stopped:
                    break
        except Exception as error:
            self._error = _translated(error)
        self._over = True
        self._changed.set()


def _sweep(conn: Connection, queue: str) -> None:
    """What was staged is not needed any more; if it cannot be swept, the next attempt does it."""
    try:
        attempts.apply_sweep(conn, queue)
    except LondisteError as error:
        log.warning("staged rows are not swept yet: %s", error)


def _translated(error: Exception) -> Exception:
    if isinstance(error, SparkUnavailable):
        return GiveUp(f"{error.message}: {error.detail}")
    if isinstance(error, TransientError):
        return error
    if isinstance(error, Superseded):
        # Whether another worker is at work the position decides, not a task.
        return TransientError(error.message, detail=error.detail)
    if isinstance(error, LondisteError):
        text = error.message if isinstance(error, EventError) else f"the job failed: {error}"
        return GiveUp(": ".join(filter(None, [text, error.detail])))
    return GiveUp(f"the job failed: {type(error).__name__}: {error}")
