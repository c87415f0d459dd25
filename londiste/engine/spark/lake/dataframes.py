"""DataFrames of a table's rows and changes, read by executors or from files.

What a batch of events holds is decided before, in the driver, as parts; a task reads one of them.
The columns are given, not asked for: a lake keeps those that the table does not have any more.
"""

from __future__ import annotations

import pickle
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

import londiste.errors
from londiste.db.snapshot import Snapshot
from londiste.engine.spark import session
from londiste.engine.spark.failures import translated
from londiste.engine.spark.stream import reader, schema
from londiste.engine.spark.stream import snapshot as snapshots
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import Options, Payload
from londiste.engine.spark.stream.snapshot import TablePart
from londiste.engine.spark.stream.types import StreamColumn, StreamShape
from londiste.errors import LondisteError

if TYPE_CHECKING:
    import pyarrow as pa

#: What is known of every change, behind the columns of its table.
CHANGE = schema.CHANGE

#: Times are told in UTC, and days begin by it.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # The older form is unknown to many readers.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def get(given: dict[str, str]) -> Any:
    """The session of this process, with what a lake needs of it."""
    spark = session.get({**given, **SETTINGS})
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    return spark


def rows(
    spark: Any, options: Options, parts: Sequence[TickRange | TablePart], shape: StreamShape
) -> Any:
    """The changes or rows of some parts, with the columns of a stream of payload typed."""
    result = schema.schema(Payload.TYPED, shape.columns, timed=options.timed)
    if not parts:
        return spark.createDataFrame([], result)
    payload = zlib.compress(pickle.dumps((options, list(parts), shape, result)), 1)
    ids = spark.range(0, len(parts), 1, len(parts))
    return ids.mapInArrow(_program(payload, session.shipped()), result)


def _program(
    payload: bytes, package: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What executors run; see ``jobs``, which finds our program there in the same way."""

    def execute(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        if package:
            from pyspark import SparkFiles

            path = SparkFiles.get(package)
            if path not in sys.path:
                sys.path.insert(0, path)
        from londiste.engine.spark.lake import dataframes

        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from dataframes.read_part(payload, number)

    return execute


def read_part(payload: bytes, number: int) -> Iterator[pa.RecordBatch]:
    """In an executor: one part."""
    options, parts, shape, result = pickle.loads(zlib.decompress(payload))
    part = parts[number]
    if isinstance(part, TablePart):
        return snapshots.rows(options, part, shape, result)
    return reader.changes(options, part, shape, result)


def files(spark: Any, paths: Sequence[str], wanted: t.StructType) -> Any:
    """What is in some files; columns that a file does not have are NULL."""
    if not paths:
        return spark.createDataFrame([], wanted)
    return spark.read.schema(wanted).parquet(*map(literally, paths))


def literally(path: str) -> str:
    """A path as Spark has to be told it, to whom some characters stand for any others."""
    return _PATTERN.sub(r"\\\g<0>", path)


_PATTERN = re.compile(r"[][{}*?\\]")


def columns(found: Sequence[StreamColumn], more: Sequence[tuple[str, Any]] = ()) -> t.StructType:
    """The columns of a table, and more."""
    count = len(found)
    fields = schema.schema(Payload.TYPED, found).fields[:count]
    return t.StructType([*fields, *(t.StructField(name, kind, True) for name, kind in more)])


def with_day(found: t.StructType) -> t.StructType:
    """With the day by which changes are in directories."""
    return t.StructType([*found.fields, t.StructField("_day", t.DateType(), True)])


def seen_by(frame: Any, snapshot: Snapshot) -> Any:
    """Those changes that a snapshot sees."""
    txid = f.col("_txid")
    condition = txid < snapshot.xmax
    if snapshot.xip:
        condition = condition & ~txid.isin(sorted(snapshot.xip))
    return frame.where(condition)


def col(name: str) -> Any:
    """A column, whatever its name."""
    return f.col("`" + name.replace("`", "``") + "`")


def cols(names: Iterable[str]) -> list[Any]:
    """Columns, whatever their names."""
    return [col(name) for name in names]


def whole(frame: Any, found: Sequence[StreamColumn]) -> Any:
    """With all of some columns; those that it does not have are NULL."""
    for field in columns(found).fields:
        if field.name not in frame.columns:
            frame = frame.withColumn(field.name, f.lit(None).cast(field.dataType))
    return frame


def every(conditions: Iterable[Any]) -> Any:
    """All of the conditions, one at least."""
    return reduce(lambda one, other: one & other, conditions)


#: The line of a traceback that says what an executor raised.
_RAISED = re.compile(r"^\s*londiste\.errors\.(\w+): (.*)$", re.M)


def ours(error: Exception) -> LondisteError:
    """The error of ours that a failed job stands for: that of the task, with its hint."""
    if isinstance(error, LondisteError):
        return error
    found = list(_RAISED.finditer(str(error)))
    if not found:
        return translated(error)
    last = found[-1]
    kind = getattr(londiste.errors, last[1], LondisteError)
    said = {"detail": "", "hint": ""}
    for line in str(error)[last.end() :].splitlines()[1:3]:
        word, colon, text = line.partition(": ")
        if not colon or word not in said:
            break
        said[word] = text
    if not isinstance(kind, type) or not issubclass(kind, LondisteError):
        kind = LondisteError
    return kind(last[2], detail=said["detail"], hint=said["hint"])
