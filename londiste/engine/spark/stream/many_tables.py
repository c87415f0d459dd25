"""Typed rows of several tables: a struct for each, which is NULL in the rows of all others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.engine.spark.stream import schema
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.option_values import GapPolicy
from londiste.engine.spark.stream.options import Options, Payload
from londiste.engine.spark.stream.rows import Rows
from londiste.engine.spark.stream.typed_rows import TypedRows
from londiste.engine.spark.stream.types import StreamShape

if TYPE_CHECKING:
    import pyarrow as pa


class ManyTables(Rows):
    """Reads the events of one table after another; the server sends each event once."""

    def __init__(self, options: Options, part: TickRange, shape: StreamShape) -> None:
        super().__init__(options, part)
        self._shapes = shape.tables

    def batches(self, conn: Connection, result: Any) -> Iterator[pa.RecordBatch]:
        fields = schema.arrow(result)
        for place, (name, shape) in enumerate(self._shapes):
            options = replace(self.options, tables=(TableName.parse(name),))
            if place:
                # A script is of no table: it comes with the first.
                options = replace(options, scripts=GapPolicy.IGNORE)
            own = schema.schema(Payload.TYPED, shape.columns)
            for batch in TypedRows(options, self._part, shape).batches(conn, own):
                yield self._with_others(batch, place, fields)

    def _with_others(self, batch: pa.RecordBatch, place: int, fields: pa.Schema) -> pa.RecordBatch:
        import pyarrow as pa

        kind = fields.field(place).type
        own = pa.StructArray.from_arrays(batch.columns[: kind.num_fields], fields=list(kind))
        structs = [
            own if number == place else pa.nulls(len(own), fields.field(number).type)
            for number in range(len(self._shapes))
        ]
        arrays = [*structs, *batch.columns[kind.num_fields :]]
        return pa.RecordBatch.from_arrays(arrays, schema=fields)
