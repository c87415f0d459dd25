"""Typed rows: the columns of a table, from events and from rows of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from londiste.changes.types import Op, RowChange, address
from londiste.db.names import TableName
from londiste.engine.spark.stream import arrow_decode, schema
from londiste.engine.spark.stream.change_rows import ChangeRows
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import GapPolicy, Options
from londiste.engine.spark.stream.types import StreamColumn, StreamShape, Unfit, converter
from londiste.errors import EventError, LondisteError
from londiste.pgq.types import Event

if TYPE_CHECKING:
    import pyarrow as pa


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
            message = (
                f"column {column.name} of table {self.table}: value out of range of Spark's"
                f" {column.shown}, {where}"
            )
            detail = f"it is {error}; the type in PostgreSQL is {column.type}"
            may_round = column.kind == "decimal" and self.policy is not GapPolicy.ROUND
            rounded = ", more digits rounded with unsupportedValues=round"
            hint = (
                "continue with NULL instead with unsupportedValues=null"
                f"{rounded if may_round else ''}; or read the column as text with"
                f" stringColumns={column.name}, which needs another checkpoint and target"
            )
            if event_id is None:
                raise LondisteError(message, detail=detail, hint=hint) from None
            raise EventError(message, detail=detail, hint=hint, event_id=event_id) from None


class TypedRows(ChangeRows):
    """The row as columns of the table."""

    def __init__(self, options: Options, part: TickRange, shape: StreamShape) -> None:
        super().__init__(options, part)
        self._shape = shape
        self._typed = Typed(options.table, shape.columns, options.values)
        self._convert = [(c.name, converter(c, options.values)) for c in shape.columns]
        self._known = {c.name for c in shape.columns} | shape.unread
        self._count = len(shape.columns)
        self._fitting: set[tuple[str, ...]] = set()

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
                hint="restart the query to read the columns that the table has now; exclude columns"
                " that were dropped with newColumns=ignore",
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
