"""Parallel dispatch of a large batch into tables: the task, and the merge.

A task decodes its events, finds the partition of each row and stages net changes as chunks of
rows.  The merge creates the partitions, so they become visible together with the position.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg import sql

from londiste.applier import statements
from londiste.applier.plan import TablePlan, Verb
from londiste.changes.types import Truncate
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import translated
from londiste.db.relation import Relation
from londiste.errors import EventError
from londiste.handlers.dispatch import Dispatching, TargetTable
from londiste.handlers.event_actions import At
from londiste.handlers.partitions import Made
from londiste.pgq import batches
from londiste.pgq.types import Batch, Event
from londiste.replication.apply.relation_cache import RelationCache
from londiste.replication.apply.routing import Pending, plan
from londiste.replication.parallel.merge import MergeFailed, Merger
from londiste.replication.parallel.slices import TRUNCATE, Slice, SliceChunk, StagedSlice
from londiste.replication.parallel.stage_task import CHUNK_CHARACTERS, staged_table, unfit
from londiste.replication.parallel.tasks import FallBackToSerial, stage_slice
from londiste.tools.dispatch.rules import Rules
from londiste.tools.parallel_batches import Common, JobTask, refused

#: Estimated bytes of changes that are kept before they are written.
FLUSH_BYTES = 64 << 20


@dataclass(frozen=True)
class TableTask(JobTask):
    """A slice, and the rules for its events."""

    rules: Rules


def stage_rows(task: TableTask) -> int:
    """Stages the rows of one slice; returns its number.  As ``stage_slice``."""
    common = task.common

    def fill(source: Connection, target: Connection) -> str:
        stager = _Stager(task, target)
        try:
            stager.take_all(source)
        except EventError as error:
            return json.dumps({"refused": error.message})
        except FallBackToSerial as why:
            return json.dumps({"refused": str(why)})
        return stager.result()

    return stage_slice(
        common.key,
        common.attempt,
        task.slice.number,
        source=common.source,
        target=common.target,
        fill=fill,
    )


class _Stager:
    """Reads the events of a slice and writes their net changes as chunks."""

    def __init__(self, task: TableTask, target: Connection) -> None:
        self._task = task
        self._target = target
        self._staged = StagedSlice()
        self._left_out = 0
        self._shapes = RelationCache(target)
        #: By table that is written: whose events they are, the table here, and the partition.
        self._places: dict[TableName, tuple[TableName, TableName, TargetTable]] = {}
        self._copy = sql.SQL("copy {} (slice, chunk, rows) from stdin").format(
            staged_table(task.common.attempt)
        )

    def take_all(self, source: Connection) -> None:
        """Reads the slice to its end.  Raises EventError, FallBackToSerial."""
        common, part = self._task.common, self._task.slice
        query = None
        if part.pages is not None and not common.where:
            query = batches.batch_page_sql(source, common.batch.id, part.pages)
        pending = Pending()
        for block in batches.stream(
            source, common.batch, query=query, where=common.condition(part)
        ):
            for event in block:
                self._staged.events += 1
                self._take(event, pending)
        self._write(pending)
        if not common.where and self._staged.events != part.events:
            raise FallBackToSerial(
                f"found {self._staged.events} events, {part.events} were counted: an event table"
                " may have been rewritten"
            )

    def result(self) -> str:
        """The result of the slice."""
        return json.dumps(
            {
                "staged": self._staged.dump(),
                "left_out": self._left_out,
                "places": [
                    [
                        *(source, dest, table),
                        None if place.time is None else place.time.isoformat(),
                        place.key,
                    ]
                    for table, (source, dest, place) in self._places.items()
                ],
            }
        )

    def _take(self, event: Event, pending: Pending) -> None:
        found = self._task.rules.route(event)
        if found is None:
            self._left_out += 1
            return
        for told in found.work.told(found.dest, self._task.common.batch.tick_time, [event]):
            table = told.place.table
            source, dest, _ = self._places.setdefault(table, (found.source, found.dest, told.place))
            if dest != found.dest or self._task.rules.of(source).work != found.work:
                raise FallBackToSerial(
                    f"{table} gets rows of {source} and {found.source} with different rules"
                )
            if isinstance(told.change, Truncate):
                self._write(pending)
                self._add(SliceChunk(0, dest, TRUNCATE))
                continue
            pending.add(table, told.change)
            if pending.bytes >= FLUSH_BYTES:
                self._write(pending)

    def _write(self, pending: Pending) -> None:
        dests = {table: self._places[table][1] for table in pending.changes}
        found = self._shapes.of(dests.values())
        for dest in dests.values():
            if dest not in found:
                raise FallBackToSerial(f"table {dest} does not exist")
        # A partition has the columns of its parent; whether it has, is looked at before writing.
        shapes = {table: replace(found[dest], name=table) for table, dest in dests.items()}
        # Decided before anything is sent: an error in COPY would end the transaction.
        planned = plan(pending.changes, shapes, node=self._task.common.batch.consumer)
        for work in planned:
            _require_sets(work)
        with translated(describe_dsn(self._task.common.target)), self._target.cursor() as cursor:
            with cursor.copy(self._copy) as copy:
                for chunk, rows in self._chunks(planned):
                    copy.write_row((self._task.slice.number, chunk.number, rows))
        pending.clear()

    def _chunks(self, planned: list[TablePlan]) -> Iterator[tuple[SliceChunk, str]]:
        for work in planned:
            for rows in work.sets or ():
                for text, count in statements.payloads(rows, CHUNK_CHARACTERS):
                    chunk = SliceChunk(
                        0, work.shape.name, rows.verb.value, rows.columns, rows.key, count
                    )
                    yield self._add(chunk), text

    def _add(self, chunk: SliceChunk) -> SliceChunk:
        made = replace(chunk, number=len(self._staged.chunks) + 1)
        self._staged.chunks.append(made)
        return made


def _require_sets(work: TablePlan) -> None:
    if work.sets is None:
        raise FallBackToSerial(f"{work.shape.name}: {work.reason}")
    for rows in work.sets:
        why = unfit(work.shape, rows)
        if why:
            raise FallBackToSerial(f"{work.shape.name}: {why}")


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

    def write(self, common: Common, part: Slice, result: str) -> int:
        """Writes a slice; the number of its events.  Raises FallBackToSerial, TransientError."""
        told: dict[str, Any] = json.loads(result)
        refused(told)
        staged = StagedSlice.load(told["staged"])
        self.left_out += int(told["left_out"])
        places: dict[TableName, tuple[TableName, TableName, TargetTable]] = {}
        for source, dest, table, time, key in told["places"]:
            when = None if time is None else datetime.fromisoformat(time)
            place = TargetTable(TableName(*table), when, tuple(key))
            places[place.table] = TableName(*source), TableName(*dest), place
        if self._merger is None:
            self._merger = Merger(self._conn, common.attempt, self._by_name, common.batch.consumer)
        for chunk in staged.chunks:
            source, dest, place = places[chunk.table]
            work = self._work(source)
            if chunk.kind == TRUNCATE:
                tick = self._batch.tick_id, self._batch.tick_time
                work.truncate(At(self._conn, self._batch.queue, *tick, dest, _no_rows))
                continue
            _, known = self._known.setdefault(source, (dest, {}))
            if work.is_there(self._conn, dest, place, known):
                self._require(chunk)
                try:
                    self._merger.write(part.number, chunk)
                except MergeFailed as failed:
                    raise FallBackToSerial(f"{failed.table}: {failed.text}") from failed
        return staged.events

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
        if chunk.kind != Verb.INSERT and not set(chunk.key) <= set(chunk.columns):
            raise FallBackToSerial(f"{table}: an event has no value for a key column")


def _no_rows(changes: Iterable[object]) -> None:
    """Removes a TRUNCATE's rows."""
