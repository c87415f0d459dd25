"""Schema of the result: columns of the table or event, and Spark's change feed columns."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as t

from londiste.engine.spark.stream.options import CHANGE_NAMES, Payload
from londiste.engine.spark.stream.types import StreamColumn, StreamShape
from londiste.errors import BadOption

if TYPE_CHECKING:
    import pyarrow as pa

#: What is known of every change.
CHANGE = tuple(
    zip(
        CHANGE_NAMES,
        (
            t.StringType(),
            t.LongType(),
            t.TimestampType(),
            t.LongType(),
            t.IntegerType(),
            t.LongType(),
            t.StringType(),
        ),
        strict=True,
    )
)

#: Optional column, after these.
TIMED = (("_event_time", t.TimestampType()),)

_JSON = (("_key", t.ArrayType(t.StringType())), ("row", t.StringType()))

_RAW = (
    ("_commit_version", t.LongType()),
    ("_commit_timestamp", t.TimestampType()),
    ("_event_id", t.LongType()),
    ("_txid", t.LongType()),
    ("ev_time", t.TimestampType()),
    ("ev_type", t.StringType()),
    ("ev_data", t.StringType()),
    ("ev_extra1", t.StringType()),
    ("ev_extra2", t.StringType()),
    ("ev_extra3", t.StringType()),
    ("ev_extra4", t.StringType()),
)

_TYPES: dict[str, Any] = {
    "boolean": t.BooleanType(),
    "short": t.ShortType(),
    "int": t.IntegerType(),
    "long": t.LongType(),
    "float": t.FloatType(),
    "double": t.DoubleType(),
    "binary": t.BinaryType(),
    "date": t.DateType(),
    "timestamp": t.TimestampType(),
    "timestamp_ntz": t.TimestampNTZType(),
    "string": t.StringType(),
}


def of_shape(payload: Payload, shape: StreamShape, *, timed: bool = False) -> Any:
    """The StructType of the result for one table, or with a struct for each of several."""
    if not shape.tables:
        return schema(payload, shape.columns, timed=timed)
    require_different(table for table, _ in shape.tables)
    for table, inside in shape.tables:
        require_different((column.name for column in inside.columns), of=f"table {table}: ")
    structs = [(table, columns(inside.columns)) for table, inside in shape.tables]
    return _struct([*structs, *CHANGE])


def columns(found: Sequence[StreamColumn]) -> Any:
    """The StructType of the columns of a table."""
    return _struct([(column.name, _type(column)) for column in found])


def _type(column: StreamColumn) -> Any:
    if column.kind == "decimal":
        return t.DecimalType(column.digits, column.scale)
    return _TYPES[column.kind]


def schema(payload: Payload, columns: Sequence[StreamColumn] = (), *, timed: bool = False) -> Any:
    """The StructType of the result; columns -- those of the table for payload typed.

    timed -- with the time of the event.

    Raises BadOption when names of columns would not be different.
    """
    if payload is Payload.RAW:
        return _struct(_RAW)
    if payload is Payload.JSON:
        return _struct([*CHANGE, *_JSON])
    fields = [(column.name, _type(column)) for column in columns]
    require_different(column.name for column in columns)
    return _struct([*fields, *CHANGE, *(TIMED if timed else ())])


def require_different(names: Iterable[str], *, of: str = "") -> None:
    """Raises BadOption unless Spark can distinguish the columns, also from those of a change."""
    taken = set(CHANGE_NAMES)
    for name in names:
        if name.lower() in taken:
            raise BadOption(
                f"{of}column {name}: duplicate column in the result",
                detail="column names in Spark are case-insensitive",
                hint="use payload=json",
            )
        taken.add(name.lower())


def _struct(fields: Sequence[tuple[str, Any]]) -> Any:
    return t.StructType([t.StructField(name, kind, True) for name, kind in fields])


def arrow(result: Any) -> pa.Schema:
    """The schema of Arrow that Spark wants to see for the result."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # Spark 4.2 asks for the zone, earlier releases take it to be UTC.
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(result, timezone="UTC")
    return to_arrow_schema(result)
