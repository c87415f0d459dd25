"""Coordinator of large batches: tasks of the engine stage them, the worker merges.

    begin    the number of the attempt, and a staging table             committed at once
    tasks    each reads a slice and stages its net changes              one transaction each
    merge    slice after slice, as they become ready, into the tables   the worker's transaction,
             and the position                                           with the position

So the tables change in one transaction, as with a small batch, and its size costs this process no
memory.  Staged rows of tasks that fail or run twice are never read; the next attempt drops them,
also those of a killed worker.

This never blocks replication: tables that cannot be written from staged rows are applied serially
in the same transaction, and so is the whole batch when the engine fails.  Log and ``londiste
status`` show it, because it costs time.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from londiste.changes.types import SystemEvent
from londiste.daemon import crash
from londiste.daemon.service_manager import waiting
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation
from londiste.errors import TransientError
from londiste.pgq.batches import BlockRange
from londiste.pgq.types import Batch
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.forwarding import combined_queue
from londiste.replication.parallel import slices
from londiste.replication.parallel.merge import MergeFailed, Merger
from londiste.replication.parallel.size_limit import SizeLimits
from londiste.replication.parallel.slices import StagedSlice
from londiste.replication.parallel.stage_task import ApplySpec, stage
from londiste.replication.parallel.tasks import FallBackToSerial, Job, Jobs, spread
from londiste.standby.reader import StandbyReader
from londiste.standby.ticks import Bounds

log = logging.getLogger(__name__)

#: Estimated size of the changes that a task folds together.
FLUSH_BYTES = 64 << 20


@dataclass(frozen=True)
class Merged:
    """Result of the parallel part of a batch.

    messages -- control messages in order; None when ``left``'s events contain them.
    left -- tables whose events have to be applied serially.
    """

    events: int
    applied: int
    messages: tuple[SystemEvent, ...]
    left: Mapping[TableName, str]


@dataclass
class LargeBatches(Jobs):
    """Decides which batches are large, and applies them by their jobs.

    source, target -- connection strings of the provider and this node.
    standby -- of the provider: the tasks read there, as far as it is usable.
    answer_seconds -- as in ``StageSpec``.
    """

    node: str
    source: str = field(repr=False)
    target: str = field(repr=False)
    flush_bytes: int = FLUSH_BYTES
    standby: StandbyReader | None = None
    answer_seconds: float | None = None
    limits: SizeLimits = field(default_factory=SizeLimits, kw_only=True)

    @contextlib.contextmanager
    def carried(
        self,
        source: Connection,
        conn: Connection,
        batch: Batch,
        interest: RoutingTable,
        shapes: Callable[[], Mapping[TableName, Relation]],
        *,
        forwards: bool,
    ) -> Iterator[LargeBatchApplier | None]:
        """The parallel apply of a large batch while the block runs; None for others.

        source -- session on the provider.
        conn -- session here, idle, in autocommit mode; the caller opens its transaction inside.
        forwards -- the node forwards every event, so the worker reads them all anyway.
        """
        started = time.monotonic()
        reader, limit = None, 0
        if self.limits.may_reach(batch, self.threshold):
            limit = self.limits.ask(source, batch)
        if self.standby is not None and 0 < self.threshold <= limit:
            reader = self.standby.has_open(batch)
        with _lost(self.standby if reader is not None else None):
            stretches = spread(reader or source, batch, self.threshold, limit)
        if not stretches:
            yield None
            return
        count = sum(stretch.events for stretch in stretches)
        large = LargeBatchApplier(self, conn, batch, interest, count, started)
        large.standby = self.standby if reader is not None else None
        if forwards:
            large.reason = "a branch reads every event to forward it"
        else:
            try:
                dsn = self.source if large.standby is None else large.standby.dsn
                large.job = self._begin(conn, batch, interest, shapes(), stretches, dsn)
            except FallBackToSerial as why:
                large.reason = str(why)
                log.warning("batch %d: applying serially: %s", batch.id, why)
        try:
            yield large
        finally:
            if large.job is not None:
                large.job.stop()
        if large.interrupted:
            # The batch comes again and is not done: a job for it counts as failed.
            return
        self.forget_failures()
        if large.job is not None:
            self.sweep(conn)

    def _begin(
        self,
        conn: Connection,
        batch: Batch,
        interest: RoutingTable,
        shapes: Mapping[TableName, Relation],
        stretches: Sequence[BlockRange],
        source: str,
    ) -> ParallelJob:
        """Starts the tasks.  Raises FallBackToSerial, TransientError.

        source -- connection string of the server that they read from.
        """

        def spec(attempt: int) -> ApplySpec:
            return ApplySpec(
                self.queue,
                attempt,
                source,
                self.target,
                batch,
                "",
                self.node,
                interest,
                shapes,
                self.flush_bytes,
                answer_seconds=self.answer_seconds,
            )

        standby = None if source == self.source else self.standby
        return ParallelJob(self.begin(conn, batch, stretches, stage, spec), standby)


@dataclass
class LargeBatchApplier:
    """One large batch in progress; without a job it is applied serially, for ``reason``.

    interrupted -- a script needs something else first: the transaction is rolled back.
    standby -- where the tasks read; None: from the provider.
    """

    batches: LargeBatches
    conn: Connection
    batch: Batch
    interest: RoutingTable
    events: int
    started: float
    job: ParallelJob | None = None
    reason: str = ""
    interrupted: bool = False
    standby: StandbyReader | None = None

    def apply(self, ordinary: Callable[[RoutingTable], object]) -> Merged | None:
        """Writes the batch inside the open transaction, and records how it was applied.

        ordinary -- applies the given tables of the batch serially.

        None when that was all of it.  Raises TransientError, and what ``ordinary`` raises;
        StandbyLost when the tasks read from a standby.
        """
        merged = None
        if self.job is not None:
            try:
                merged = self.job.merge(self.conn)
                if self.standby is not None:
                    self.standby.confirm(Bounds.of(self.batch))
            except FallBackToSerial as why:
                self.reason = str(why)
                log.warning("batch %d: applying serially: %s", self.batch.id, why)
        way = "job"
        if merged is None:
            way = "worker"
            ordinary(self.interest)
        elif merged.left:
            way = "part"
            self.reason = "; ".join(f"{table}: {why}" for table, why in merged.left.items())
            ordinary(self.interest.only(merged.left))
        self.batches.end(self.conn, self.batch, self.events, self.started, way, self.reason)
        return merged


@contextlib.contextmanager
def _lost(standby: StandbyReader | None) -> Iterator[None]:
    """A temporary failure of what reads from the standby lets the provider be read."""
    try:
        yield
    except TransientError as error:
        if standby is None:
            raise
        raise standby.fail(error) from error


class ParallelJob:
    """The tasks of one batch, running in a thread, and the merge of their staged rows."""

    def __init__(self, job: Job[ApplySpec], standby: StandbyReader | None = None) -> None:
        """standby -- where the tasks read; None: from the provider."""
        self._job = job
        self._standby = standby
        self._spec = job.spec
        self._staged: list[StagedSlice] = []

    def merge(self, conn: Connection) -> Merged:
        """Writes the slices in their order, as they become ready, in the open transaction.

        Raises FallBackToSerial with nothing written, TransientError when the transaction has
        failed.
        """
        left: dict[TableName, str] = {}
        while True:
            try:
                with conn.transaction():
                    self._merge(conn, left)
                break
            except MergeFailed as failed:
                log.warning(
                    "%s: cannot merge the staged rows (%s); applying its events serially",
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
        """Cancels the remaining tasks."""
        self._job.tasks.stop()

    def _merge(self, conn: Connection, left: dict[TableName, str]) -> None:
        merger = Merger(conn, self._spec.attempt, self._spec.shapes, self._spec.node)
        written: set[TableName] = set()
        for part in self._job.parts:
            staged = self._ready(conn, part.number)
            if staged.refused:
                raise FallBackToSerial(staged.refused)
            for table, why in staged.left.items():
                if table not in left:
                    left[table] = why
                    if table in written:
                        raise MergeFailed(table, why)
                    log.info("%s: applied event by event: %s", table, why)
            for chunk in staged.chunks:
                if chunk.table not in left:
                    if chunk.kind == slices.TRUNCATE and self._is_shared(conn, chunk.table):
                        raise MergeFailed(chunk.table, "other queues fill it too")
                    written.add(chunk.table)
                    merger.write(part.number, chunk)
            crash.point("large.mid-merge")

    def _is_shared(self, conn: Connection, dest: TableName) -> bool:
        """Whether a TRUNCATE may delete rows of other sources; the worker finds the event."""
        queue, routes = self._spec.queue, self._spec.interest.routes.values()
        sources = [route.source for route in routes if route.dest == dest]
        return any(combined_queue.others_filling(conn, queue, source, dest) for source in sources)

    def _ready(self, conn: Connection, number: int) -> StagedSlice:
        """Waits for a slice's task; returns what it has staged."""
        if number == len(self._staged):
            with waiting(), _lost(self._standby):
                found = self._job.tasks.result(conn, number)
            self._staged.append(StagedSlice.load(found))
        return self._staged[number]
