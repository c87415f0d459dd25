"""Stream reader, in an executor: events of a slice, by COPY, as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from londiste.db.connection import session
from londiste.engine.spark.stream import bounds
from londiste.engine.spark.stream.change_rows import JsonRows
from londiste.engine.spark.stream.many_tables import ManyTables
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import Options, Payload
from londiste.engine.spark.stream.rows import RawRows, Rows
from londiste.engine.spark.stream.typed_rows import TypedRows
from londiste.engine.spark.stream.types import StreamShape

if TYPE_CHECKING:
    import pyarrow as pa


def changes(
    options: Options, part: TickRange, shape: StreamShape, result: Any
) -> Iterator[pa.RecordBatch]:
    """The rows of a slice.

    result -- StructType of the rows, from ``schema.schema``.

    Raises PositionLost when events no longer exist, EventError for one that has no row.
    """
    with session(options.conninfo, name=f"londiste-spark {options.queue}", autocommit=True) as conn:
        for page in bounds.pages(conn, options, part):
            yield from _rows_of(options, page, shape).batches(conn, result)


def _rows_of(options: Options, part: TickRange, shape: StreamShape) -> Rows:
    if options.payload is Payload.RAW:
        return RawRows(options, part)
    if options.payload is Payload.JSON:
        return JsonRows(options, part)
    if shape.tables:
        return ManyTables(options, part, shape)
    return TypedRows(options, part, shape)
