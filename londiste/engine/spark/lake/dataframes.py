"""DataFrames of a table's rows and changes, read by executors or from files.

What a batch of events holds is decided before, in the driver, as parts; a task reads one of them.
The columns are given, not asked for: a lake keeps those that the table does not have any more.
"""

from __future__ import annotations

import pickle
import re
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f
from pyspark.sql import types as t

import londiste.errors
from londiste.db.snapshot import Snapshot
from londiste.engine.spark import session
from londiste.engine.spark.failures import translated
from londiste.engine.spark.lake import file_writer
from londiste.engine.spark.lake.file_writer import Place, Written
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

#: Files that a task has written.
WRITTEN = "path string, part string, rows long, bytes long, stats string"

#: Times are told in UTC, and days begin by it.
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # The older form is unknown to many readers.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def get(given: dict[str, str]) -> Any:
    """The session of this process, with what a lake needs of it.

    Raises errors of ours: TransientError when its JVM has been killed.
    """
    try:
        spark = session.get({**given, **SETTINGS})
        for key, value in SETTINGS.items():
            spark.conf.set(key, value)
        return spark
    except Exception as error:
        raise ours(error) from error


def rows(
    spark: Any, options: Options, parts: Sequence[TickRange | TablePart], shape: StreamShape
) -> Any:
    """The changes or rows of some parts, with the columns of a stream of payload typed."""
    result = schema.schema(Payload.TYPED, shape.columns, timed=options.timed)
    return numbered(
        spark, "dataframes.read_parts", (options, list(parts), shape, result), len(parts), result
    )


def files(spark: Any, place: Place, paths: Sequence[str], wanted: t.StructType) -> Any:
    """What is in some Parquet files; columns that a file does not have are NULL.

    Tasks read an object store by the package deltalake, which has its options; Spark would need
    libraries and settings of its own.
    """
    if paths and place.is_local:
        return spark.read.schema(wanted).parquet(*(literally(place.address(p)) for p in paths))
    return numbered(
        spark, "dataframes.read_files", (place, list(paths), wanted), len(paths), wanted
    )


def write(rows: Any, place: Place, form: str) -> list[Written]:
    """Writes rows into files of their ``_part``, which no commit names yet."""
    # Spark does not find a column by each name.
    numbered = rows.toDF(*(f"c{number}" for number in range(len(rows.columns))))
    program = _program("dataframes.write_rows", _packed((place, form, rows.columns)))
    return [Written(*row) for row in numbered.mapInArrow(program, WRITTEN).collect()]


def numbered(spark: Any, name: str, given: Any, count: int, result: Any) -> Any:
    """A task for each number; name -- module and function that it runs."""
    if not count:
        return spark.createDataFrame([], result)
    return spark.range(0, count, 1, count).mapInArrow(_program(name, _packed(given)), result)


def _packed(given: Any) -> bytes:
    return zlib.compress(pickle.dumps(given), 1)


def _program(
    name: str, payload: bytes
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What executors run; see ``jobs``, which finds our program there in the same way."""
    package = session.shipped()

    def execute(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        if package:
            from pyspark import SparkFiles

            path = SparkFiles.get(package)
            if path not in sys.path:
                sys.path.insert(0, path)
        import importlib

        module, _, function = name.partition(".")
        found = importlib.import_module(f"londiste.engine.spark.lake.{module}")
        yield from getattr(found, function)(payload, batches)

    return execute


# -- in an executor -------------------------------------------------------------------------------


def read_parts(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Changes or rows."""
    options, parts, shape, result = pickle.loads(zlib.decompress(payload))
    for number in numbers(batches):
        yield from read_part(options, parts[number], shape, result)


def read_part(
    options: Options, part: TickRange | TablePart, shape: StreamShape, result: Any
) -> Iterator[pa.RecordBatch]:
    """Changes or rows of one part."""
    if isinstance(part, TablePart):
        return snapshots.rows(options, part, shape, result)
    return reader.changes(options, part, shape, result)


def read_files(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of files."""
    import pyarrow
    import pyarrow.parquet

    place, paths, wanted = pickle.loads(zlib.decompress(payload))
    result = schema.arrow(wanted)
    for number in numbers(batches):
        with place.files.open_input_file(paths[number]) as file:
            for batch in pyarrow.parquet.ParquetFile(file).iter_batches():
                yield pyarrow.RecordBatch.from_arrays(fitted(batch, result), schema=result)


def fitted(
    batch: pa.RecordBatch, wanted: pa.Schema, names: Mapping[str, str] | None = None
) -> list[pa.Array]:
    """The wanted columns of a batch; those that it does not have are NULL.

    names -- of wanted columns that have another one in the batch.
    """
    import pyarrow

    there = set(batch.schema.names)
    named = [((names or {}).get(one.name, one.name), one.type) for one in wanted]
    return [
        batch.column(name).cast(kind) if name in there else pyarrow.nulls(batch.num_rows, kind)
        for name, kind in named
    ]


def write_rows(payload: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Files of rows."""
    place, form, names = pickle.loads(zlib.decompress(payload))
    named = (batch.rename_columns(names) for batch in batches)
    yield from written(file_writer.write(place, form, named))


def written(files: Iterable[Written]) -> Iterator[pa.RecordBatch]:
    """Files, as Spark takes them."""
    import pyarrow

    for file in files:
        arrays = [pyarrow.array([value]) for value in vars(file).values()]
        yield pyarrow.RecordBatch.from_arrays(arrays, names=list(vars(file)))


def numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    """The numbers of parts or files of a task."""
    for batch in batches:
        yield from batch.column(0).to_pylist()


# -------------------------------------------------------------------------------------------------


def literally(path: str) -> str:
    """A path as Spark has to be told it, to whom some characters stand for any others."""
    return _PATTERN.sub(r"\\\g<0>", path)


_PATTERN = re.compile(r"[][{}*?\\]")


def columns(found: Sequence[StreamColumn], more: Sequence[tuple[str, Any]] = ()) -> t.StructType:
    """The columns of a table, and more."""
    count = len(found)
    fields = schema.schema(Payload.TYPED, found).fields[:count]
    return t.StructType([*fields, *(t.StructField(name, kind, True) for name, kind in more)])


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
    """The error of ours that a failed job stands for: that of the task, with its hint.

    Raises the error itself where the driver's own code raised it: Spark has nothing to do with it.
    """
    if isinstance(error, LondisteError):
        return error
    if not isinstance(error, (OSError, EOFError, RuntimeError)) and _is_of_own_code(error):
        raise error
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


def _is_of_own_code(error: Exception) -> bool:
    """Whether it was raised in a module of this package, in this process."""
    modules = [frame.f_globals["__name__"] for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(modules) and str(modules[-1]).startswith("londiste.")
