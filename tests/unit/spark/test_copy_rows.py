"""Typed rows as lines of COPY."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")
import pyarrow as pa
from pyspark.sql import types as t

from londiste.engine.spark.sink import change_rows
from londiste.engine.spark.sink.copy_rows import Lines
from londiste.engine.spark.sink.stage import CHUNK_CHARACTERS, CHUNK_ROWS
from londiste.engine.spark.stream.schema import arrow
from londiste.errors import EventError

KINDS = {
    "id": t.LongType(),
    "v": t.StringType(),
    "f": t.FloatType(),
    "n": t.DecimalType(38, 18),
    "b": t.BooleanType(),
    "at": t.TimestampType(),
    "d": t.DateType(),
    "x": t.BinaryType(),
    "a": t.ArrayType(t.StringType()),
    "j": t.ArrayType(t.StringType()),
    "_change_type": t.StringType(),
    "_commit_version": t.LongType(),
}


def lines(rows: list[tuple[Any, ...]], *, merge: bool = True) -> list[tuple[str, int]]:
    schema = t.StructType([t.StructField(*one) for one in KINDS.items()])
    columns = {
        name: SimpleNamespace(base_type=None, type_name="text[]" if name == "a" else "json")
        for name in KINDS
    }
    table: Any = SimpleNamespace(by_name=columns)
    fields = arrow(schema)
    arrays = [pa.array([row[n] for row in rows], f.type) for n, f in enumerate(fields)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=fields)
    places = {name: number for number, name in enumerate(KINDS)}
    made = Lines(
        schema,
        table,
        [(name, at) for name, at in places.items() if not merge or not name.startswith("_")],
        [("v", places["_commit_version"])],
        places["_change_type"],
        change_rows._op if merge else None,
    )
    return [(chunk.rows, chunk.count) for chunk in made.chunks([batch])]


NOTHING = (None,) * 8


def test_values_are_written_as_copy_reads_them() -> None:
    when = datetime(2026, 2, 3, 4, 5, 6, 7, UTC)
    # A line that ends the data, if it is not escaped.
    text = 'é "\\ \n\\.\n\t\r'
    values = (0.1, Decimal("-5"), True, when, date(1, 1, 1), b"\x00\xff", ['a"\\', None], ["x"])
    found = lines([(1, text, *values, "insert", 5), (2, "", *NOTHING, "delete", None)])
    assert found == [
        (
            '1\t5\t\\N\t\\N\t1\té "\\\\ \\n\\\\.\\n\\t\\r\t0.10000000149011612'
            "\t-5.000000000000000000\ttrue\t2026-02-03 04:05:06.000007Z\t0001-01-01\t\\\\x00ff"
            '\t{"a\\\\"\\\\\\\\",NULL}\t["x"]\n'
            "0\t\\N\t\\N\t\\N\t2\t" + "\t\\N" * 8 + "\n",
            2,
        )
    ]
    assert lines([(2, None, *NOTHING, "x", 7)], merge=False) == [
        ("2" + "\t\\N" * 9 + "\tx\t7\n", 1)
    ]
    for kind in ("truncate", None):
        with pytest.raises(EventError, match="not a change of one row"):
            lines([(1, "", *NOTHING, kind, 1)])


def test_chunks_have_a_bounded_size() -> None:
    found = lines([(n, "", *NOTHING, "insert", n) for n in range(CHUNK_ROWS + 1)])
    assert [count for _, count in found] == [CHUNK_ROWS, 1]
    found = lines([(n, "x" * (CHUNK_CHARACTERS // 2), *NOTHING, "insert", n) for n in range(9)])
    assert sum(count for _, count in found) == 9 and len(found) > 2
    assert max(len(text) for text, _ in found) <= 2 * CHUNK_CHARACTERS
