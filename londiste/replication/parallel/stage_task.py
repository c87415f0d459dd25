"""Task of a large batch: reads a slice, computes net changes, stages them.

It gets plain data, opens its own connections and may run twice: staged rows and their mark commit
together, so a second run finds the mark and does nothing.  The node's tables are not changed; the
worker merges the staged rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic

from psycopg import sql

from londiste.applier import statements
from londiste.applier.plan import TableChange, TablePlan, Verb
from londiste.changes.decode import decode_all
from londiste.changes.types import SystemEvent
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import translated
from londiste.db.relation import Relation
from londiste.errors import EventError
from londiste.pgq import batches
from londiste.pgq.blocks import EventBlock
from londiste.replication.apply.accumulator import Accumulator, BatchPart
from londiste.replication.apply.routing import RoutingTable, plan, plan_folded
from londiste.replication.parallel.slices import (
    TRUNCATE,
    S,
    Slice,
    SliceChunk,
    StagedSlice,
    StageSpec,
    StageTask,
)
from londiste.replication.parallel.tasks import FallBackToSerial, stage_slice

#: Characters of the rows of one chunk, which is the parameter of one statement.
CHUNK_CHARACTERS = 4 << 20
#: Messages of the cascade that a task hands on; more are none of the cascade's.
MOST_MESSAGES = 10_000


def staged_table(attempt: int) -> sql.Identifier:
    """Where the tasks of an attempt stage rows."""
    return sql.Identifier("londiste", f"staged_{attempt}")


@dataclass(frozen=True)
class ApplySpec(StageSpec):
    """The input of tasks that stage net changes of a node's tables.

    shapes -- the tables of this node that may occur.
    flush_bytes -- estimated size of the changes that a task folds together.
    """

    node: str
    interest: RoutingTable
    shapes: Mapping[TableName, Relation]
    flush_bytes: int


def stage(task: StageTask[ApplySpec]) -> int:
    """Stages one slice; its number.  As ``stage_slice``.

    An event that cannot be decoded, or tables that have to be written event by event, are no error
    here: the result names them, and the worker applies them serially, which finds the event.
    """

    def fill(source: Connection, target: Connection) -> StagedSlice:
        stager = _NetChanges(task, target)
        stager.take_all(source)
        return stager.staged

    return stage_slice(task, fill)


class Stager(Generic[S]):
    """Reads the events of a slice, and writes chunks of rows into the staging table."""

    def __init__(self, task: StageTask[S], target: Connection) -> None:
        self.spec = task.spec
        self.part = task.slice
        self.target = target
        self.staged = StagedSlice()
        self._copy = sql.SQL("copy {} (slice, chunk, rows) from stdin").format(
            staged_table(task.spec.attempt)
        )

    def blocks(self, source: Connection) -> Iterator[EventBlock]:
        """The events of the slice."""
        spec, part, query = self.spec, self.part, None
        if part.pages is not None and not spec.where:
            query = batches.batch_page_sql(source, spec.batch.id, part.pages)
        where = spec.condition(part)
        return batches.stream(source, spec.batch, query=query, where=where, any_bytes=True)

    def add(self, chunk: SliceChunk) -> SliceChunk:
        """Adds a chunk, with its number, to the result."""
        made = replace(chunk, number=len(self.staged.chunks) + 1)
        self.staged.chunks.append(made)
        return made

    def write(self, chunks: Iterable[tuple[SliceChunk, str]]) -> None:
        """Stages chunks with their rows."""
        with translated(describe_dsn(self.spec.target)), self.target.cursor() as cursor:
            with cursor.copy(self._copy) as copy:
                for chunk, rows in chunks:
                    number = self.add(chunk).number
                    if rows:
                        copy.write_row((self.part.number, number, rows))


def chunks_of(work: TablePlan) -> Iterator[tuple[SliceChunk, str]]:
    """The chunks of a table, each with its rows."""
    for rows in work.sets or ():
        for text, count in statements.payloads(rows, CHUNK_CHARACTERS):
            table, kind = work.shape.name, rows.verb.value
            yield SliceChunk(0, table, kind, rows.columns, rows.key, count), text


def require_all(spec: StageSpec, part: Slice, events: int) -> None:
    """Raises FallBackToSerial when other events were read than were counted."""
    # With a filter it is not known how many there are.
    if not spec.where and events != part.events:
        raise FallBackToSerial(
            f"found {events} events, {part.events} were counted: an event table may have been"
            " rewritten"
        )


class _NetChanges(Stager[ApplySpec]):
    """Stages the net changes of the events."""

    def take_all(self, source: Connection) -> None:
        """Reads the slice to its end.  Raises EventError, FallBackToSerial."""
        accumulator = Accumulator(self.spec.interest)
        for block in self.blocks(source):
            if not accumulator.has_room(block, self.spec.flush_bytes):
                self._write(accumulator.take())
            accumulator.add(block)
            # A long event is a block, which nothing else may hold while it is written.
            del block
            if accumulator.is_full(self.spec.flush_bytes):
                self._write(accumulator.take())
        self._write(accumulator.take())
        require_all(self.spec, self.part, self.staged.events)

    def _write(self, part: BatchPart) -> None:
        """Stages the net changes of some of the events."""
        staged = self.staged
        staged.events += part.events
        staged.applied += part.applied
        for event in part.messages:
            (message,) = decode_all(event)
            if not isinstance(message, SystemEvent):
                raise EventError(f"event {event.id} is a script", event_id=event.id)
            staged.messages.append(message)
        if len(staged.messages) > MOST_MESSAGES:
            raise EventError(f"there are more than {MOST_MESSAGES} control messages")
        for route, _ in part.handed:
            staged.left[route.dest] = "its handler takes every event"
        self.write(self._chunks(part))

    def _chunks(self, part: BatchPart) -> Iterator[tuple[SliceChunk, str]]:
        """Writes the chunks of all tables with their rows; other tables are left to the worker."""
        left = self.staged.left
        decoded: dict[TableName, list[TableChange]] = {}
        for table, folded in part.folds.items():
            if table in left:
                continue
            shape = self.spec.shapes.get(table)
            if shape is None:
                left[table] = "the table does not exist"
                continue
            planned = plan_folded(folded, shape)
            if planned is None:
                decoded[table] = []
            else:
                yield from self._planned(planned)
        if decoded:
            for table, change in part.changes(decoded):
                decoded[table].append(change)
            for planned in plan(decoded, self.spec.shapes, node=self.spec.node):
                yield from self._planned(planned)

    def _planned(self, work: TablePlan) -> Iterator[tuple[SliceChunk, str]]:
        table = work.shape.name
        why = unfit(work)
        if why:
            self.staged.left[table] = why
            return
        if work.truncated:
            yield SliceChunk(0, table, TRUNCATE), ""
        yield from chunks_of(work)


def unfit(work: TablePlan) -> str:
    """The reason why the rows of a table cannot be staged; '' when they can."""
    if work.sets is None:
        return work.reason
    for rows in work.sets:
        for name in (*rows.columns, *rows.key):
            if name not in work.shape.by_name:
                return f"the table has no column {name}"
        if rows.verb is not Verb.INSERT and not set(rows.key) <= set(rows.columns):
            return "an event has no value for a key column"
    return ""
