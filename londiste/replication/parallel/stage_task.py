"""Task of a large batch: reads a slice, computes net changes, stages them.

It gets plain data, opens its own connections and may run twice: staged rows and their mark commit
together, so a second run finds the mark and does nothing.  The node's tables are not changed; the
worker merges the staged rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from psycopg import sql

from londiste.applier import statements
from londiste.applier.plan import RowSet, TableChange, TablePlan, Verb
from londiste.changes.decode import decode_all
from londiste.changes.types import SystemEvent
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import translated
from londiste.db.relation import Relation
from londiste.errors import EventError
from londiste.pgq import batches
from londiste.replication.apply.accumulator import Accumulator, BatchPart
from londiste.replication.apply.routing import plan, plan_folded
from londiste.replication.parallel.slices import TRUNCATE, SliceChunk, StagedSlice, StageTask
from londiste.replication.parallel.tasks import stage_slice

#: Characters of the rows of one chunk, which is the parameter of one statement.
CHUNK_CHARACTERS = 4 << 20
#: Messages of the cascade that a task hands on; more are none of the cascade's.
MOST_MESSAGES = 10_000


def staged_table(attempt: int) -> sql.Identifier:
    """Where the tasks of an attempt stage rows."""
    return sql.Identifier("londiste", f"staged_{attempt}")


def stage(task: StageTask) -> int:
    """Stages one slice in one transaction on the target, unless it is staged; its number.

    Raises Superseded when a newer attempt has begun or the batch is written, and the error of the
    side that failed; then nothing is left behind.  An event that cannot be decoded, or tables that
    have to be written event by event, are no error here: the result names them, and the worker
    applies them serially, which finds the event.
    """
    spec = task.spec

    def fill(source: Connection, target: Connection) -> str:
        stager = _Stager(task, target)
        try:
            stager.take_all(source)
        except EventError as error:
            stager.refuse(error.message)
        return stager.staged.dump()

    return stage_slice(
        spec.queue,
        spec.attempt,
        task.slice.number,
        source=spec.source,
        target=spec.target,
        fill=fill,
    )


class _Stager:
    """Reads the events of a slice and writes their net changes as chunks."""

    def __init__(self, task: StageTask, target: Connection) -> None:
        self._task = task
        self._spec = task.spec
        self._target = target
        self._number = 0
        self.staged = StagedSlice()
        self._copy = sql.SQL("copy {} (slice, chunk, rows) from stdin").format(
            staged_table(task.spec.attempt)
        )

    def take_all(self, source: Connection) -> None:
        """Reads the slice to its end.  Raises EventError."""
        accumulator = Accumulator(self._spec.interest)
        batch, part = self._spec.batch, self._task.slice
        query = None
        if part.pages is not None:
            query = batches.batch_page_sql(source, batch.id, part.pages)
        where = part.condition or None
        for block in batches.stream(source, batch, query=query, where=where):
            if not accumulator.has_room(block, self._spec.flush_bytes):
                self._write(accumulator.take())
            accumulator.add(block)
            # A long event is a block, which nothing else may hold while it is written.
            del block
            if accumulator.is_full(self._spec.flush_bytes):
                self._write(accumulator.take())
        self._write(accumulator.take())
        if self.staged.events != part.events:
            raise EventError(
                f"found {self.staged.events} events, {part.events} were counted: an event table"
                " may have been rewritten"
            )

    def refuse(self, why: str) -> None:
        """Marks the batch as one to be applied serially."""
        self.staged = StagedSlice(refused=why)

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
        with translated(describe_dsn(self._spec.target)), self._target.cursor() as cursor:
            with cursor.copy(self._copy) as copy:
                for chunk, rows in self._chunks(part):
                    if rows:
                        copy.write_row((self._task.slice.number, chunk.number, rows))
                    staged.chunks.append(chunk)

    def _chunks(self, part: BatchPart) -> Iterator[tuple[SliceChunk, str]]:
        """Writes the chunks of all tables with their rows; other tables are left to the worker."""
        left = self.staged.left
        decoded: dict[TableName, list[TableChange]] = {}
        for table, folded in part.folds.items():
            if table in left:
                continue
            shape = self._spec.shapes.get(table)
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
            for planned in plan(decoded, self._spec.shapes, node=self._spec.node):
                yield from self._planned(planned)

    def _planned(self, work: TablePlan) -> Iterator[tuple[SliceChunk, str]]:
        table, shape = work.shape.name, work.shape
        if work.sets is None:
            self.staged.left[table] = work.reason
            return
        for rows in work.sets:
            why = unfit(shape, rows)
            if why:
                self.staged.left[table] = why
                return
        if work.truncated:
            yield self._chunk(SliceChunk(0, table, TRUNCATE)), ""
        for rows in work.sets:
            for text, count in statements.payloads(rows, CHUNK_CHARACTERS):
                chunk = SliceChunk(0, table, rows.verb.value, rows.columns, rows.key, count)
                yield self._chunk(chunk), text

    def _chunk(self, chunk: SliceChunk) -> SliceChunk:
        self._number += 1
        return replace(chunk, number=self._number)


def unfit(shape: Relation, rows: RowSet) -> str:
    """The reason why these rows cannot be staged; '' when they can."""
    for name in (*rows.columns, *rows.key):
        if name not in shape.by_name:
            return f"the table has no column {name}"
    if rows.verb is not Verb.INSERT and not set(rows.key) <= set(rows.columns):
        return "an event has no value for a key column"
    return ""
