"""Parallel dispatch of a large batch into tables: the task, and the merge.

A task decodes its events, finds the partition of each row and stages net changes as chunks of
rows.  The merge creates the partitions, so they become visible together with the position.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from londiste.applier.plan import Verb
from londiste.changes.types import Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import Relation
from londiste.handlers.dispatch import Dispatching, TargetTable
from londiste.handlers.event_actions import At
from londiste.handlers.partitions import Made
from londiste.pgq.types import Batch, Event
from londiste.replication.apply.relation_cache import RelationCache
from londiste.replication.apply.routing import Pending, plan
from londiste.replication.parallel.merge import MergeFailed, Merger
from londiste.replication.parallel.slices import (
    TRUNCATE,
    Slice,
    SliceChunk,
    StagedSlice,
    StageSpec,
    StageTask,
)
from londiste.replication.parallel.stage_task import Stager, chunks_of, require_all, unfit
from londiste.replication.parallel.tasks import FallBackToSerial, stage_slice
from londiste.tools.dispatch.rules import Rules

#: Estimated bytes of changes that are kept before they are written.
FLUSH_BYTES = 64 << 20


@dataclass(frozen=True)
class DispatchSpec(StageSpec):
    """The input of the tasks: with the rules for the events."""

    rules: Rules


@dataclass
class DispatchedSlice(StagedSlice):
    """What a task has staged.

    left_out -- events that are no row changes, or are ignored.
    places -- tables that are written: whose events they are, the table here, and the partition.
    """

    left_out: int = 0
    places: list[tuple[TableName, TableName, TargetTable]] = field(default_factory=list)


def stage_rows(task: StageTask[DispatchSpec]) -> int:
    """Stages the rows of one slice; returns its number.  As ``stage_slice``."""

    def fill(source: Connection, target: Connection) -> DispatchedSlice:
        stager = _Rows(task, target)
        stager.take_all(source)
        return replace(stager.staged, places=list(stager.places.values()))

    return stage_slice(task, fill)


class _Rows(Stager[DispatchSpec]):
    """Stages the net changes of the events, each in its partition."""

    staged: DispatchedSlice

    def __init__(self, task: StageTask[DispatchSpec], target: Connection) -> None:
        super().__init__(task, target)
        self.staged = DispatchedSlice()
        #: By table that is written.
        self.places: dict[TableName, tuple[TableName, TableName, TargetTable]] = {}
        self._shapes = RelationCache(target)

    def take_all(self, source: Connection) -> None:
        """Reads the slice to its end.  Raises EventError, FallBackToSerial."""
        pending = Pending()
        for block in self.blocks(source):
            for event in block:
                self.staged.events += 1
                self._take(event, pending)
        self._write(pending)
        require_all(self.spec, self.part, self.staged.events)

    def _take(self, event: Event, pending: Pending) -> None:
        found = self.spec.rules.route(event)
        if found is None:
            self.staged.left_out += 1
            return
        skips = self.spec.rules.skips
        for told in found.work.told(found.dest, self.spec.batch.tick_time, [event], skips):
            table = told.place.table
            source, dest, _ = self.places.setdefault(table, (found.source, found.dest, told.place))
            if dest != found.dest or self.spec.rules.of(source).work != found.work:
                raise FallBackToSerial(
                    f"{table} gets rows of {source} and {found.source} with different rules"
                )
            if isinstance(told.change, Truncate):
                self._write(pending)
                self.add(SliceChunk(0, dest, TRUNCATE))
                continue
            pending.add(table, told.change)
            if pending.bytes >= FLUSH_BYTES:
                self._write(pending)

    def _write(self, pending: Pending) -> None:
        dests = {table: self.places[table][1] for table in pending.changes}
        found = self._shapes.of(dests.values())
        for dest in dests.values():
            if dest not in found:
                raise FallBackToSerial(f"table {dest} does not exist")
        # A partition has the columns of its parent; whether it has, is looked at before writing.
        shapes = {table: replace(found[dest], name=table) for table, dest in dests.items()}
        # Decided before anything is sent: an error in COPY would end the transaction.
        planned = plan(pending.changes, shapes, node=self.spec.batch.consumer)
        for work in planned:
            why = unfit(work)
            if why:
                raise FallBackToSerial(f"{work.shape.name}: {why}")
        self.write(itertools.chain.from_iterable(map(chunks_of, planned)))
        pending.clear()


class Writing:
    """Writes staged rows of a batch into tables and partitions, in the open transaction."""

    def __init__(self, conn: Connection, rules: Rules, batch: Batch) -> None:
        self._conn = conn
        self._rules = rules
        self._batch = batch
        self._shapes = RelationCache(conn)
        self._known: dict[TableName, tuple[TableName, dict[TableName, Made]]] = {}
        self._by_name: dict[TableName, Relation] = {}
        self._merger: Merger | None = None
        self.left_out = 0

    def write(self, spec: DispatchSpec, part: Slice, staged: DispatchedSlice) -> int:
        """Writes a slice; the number of its events.  Raises FallBackToSerial, TransientError."""
        self.left_out += staged.left_out
        places = {place.table: (source, dest, place) for source, dest, place in staged.places}
        if self._merger is None:
            self._merger = Merger(self._conn, spec.attempt, self._by_name, spec.batch.consumer)
        merger = self._merger

        def truncate(changes: Iterable[tuple[TableName, object]]) -> None:
            for table, _ in changes:
                self._send(merger, part, SliceChunk(0, table, TRUNCATE))

        for chunk in staged.chunks:
            source, dest, place = places[chunk.table]
            work = self._work(source)
            if chunk.kind == TRUNCATE:
                tick = self._batch.tick_id, self._batch.tick_time
                work.truncate(At(self._conn, self._batch.queue, *tick, dest, truncate))
                continue
            _, known = self._known.setdefault(source, (dest, {}))
            if work.is_there(self._conn, dest, place, known):
                self._send(merger, part, chunk)
        return staged.events

    def _send(self, merger: Merger, part: Slice, chunk: SliceChunk) -> None:
        self._require(chunk)
        try:
            merger.write(part.number, chunk)
        except MergeFailed as failed:
            raise FallBackToSerial(f"{failed.table}: {failed.text}") from failed

    def finish(self) -> None:
        """Drops expired partitions after the last slice."""
        for source, (dest, known) in self._known.items():
            self._work(source).drop_old(self._conn, dest, known)

    def _work(self, source: TableName) -> Dispatching:
        work = self._rules.of(source).work
        assert work is not None
        return work

    def _require(self, chunk: SliceChunk) -> None:
        table = chunk.table
        if table not in self._by_name:
            self._by_name.update(self._shapes.of([table]))
        shape = self._by_name.get(table)
        if shape is None:
            raise FallBackToSerial(f"table {table} does not exist")
        for name in (*chunk.columns, *chunk.key):
            if name not in shape.by_name:
                raise FallBackToSerial(f"{table} has no column {name}")
        if chunk.kind not in {Verb.INSERT, TRUNCATE} and not set(chunk.key) <= set(chunk.columns):
            raise FallBackToSerial(f"{table}: an event has no value for a key column")
