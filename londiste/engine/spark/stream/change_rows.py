"""Rows of changes: events decoded, and the columns that describe a change; rows as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from londiste.changes.decode import decode_all
from londiste.changes.kinds import is_change
from londiste.changes.types import ExecuteScript, Op, RowChange, SystemEvent, Truncate
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.engine.spark.stream import arrow_decode, event_csv, preimages, schema
from londiste.engine.spark.stream.net_changes import NetChanges
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import GapPolicy, Net, Options
from londiste.engine.spark.stream.rows import Rows, batches
from londiste.errors import EventError
from londiste.pgq import blocks
from londiste.pgq.consumers import ConsumerKind
from londiste.pgq.types import Event, Tick

if TYPE_CHECKING:
    import pyarrow as pa

#: Bytes of events that are made into columns at a time.
BLOCK_BYTES = 2 << 20

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_CHANGE_TYPES = {Op.INSERT: "insert", Op.UPDATE: "update_postimage", Op.DELETE: "delete"}


class ChangeRows(Rows):
    """A row for each row of a table that was changed."""

    def __init__(self, options: Options, part: TickRange) -> None:
        super().__init__(options, part)
        net = options.net is Net.NET_CHANGES
        self._net = NetChanges(options.preimages) if net else None

    @property
    def one_by_one(self) -> bool:
        """Whether events have to be decoded one by one, by the options."""
        return self._net is not None or self.options.preimages

    def of(self, event: Event, tick: Tick) -> Iterator[tuple[int, Sequence[Any]]]:
        if self._ignores(event.type):
            return
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
            if self._net is None:
                yield from self.told(event, tick, change, (event, change), max(1, size))
            else:
                self._net.add(event, tick, change)
            size = 0

    def _ignores(self, kind: str | None) -> bool:
        """Whether events of this type are no concern of a lake or dispatcher; a stream fails."""
        mine = self.options.kind in (ConsumerKind.LAKE, ConsumerKind.DISPATCH)
        return mine and kind != "EXECUTE" and not is_change(kind)

    def batches(self, conn: Connection, result: Any) -> Iterator[pa.RecordBatch]:
        if self.one_by_one:
            yield from super().batches(conn, result)
            return
        parser = self.parser(result)
        with self._query(conn) as query:
            statement = event_csv.statement(query, self.condition(), timed=self.options.timed)
            for block in blocks.copied(conn, statement, block_bytes=BLOCK_BYTES):
                yield from self.block(block.data, parser, result)

    def parser(self, result: Any) -> arrow_decode.Divider:
        """What makes rows of many events at a time."""
        raise NotImplementedError

    def block(
        self, data: bytes, parser: arrow_decode.Divider, result: Any
    ) -> Iterator[pa.RecordBatch]:
        """The rows of events as ``event_csv.statement`` has written them."""
        events = event_csv.table(data, timed=self.options.timed)
        if self._seen is not None:
            events = event_csv.without(events, self.is_seen)
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

    def _read(self, conn: Connection) -> Iterator[tuple[int, Sequence[Any]]]:
        yield from super()._read(conn)
        if self._net is not None:
            for event, tick, change, first in self._net.changes():
                yield from self.told(event, tick, change, first, len(event.data or ""))

    def told(
        self,
        event: Event,
        tick: Tick,
        change: RowChange,
        first: tuple[Event, RowChange],
        size: int,
    ) -> Iterator[tuple[int, Sequence[Any]]]:
        """The rows of one change; first -- the event and change with the row as it was before."""
        if self.options.preimages:
            old = preimages.before(change, first)
            if old is not None:
                kind = "update_preimage" if change.op is Op.UPDATE else "delete"
                meta = self._meta(kind, tick, event, change.row, change.table)
                yield size, self.row(meta, *old)
        meta = self._meta(_CHANGE_TYPES[change.op], tick, event, change.row, change.table)
        yield size, self.row(meta, event, change)

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


class JsonRows(ChangeRows):
    """The row as JSON: the event's own text, where that is JSON."""

    def __init__(self, options: Options, part: TickRange) -> None:
        super().__init__(options, part)
        self._lines: tuple[str | None, list[str]] = (None, [])

    def parser(self, result: Any) -> arrow_decode.Divider:
        return arrow_decode.JsonLines(schema.arrow(result), self.wants)

    def row(self, meta: Sequence[Any], event: Event, change: RowChange) -> Sequence[Any]:
        if not (event.type or "").startswith("{"):
            text = json.dumps(change.image, ensure_ascii=False)
        elif not change.row:
            text = event.data or ""
        else:
            if self._lines[0] is not event.data:
                self._lines = (event.data, (event.data or "").split("\n"))
            text = self._lines[1][change.row - 1]
        return (*meta, list(change.key), text)

    def other(self, meta: Sequence[Any], text: str | None) -> Sequence[Any]:
        return (*meta, [], text)


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
