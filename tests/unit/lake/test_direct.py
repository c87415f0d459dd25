"""Rows and folders of files that tasks write themselves; a file ends where it is large enough."""

from __future__ import annotations

import resource
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import types as t

from londiste.engine.spark.lake import direct, file_writer
from londiste.engine.spark.lake.direct import DirectPlan
from londiste.engine.spark.lake.file_writer import Place

WANTED = t.StructType(
    [
        t.StructField("number", t.IntegerType()),
        t.StructField("gone", t.StringType()),
        t.StructField("_event_id", t.LongType()),
    ]
)
KINDS = ("insert", "update_postimage", "delete", "execute", "truncate")


def batch(times: list[Any], kind: pa.DataType, kinds: tuple[str, ...] = KINDS) -> pa.RecordBatch:
    count = len(times)
    given = {
        "id": pa.array(range(count), pa.int32()),
        "at": pa.array(times, kind),
        "_change_type": [kinds[n % len(kinds)] for n in range(count)],
        "_event_id": pa.array(range(10, 10 + count), pa.int64()),
    }
    return pa.RecordBatch.from_pydict(given)


def plan(**more: Any) -> DirectPlan:
    given: dict[str, Any] = {"time": "at", "folder": "y=%(year)s/h=%(month)s.%(day)sT%(hour)s"}
    columns = (("id", "number"), ("gone", "gone"), ("_event_id", "_event_id"))
    kinds = tuple(direct.KINDS.values())
    return DirectPlan(columns, WANTED, kinds, **{**given, **more})


def placed(one: pa.RecordBatch, wanted: DirectPlan) -> tuple[list[dict[str, Any]], Any]:
    facts = direct._Facts()
    rows = [row for some in direct._placed([one], wanted, facts) for row in some.to_pylist()]
    return rows, facts


@pytest.mark.parametrize(
    ("times", "kind", "hour"),
    [
        ([datetime(907, 2, 3, 4, 5)] * 7, pa.timestamp("us"), "04"),
        ([datetime(907, 2, 3, 4, 59, tzinfo=UTC)] * 7, pa.timestamp("us", "UTC"), "04"),
        ([date(907, 2, 3)] * 7, pa.date32(), "00"),
    ],
)
def test_rows_have_the_folder_of_their_time(times: list[Any], kind: Any, hour: str) -> None:
    rows, facts = placed(batch(times, kind), plan())
    assert {row["_part"] for row in rows} == {f"y=0907/h=02.03T{hour}"}
    assert [(row["number"], row["gone"], row["_event_id"]) for row in rows] == [
        (n, None, 10 + n) for n in (0, 1, 2, 5, 6)
    ]
    assert (facts.changes, facts.truncate, facts.scripts, facts.timeless) == (6, 14, [13], None)


def test_changes_before_a_truncate_are_left_out_and_missing_times_are_reported() -> None:
    times = [datetime(2026, 1, 31, 23)] * 7
    rows, _ = placed(batch(times, pa.timestamp("us")), plan(after=14))
    assert [row["_event_id"] for row in rows] == [15, 16]
    fixed = datetime(2026, 12, 1, tzinfo=UTC)
    rows, _ = placed(batch([None], pa.timestamp("us")), plan(time=fixed, folder="d=%(year)s"))
    assert [row["_part"] for row in rows] == ["d=2026"]
    rows, facts = placed(batch([*times, None], pa.timestamp("us")), plan())
    # The last one is a delete, without the time of its row.
    assert rows == [] and facts.timeless == 17


def test_a_row_of_a_table_without_a_time_is_reported() -> None:
    without = batch([None, datetime(2026, 1, 31)], pa.timestamp("us"), ("insert",))
    ids = pa.nulls(2, pa.int64())
    at = without.schema.get_field_index("_event_id")
    rows, facts = placed(without.set_column(at, "_event_id", ids), plan())
    assert rows == [] and facts.timeless == 0
    # It counts before events, whichever comes first.
    for known in (without.set_column(at, "_event_id", ids), without):
        list(direct._placed([known], plan(), facts))
    assert facts.timeless == 0


def test_a_task_writes_few_files_at_a_time(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    batches = [
        pa.RecordBatch.from_pydict({"id": [n, n], "_part": [f"p={n % 20}", f"p={n % 3}"]})
        for n in range(60)
    ]
    found = list(file_writer.write(place, "parquet", batches, file_rows=10))
    assert sum(file.rows for file in found) == 120 and max(file.rows for file in found) <= 11
    assert len({file.path for file in found}) == len(found) > 20
    for file in found:
        read = pyarrow.parquet.ParquetFile(tmp_path / file.path).read()
        assert read.num_rows == file.rows and read.column_names == ["id"]
        assert place.damage(file.path) == ""
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")} == {
        file.path for file in found
    }


def test_a_task_that_fails_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    def failing() -> Any:
        yield pa.RecordBatch.from_pydict({"id": [1], "_part": ["a"]})
        raise RuntimeError

    with pytest.raises(RuntimeError):
        list(file_writer.write(Place(str(tmp_path)), "parquet", failing()))
    assert list(tmp_path.rglob("*.*")) == []


@pytest.mark.parametrize("rows", [10, 200_000])
def test_a_disk_that_takes_no_more_keeps_no_unfinished_file(tmp_path: Path, rows: int) -> None:
    given = {"id": pa.array(range(rows), pa.int64()), "_part": [f"p{n % 3}" for n in range(rows)]}
    found = [pa.RecordBatch.from_pydict(given)]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            list(file_writer.write(Place(str(tmp_path)), "parquet", found))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
