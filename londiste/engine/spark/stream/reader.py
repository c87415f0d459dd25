"""Stream reader, in an executor: events of a slice, by COPY, as Arrow batches.

A task reads all of its events or fails: the queue is asked before and after, so nothing that
rotation has removed in between is missing without a word.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from psycopg import sql

from londiste.changes.decode import decode_all
from londiste.changes.types import ExecuteScript, Op, RowChange, SystemEvent, Truncate, address
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.db.snapshot import Snapshot
from londiste.engine.spark.stream import arrow_decode, schema
from londiste.engine.spark.stream.offsets import TickOf, TickRange
from londiste.engine.spark.stream.options import GapPolicy, Options, Payload
from londiste.engine.spark.stream.types import StreamColumn, StreamShape, Unfit, converter
from londiste.errors import EventError, LondisteError
from londiste.pgq import blocks, ticks
from londiste.pgq.types import Event, Tick

if TYPE_CHECKING:
    import pyarrow as pa

#: A record batch ends with the row that makes it this large.
BATCH_ROWS = 10_000
BATCH_CHARACTERS = 8 << 20
#: Bytes of events that are made into columns at a time.
BLOCK_BYTES = 2 << 20

_CHANGE_TYPES = {Op.INSERT: "insert", Op.UPDATE: "update_postimage", Op.DELETE: "delete"}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def changes(
    options: Options, part: TickRange, shape: StreamShape, result: Any
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice.

    result -- StructType of the rows, from ``schema.schema``.

    Raises PositionLost when events no longer exist, EventError for one that has no row.
    """
    rows = _rows_of(options, part, shape)
    with session(options.conninfo, name=f"londiste-spark {options.queue}", autocommit=True) as conn:
        yield from rows.batches(conn, result)


def batches(rows: Iterator[tuple[int, Sequence[Any]]], result: Any) -> Iterator[pa.RecordBatch]:
    """Rows as record batches of bounded size; each row comes with its size in characters."""
    import pyarrow

    fields = schema.arrow(result)
    lists: list[list[Any]] = [[] for _ in fields]
    count = size = 0

    def made() -> pa.RecordBatch:
        arrays = [
            pyarrow.array(values, field.type) for values, field in zip(lists, fields, strict=True)
        ]
        for values in lists:
            values.clear()
        return pyarrow.RecordBatch.from_arrays(arrays, schema=fields)

    for characters, row in rows:
        for values, value in zip(lists, row, strict=True):
            values.append(value)
        count += 1
        size += characters
        if count >= BATCH_ROWS or size >= BATCH_CHARACTERS:
            yield made()
            count = size = 0
    if count:
        yield made()


def _rows_of(options: Options, part: TickRange, shape: StreamShape) -> _Rows:
    if options.payload is Payload.RAW:
        return _RawRows(options, part)
    if options.payload is Payload.JSON:
        return _JsonRows(options, part)
    return _TypedRows(options, part, shape)


class _Rows:
    """Makes rows of the events of a slice."""

    def __init__(self, options: Options, part: TickRange) -> None:
        self.options = options
        self._part = part
        self._tick_of = TickOf(part.ticks)
        self._seen = Snapshot.parse(part.seen) if part.seen else None

    def batches(self, conn: Connection, result: Any) -> Iterator[pa.RecordBatch]:
        """All rows, as record batches."""
        return batches(self._read(conn), result)

    def _read(self, conn: Connection) -> Iterator[tuple[int, Sequence[Any]]]:
        """All rows, each with its size."""
        with self._query(conn) as query:
            where = self.condition()
            if where:
                query = "\n".join(["select * from (", query, ") as ev where", where])
            for block in blocks.read(conn, query):
                for event in block:
                    yield from self.rows(event)

    @contextlib.contextmanager
    def _query(self, conn: Connection) -> Iterator[str]:
        """Yields the query in a transaction; raises PositionLost if events were removed."""
        given = conn, self.options.queue, self._part.ticks[0].id, self._part.ticks[-1].id
        with conn.transaction():
            yield ticks.tick_event_sql(*given, ordered=False)
        # Raises if rotation removed events during the read.
        ticks.tick_event_sql(*given)

    def is_seen(self, txid: int) -> bool:
        """Whether what a transaction did is in the rows that came first."""
        return self._seen is not None and self._seen.sees(txid)

    def rows(self, event: Event) -> Iterator[tuple[int, Sequence[Any]]]:
        """The rows of an event that are not in the snapshot's rows."""
        if not self.is_seen(event.txid):
            yield from self.of(event, self._tick_of(event.txid))

    def condition(self) -> str:
        """Which events of the ticks, as SQL."""
        found = []
        if self._part.first_id is not None:
            found.append(f"ev_id >= {self._part.first_id}")
        if self._part.last_id is not None:
            found.append(f"ev_id < {self._part.last_id}")
        if self.options.tables:
            # A script has its own name there.
            names = sql.SQL(", ").join(sql.Literal(name) for name in self._names())
            found.append(
                "(ev_extra1 is null or ev_type = 'EXECUTE'"
                f" or ev_extra1 in ({names.as_string(None)}))"
            )
        return " and ".join(found)

    def _names(self) -> list[str]:
        """The names that an event may have for a table."""
        found = [str(table) for table in self.options.tables]
        return found + [table.name for table in self.options.tables if table.schema == "public"]

    def of(self, event: Event, tick: Tick) -> Iterator[tuple[int, Sequence[Any]]]:
        """The rows of an event."""
        raise NotImplementedError


class _RawRows(_Rows):
    """A row for each event, as it is."""

    def of(self, event: Event, tick: Tick) -> Iterator[tuple[int, Sequence[Any]]]:
        size = sum(len(text) for text in event[4:] if isinstance(text, str))
        yield size, (tick.id, tick.time, event.id, event.txid, event.time, *event[4:])


class _ChangeRows(_Rows):
    """A row for each row of a table that was changed."""

    def of(self, event: Event, tick: Tick) -> Iterator[tuple[int, Sequence[Any]]]:
        size = len(event.data or "")
        for change in decode_all(event):
            if isinstance(change, SystemEvent):
                # Messages of the cascade to itself.
                continue
            if isinstance(change, ExecuteScript):
                if self._wanted(self.options.scripts, "onScript", _script(change)):
                    meta = self._meta("execute", tick, event, 0, None)
                    yield size, self.other(meta, change.script)
                continue
            if not self.wants(change.table):
                continue
            if isinstance(change, Truncate):
                if self._wanted(self.options.truncate, "onTruncate", _truncate(change)):
                    yield 0, self.other(self._meta("truncate", tick, event, 0, change.table), None)
                continue
            kind = _CHANGE_TYPES[change.op]
            meta = self._meta(kind, tick, event, change.row, change.table)
            yield max(1, size), self.row(meta, event, change)
            size = 0

    def _meta(
        self, kind: str, tick: Tick, event: Event, row: int, table: TableName | None
    ) -> Sequence[Any]:
        """The columns of ``schema.CHANGE``, and of ``schema.TIMED`` if wanted."""
        name = None if table is None else str(table)
        found = (kind, tick.id, tick.time, event.id, row, event.txid, name)
        return (*found, event.time) if self.options.timed else found

    def wants(self, table: TableName) -> bool:
        """Whether the changes of a table are read."""
        return not self.options.tables or table in self.options.tables

    def _wanted(self, policy: GapPolicy, option: str, what: EventError) -> bool:
        if policy is GapPolicy.FAIL:
            what.say_more(
                "the event is not a change of one row",
                f"apply it to the target manually and continue with option {option}=ignore, or"
                f" read the event as a row with {option}=row",
            )
            raise what
        return policy is GapPolicy.ROW

    def row(self, meta: Sequence[Any], event: Event, change: RowChange) -> Sequence[Any]:
        """One row that was changed."""
        raise NotImplementedError

    def other(self, meta: Sequence[Any], text: str | None) -> Sequence[Any]:
        """What is not a change of a row."""
        raise NotImplementedError


class _JsonRows(_ChangeRows):
    """The row as JSON: the event's own text, where that is JSON."""

    def __init__(self, options: Options, part: TickRange) -> None:
        super().__init__(options, part)
        self._lines: tuple[int, list[str]] = (0, [])

    def row(self, meta: Sequence[Any], event: Event, change: RowChange) -> Sequence[Any]:
        if not (event.type or "").startswith("{"):
            text = json.dumps(change.image, ensure_ascii=False)
        elif not change.row:
            text = event.data or ""
        else:
            if self._lines[0] != event.id:
                self._lines = (event.id, (event.data or "").split("\n"))
            text = self._lines[1][change.row - 1]
        return (*meta, list(change.key), text)

    def other(self, meta: Sequence[Any], text: str | None) -> Sequence[Any]:
        return (*meta, [], text)


@dataclass(frozen=True)
class Typed:
    """Makes values of Spark of the texts of a table's columns."""

    table: TableName
    columns: Sequence[StreamColumn]
    policy: GapPolicy

    def value(self, number: int, convert: Any, text: str, where: str, event_id: int | None) -> Any:
        """One value; where -- event or row, for the message."""
        try:
            return convert(text)
        except Unfit as error:
            if self.policy is GapPolicy.NULL:
                return None
            column = self.columns[number]
            shown = text if len(text) <= 60 else text[:59] + "…"
            message = (
                f"column {column.name} of table {self.table}: value out of range of Spark's"
                f" {column.shown}, {where}"
            )
            detail = f"{shown!r} is {error}; the type in PostgreSQL is {column.type}"
            hint = (
                f"read the column as text with stringColumns={column.name}, all such columns with"
                " unsupportedValues=string, or NULL instead with unsupportedValues=null"
            )
            if event_id is None:
                raise LondisteError(message, detail=detail, hint=hint) from None
            raise EventError(message, detail=detail, hint=hint, event_id=event_id) from None


class _TypedRows(_ChangeRows):
    """The row as columns of the table."""

    def __init__(self, options: Options, part: TickRange, shape: StreamShape) -> None:
        super().__init__(options, part)
        self._shape = shape
        self._typed = Typed(options.table, shape.columns, options.values)
        self._convert = [(c.name, converter(c)) for c in shape.columns]
        self._known = {c.name for c in shape.columns} | shape.unread
        self._count = len(shape.columns)
        self._fitting: set[tuple[str, ...]] = set()

    def batches(self, conn: Connection, result: Any) -> Iterator[pa.RecordBatch]:
        parser = self.parser(result)
        with self._query(conn) as query:
            statement = arrow_decode.statement(query, self.condition(), timed=self.options.timed)
            for block in blocks.copied(conn, statement, block_bytes=BLOCK_BYTES):
                yield from self.block(block.data, parser, result)

    def parser(self, result: Any) -> arrow_decode.Parser:
        """What makes rows of many events at a time."""
        return arrow_decode.Parser(
            self._shape,
            schema.arrow(result),
            self._values,
            wanted=self.wants,
            new_columns=self.options.new_columns,
            missing_columns=self.options.missing_columns,
        )

    def block(
        self, data: bytes, parser: arrow_decode.Parser, result: Any
    ) -> Iterator[pa.RecordBatch]:
        """The rows of events as ``vector.statement`` has written them."""
        events = arrow_decode.table(data, timed=self.options.timed)
        if self._seen is not None:
            events = arrow_decode.without(events, self.is_seen)
        made, others = parser.divide(events, self._tick_of)
        if made is not None:
            yield made
        if others.num_rows:
            yield from batches(self._one_by_one(others), result)

    def _one_by_one(self, events: pa.RecordBatch) -> Iterator[tuple[int, Sequence[Any]]]:
        """The rows of events that are not of the common form."""
        lists = [c.to_pylist() for c in events]
        for id, txid, type, data, extra1, *time in zip(*lists, strict=True):
            # No other field of an event describes a change.
            at = _EPOCH + timedelta(microseconds=time[0]) if time else datetime.min
            event = Event(id, at, txid, None, type, data, extra1, None, None, None)
            yield from self.rows(event)

    def _values(self, number: int, texts: pa.Array, ids: pa.Array, rows: pa.Array) -> Sequence[Any]:
        """The values of one column, one by one."""
        convert, value = self._convert[number][1], self._typed.value
        found = []
        for text, id, row in zip(*[a.to_pylist() for a in (texts, ids, rows)], strict=True):
            where = f"event {address(id, row)}"
            found.append(None if text is None else value(number, convert, text, where, id))
        return found

    def row(self, meta: Sequence[Any], event: Event, change: RowChange) -> Sequence[Any]:
        image = change.image
        if change.partial:
            raise EventError(
                f"event {event.id}: table {change.table}: row image has only the changed columns",
                detail="with payload=typed all other columns would be NULL",
                hint="use payload=json, or replace the table's trigger pgq.sqltriga",
                event_id=event.id,
            )
        names = tuple(image)
        if names not in self._fitting or change.op is Op.DELETE:
            self._fit(names, change)
        return (
            *[
                self._value(n, name, convert, change)
                for n, (name, convert) in enumerate(self._convert)
            ],
            *meta,
        )

    def _value(self, number: int, name: str, convert: Any, change: RowChange) -> Any:
        text = change.image.get(name)
        if text is None:
            return None
        where = f"event {change.address}"
        return self._typed.value(number, convert, text, where, change.event_id)

    def _fit(self, names: tuple[str, ...], change: RowChange) -> None:
        """Raises unless the columns of the event are those of the table."""
        new = [name for name in names if name not in self._known]
        if new and self.options.new_columns is GapPolicy.FAIL:
            raise EventError(
                f"event {change.address}: table {change.table}: columns not in the result:"
                f" {', '.join(new)}",
                detail="the table has changed since the query started, or the column was dropped"
                " later",
                hint="restart the query to read the table's columns, or use newColumns=ignore to"
                " exclude new columns",
                event_id=change.event_id,
            )
        if change.op is Op.DELETE:
            # It has the key, and the other columns that the capture wrote.
            return
        missing = [name for name, _ in self._convert if name not in change.image]
        if missing and self.options.missing_columns is GapPolicy.FAIL:
            raise EventError(
                f"event {change.address}: table {change.table}: missing columns:"
                f" {', '.join(missing)}",
                detail="the event is older than the column, or the capture excludes it",
                hint="use missingColumns=null to read NULL instead",
                event_id=change.event_id,
            )
        self._fitting.add(names)

    def other(self, meta: Sequence[Any], text: str | None) -> Sequence[Any]:
        return (*[None] * self._count, *meta)


def _truncate(change: Truncate) -> EventError:
    return EventError(
        f"event {change.event_id}: table {change.table} was truncated", event_id=change.event_id
    )


def _script(change: ExecuteScript) -> EventError:
    return EventError(
        f"event {change.event_id}: script {change.name} was executed on all nodes",
        detail="the queue has no events for changes by a script",
        event_id=change.event_id,
    )
