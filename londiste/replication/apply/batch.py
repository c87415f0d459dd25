"""Applies one batch of the provider's queue in one transaction of this node.

Events are read in blocks and written in parts of bounded size, so a batch is never whole in
memory.  It is one transaction on this node, which also moves the position: rows are applied exactly
once.  The provider is notified later and may return the batch again; the position then shows that
it is applied.

A branch writes the same events into its own queue in the same transaction, and creates the tick
after it: the tick's snapshot must see the events.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

import psycopg

from londiste.applier.applier import Applier
from londiste.applier.conflict_log import KEEP
from londiste.cascade.forward import Forwarder
from londiste.cascade.progress import NodeProgress
from londiste.changes.decode import decode_all
from londiste.changes.types import ExecuteScript, address
from londiste.db.connection import Connection, usable
from londiste.db.names import TableName
from londiste.db.relation import Relation
from londiste.errors import ApplyError, EventError, LondisteError, ScriptFailed
from londiste.pgq import batches
from londiste.pgq.blocks import EventBlock
from londiste.pgq.types import Batch
from londiste.replication.apply import errors
from londiste.replication.apply.accumulator import Accumulator, retried
from londiste.replication.apply.control_messages import SystemEvents
from londiste.replication.apply.errors import Open
from londiste.replication.apply.prefetch import ReadAhead
from londiste.replication.apply.proofs import Proofs, of_messages
from londiste.replication.apply.relation_cache import RelationCache
from londiste.replication.apply.result import BatchStats
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.apply.writer import BatchTransaction, PartWriter, point
from londiste.replication.ddl.apply import (
    CancelCopies,
    RunFirst,
    Scripts,
    SplitBatch,
    cut,
    has_script,
)
from londiste.replication.forwarding import combined_queue
from londiste.replication.forwarding.rewrite import EventRewriter
from londiste.replication.model import SkippedEvents
from londiste.replication.parallel.coordinator import LargeBatchApplier, LargeBatches
from londiste.standby.reader import StandbyLost, StandbyReader, batch_events

log = logging.getLogger(__name__)

#: Estimated bytes of changes that are kept before they are written.
FLUSH_BYTES = 64 << 20


class BatchApplier:
    """Applies the batches of one consumer.

    node -- name of this node, for messages.
    source -- session on the provider; target -- session on this node with the replica role.  Both
        in autocommit mode and idle between batches.
    progress -- the position, kept in the database of ``target``.
    forwarder -- on a branch, writes the events into its queue through ``target``; on a leaf that
        merges, the applied ones into the combined queue.
    system -- follows the messages of the cascade; None ignores them.
    scripts -- runs the scripts; None ignores them.
    ahead -- reads the next batch on the session ``source``; None: no prefetch.
    large -- applies large batches in parallel; None: all are applied serially.
    keep -- rows that policy log stores for each table.
    proofs -- refuses control events that the provider has not proven; None for a process that
        ignores all of them.
    standby -- of the provider: batches are read there, as far as it is usable.
    """

    def __init__(
        self,
        *,
        node: str,
        queue: str,
        source: Connection,
        target: Connection,
        progress: NodeProgress,
        forwarder: Forwarder | None = None,
        system: SystemEvents | None = None,
        scripts: Scripts | None = None,
        ahead: ReadAhead | None = None,
        flush_bytes: int = FLUSH_BYTES,
        large: LargeBatches | None = None,
        keep: int = KEEP,
        proofs: Proofs | None = None,
        standby: StandbyReader | None = None,
    ) -> None:
        self.node = node
        self.queue = queue
        self.source = source
        self.target = target
        self.progress = progress
        self.forwarder = forwarder
        self.system = system
        self.scripts = scripts
        self.ahead = ahead
        self.flush_bytes = flush_bytes
        self.large = large
        self.standby = standby
        self._joined = False
        self._proofs = proofs
        self._applier = Applier(target, node=node, queue=queue, keep=keep)
        #: What has halted this consumer and is not settled; None: not known.
        self._open: list[Open] | None = None
        self._shapes = RelationCache(target, queue)
        self._writer = PartWriter(
            target,
            self._applier,
            self._shapes,
            node=node,
            queue=queue,
            system=system,
            flush_bytes=flush_bytes,
        )
        find, missing = self._writer.find, self._writer.missing
        self._handing_on = EventRewriter(target, find, missing, node=node)

    def run(
        self,
        batch: Batch,
        interest: RoutingTable,
        *,
        query: str | None = None,
        tick: int | None = None,
        joined: bool = False,
    ) -> BatchStats:
        """Applies the batch and moves the position past it, unless it was applied before.

        query -- SQL of the batch's events; read when the caller does not know it.
        tick -- the position, when the caller has just read it.
        joined -- the batch may span several ticks: then no script is run from it.

        The provider is not told; ``batches.finish_batch`` is the caller's.  Raises EventError
        (the position stays before the batch), Superseded, PositionLost, TransientError.
        Nothing is applied when the result has an ``interruption``: SplitBatch or WaitsFor.
        """
        while True:
            try:
                stats = self._run(batch, interest, query, tick, joined)
            except StandbyLost:
                # It is not asked again for some time: the provider is read.
                continue
            except ScriptFailed:
                if self.scripts is not None:
                    self.scripts.note_failure()
                raise
            if self.scripts is None:
                return stats
            match stats.interruption:
                case RunFirst(script):
                    with self._errors(batch):
                        self.scripts.run_first(script)
                case CancelCopies(tables):
                    with self._errors(batch):
                        self.scripts.cancel_copies(tables)
                case _:
                    return stats

    def _run(
        self,
        batch: Batch,
        interest: RoutingTable,
        query: str | None,
        tick: int | None,
        joined: bool,
    ) -> BatchStats:
        start = time.monotonic()
        if self.progress.seen(batch, tick):
            if self.forwarder is not None:
                self.forwarder.recover(batch)
            return BatchStats(skipped=True)
        self._joined = joined and batch.tick_id - batch.prev_tick_id > 1
        interest = interest.without(self._skips())
        self._writer.begin()
        with (
            self._errors(batch),
            self._carried(batch, interest) as large,
            contextlib.nullcontext() if self.ahead is None else self.ahead.during_batch(),
        ):
            # A lost session does not swallow Rollback itself.
            with contextlib.suppress(psycopg.Rollback), contextlib.ExitStack() as stack:
                transaction = BatchTransaction(self.target, stack)
                if large is None:
                    stats = self._apply(batch, interest, query, transaction, self.ahead)
                else:
                    transaction.begin()
                    stats = self._apply_large(large, batch, interest, query, transaction)
                if stats.interruption is not None:
                    transaction.roll_back()
                else:
                    self._settle(batch, interest)
                    point("worker.before-commit", interest)
            if stats.interruption is not None:
                if self.ahead is not None:
                    self.ahead.stop()
                return stats
            point("worker.after-commit", interest)
            if self.forwarder is not None:
                self.forwarder.tick(batch)
        return replace(stats, seconds=time.monotonic() - start, conflicts=self._told(interest))

    def _skips(self) -> SkippedEvents:
        """The events of the batch that an operator skips."""
        if self._open is None:
            self._open = errors.get_skips(self.target, self.queue, self.progress.consumer)
        return errors.skips_of(self._open)

    def _settle(self, batch: Batch, interest: RoutingTable) -> None:
        """Records decisions about the batch's events, in the transaction of its rows."""
        self._applier.conflicts.write()
        if self._open:
            errors.settle_apply_errors(
                self.target, self.queue, self.progress.consumer, batch.tick_id, interest.skips
            )

    def _told(self, interest: RoutingTable) -> int:
        """Logs the decisions of a committed batch; the number of conflicts."""
        if self._open:
            for event, row in sorted(interest.skips.rows):
                log.warning("event %s skipped, as requested", address(event, row))
            self._open = None
        conflicts = self._applier.conflicts
        for line in conflicts.told():
            log.warning("%s", line)
        return conflicts.counts.total()

    def _carried(
        self, batch: Batch, interest: RoutingTable
    ) -> AbstractContextManager[LargeBatchApplier | None]:
        """The parallel apply of a large batch; None for all others."""
        if self.large is None:
            return contextlib.nullcontext()
        return self.large.carried(
            self.source,
            self.target,
            batch,
            interest,
            lambda: self._all_shapes(interest),
            forwards=self.forwarder is not None,
        )

    def _all_shapes(self, interest: RoutingTable) -> dict[TableName, Relation]:
        self._shapes.check_again(interest)
        return self._shapes.of(route.dest for route in interest.routes.values())

    def _apply_large(
        self,
        large: LargeBatchApplier,
        batch: Batch,
        interest: RoutingTable,
        query: str | None,
        transaction: BatchTransaction,
    ) -> BatchStats:
        stats = BatchStats()
        self._writer.merges(route.dest for route in interest.routes.values())

        def ordinary(some: RoutingTable) -> None:
            nonlocal stats
            stats = self._apply(batch, some, query, transaction, None)

        merged = large.apply(ordinary)
        large.interrupted = stats.interruption is not None
        if merged is None or large.interrupted:
            return stats
        if not merged.left:
            skips = interest.skips.rows
            if self._proofs is not None:
                self._proofs.begin()
                self._proofs.check(of_messages(merged.messages), skips)
            for message in merged.messages:
                if self.system is not None and (message.event_id, 0) not in skips:
                    self.system.follow(message)
            self._writer.confirming()()
            self.progress.completed(batch)
        point("worker.mid-apply", interest)
        return BatchStats(merged.events, merged.applied, merged.events - merged.applied)

    def _apply(
        self,
        batch: Batch,
        interest: RoutingTable,
        query: str | None,
        transaction: BatchTransaction,
        ahead: ReadAhead | None,
    ) -> BatchStats:
        """Writes the rows, and moves the position with the last of them.

        ahead -- reads the next batch as soon as this one is read.
        """
        count = applied = nbytes = 0
        self._shapes.check_again(interest)
        self._applier.begin()
        if self._proofs is not None:
            self._proofs.begin()
        part = ahead.take(batch, interest) if ahead is not None else None
        if ahead is not None and part is not None:
            proven = [self._check(block, interest) for block in part.blocks]
            nbytes = sum(block.nbytes for block in part.blocks)
            ahead.begin(batch, part.events, nbytes, interest)
            if self.forwarder is not None:
                transaction.begin()
                for block, some in zip(part.blocks, proven, strict=True):
                    self._hand_on(self.forwarder, block, interest, some)
        else:
            accumulator = Accumulator(interest)
            text = query or batches.batch_event_sql(self.source, batch.id)
            with batch_events(self.standby, self.source, batch, text) as blocks:
                for block in blocks:
                    found = self._check(block, interest)
                    if self.forwarder is not None:
                        block = interest.readable(block, every=True)
                        transaction.begin()
                        self._hand_on(self.forwarder, block, interest, found)
                    if self.scripts is not None and has_script(block):
                        done = self._cut(batch, block, accumulator, transaction, self.scripts)
                        if done.interruption is not None:
                            return done
                        count, applied = count + done.events, applied + done.applied
                        nbytes += block.nbytes
                        continue
                    if not accumulator.has_room(block, self.flush_bytes):
                        written = self._write_part(accumulator, transaction, batch)
                        count, applied = count + written.events, applied + written.applied
                    accumulator.add(block)
                    nbytes += block.nbytes
                    # A long event is a block, which nothing else may hold while it is written.
                    del block
                    if accumulator.is_full(self.flush_bytes):
                        written = self._write_part(accumulator, transaction, batch)
                        count, applied = count + written.events, applied + written.applied
            part = accumulator.take()
            if ahead is not None:
                ahead.begin(batch, count + part.events, nbytes, interest)
        count, applied = count + part.events, applied + part.applied
        self._writer.write(part, transaction, batch, lambda: self._completing(batch))
        return BatchStats(count, applied, count - applied)

    def _write_part(
        self, accumulator: Accumulator, transaction: BatchTransaction, batch: Batch
    ) -> BatchStats:
        part = accumulator.take()
        self._writer.write(part, transaction, batch)
        return BatchStats(part.events, part.applied)

    def _completing(self, batch: Batch) -> Callable[[], None]:
        """Stores the position and the forwarder's end of the batch, in the caller's pipeline."""
        checks = [self._writer.confirming(), self.progress.completing(batch)]
        if self.forwarder is not None:
            checks.append(self.forwarder.ending(batch))

        def check() -> None:
            for one in checks:
                one()

        return check

    def _cut(
        self,
        batch: Batch,
        block: EventBlock,
        accumulator: Accumulator,
        transaction: BatchTransaction,
        scripts: Scripts,
    ) -> BatchStats:
        """Runs the scripts of a block between the events before and after each of them."""
        if self._joined:
            return BatchStats(interruption=SplitBatch())
        count = applied = 0
        for piece, is_script in cut(block):
            if not is_script:
                accumulator.add(piece)
                continue
            written = self._write_part(accumulator, transaction, batch)
            count, applied = count + written.events + 1, applied + written.applied + 1
            transaction.begin()
            (event,) = piece
            if (event.id, 0) in accumulator.interest.skips.rows:
                continue
            (change,) = decode_all(event)
            if not isinstance(change, ExecuteScript):
                raise EventError(f"event {event.id} is not a script", event_id=event.id)
            if event.retry is not None:
                raise retried(event.id)
            self._writer.confirming()()
            interruption = scripts.follow(change)
            if interruption is not None:
                return BatchStats(interruption=interruption)
            # The tables may be others now.
            self._shapes.forget()
        return BatchStats(count, applied)

    def _check(self, block: EventBlock, interest: RoutingTable) -> list[tuple[int, str]]:
        """The proven control events of a block, before anything is done that one of them says."""
        return [] if self._proofs is None else self._proofs.proven(block, interest.skips.rows)

    def _hand_on(
        self,
        forwarder: Forwarder,
        block: EventBlock,
        interest: RoutingTable,
        proven: Sequence[tuple[int, str]],
    ) -> None:
        """Forwards the events into this node's queue, rewritten where a table is filtered."""
        if not forwarder.keep_ids:
            block = combined_queue.handed(block, interest)
            proven = [one for one in proven if one[1] == "EXECUTE"]
        block = self._handing_on.block(block, interest.held, interest.skips)
        if len(block):
            forwarder.forward(block, proven)

    @contextlib.contextmanager
    def _errors(self, batch: Batch) -> Iterator[None]:
        try:
            yield
        except EventError as error:
            error.queue = error.queue or self.queue
            error.batch_id = batch.id
            self._note(error, batch)
            raise
        except psycopg.Error as error:
            raise errors.of_batch(error, self.target, self.queue, batch.id) from error

    def _note(self, error: EventError, batch: Batch) -> None:
        """Stores the failed event for the operator; its transaction is rolled back."""
        self._open = None
        if error.event_id is None or isinstance(error, ScriptFailed):
            return
        error.finding = error.finding or ApplyError()
        try:
            if usable(self.target):
                combined_queue.say_choices(self.target, self.queue, error)
                consumer = self.progress.consumer
                errors.note_apply_error(self.target, self.queue, consumer, batch.tick_id, error)
        except LondisteError as second:
            log.warning("event %d: its error was not stored: %s", error.event_id, second)
