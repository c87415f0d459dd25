"""The rows of a table at one snapshot, and a stream that starts with them: no gap, no overlap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import londiste.spark
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream

pytestmark = pytest.mark.spark

ROWS = {"payload": None, "startingOffsets": None, "tables": "t"}
BOTH = {**ROWS, "mode": "snapshot-then-changes"}


@pytest.fixture
def stream(spark: Any, new_database: Callable[..., Database], tmp_path: Path) -> Stream:
    return Stream(spark, new_database(pgq=True), tmp_path)


@pytest.mark.slow
def test_a_kept_snapshot_is_read_in_parts_and_sees_nothing_of_later(stream: Stream) -> None:
    # A block for each row.
    stream.database.execute(
        "create table t (id int primary key, v text, g int generated always as (id * 2) stored)"
        " with (fillfactor = 10);"
        "insert into t select i, repeat('x', 900) from generate_series(1, 2100) i"
    )
    stream.tick()
    with londiste.spark.snapshot(stream.database.dsn) as name:
        stream.database.execute("delete from t where id % 2 = 0; insert into t values (9000, 'y')")
        frame = stream.read(**ROWS, mode="snapshot", snapshot=name, numPartitions=3)
        assert frame.columns[:3] == ["id", "v", "_change_type"]
        assert frame.rdd.getNumPartitions() == 2
        rows = frame.select("id", "_change_type", "_commit_version").collect()
        assert sorted(r["id"] for r in rows) == list(range(1, 2101))
        assert len({(r["_change_type"], r["_commit_version"]) for r in rows}) == 1
    with pytest.raises(Exception, match=r"snapshot .* no longer exists"):
        frame.count()
    assert stream.read(**ROWS, mode="snapshot").count() == 1051


@pytest.mark.slow
def test_changes_follow_the_rows_without_gap_or_overlap(stream: Stream) -> None:
    stream.table()
    stream.write("insert into t select i, 'old' from generate_series(1, 9) i")
    running = stream.database.connect()
    running.execute("begin")
    running.execute("insert into public.t values (11, 'running')")
    # Committed, and behind the newest tick: in the rows, and its event comes after that tick.
    stream.database.execute("insert into t values (10, 'no tick')")
    first = stream.run(**BOTH)
    assert sorted(r["id"] for r in first) == list(range(1, 11))
    running.execute("commit")
    stream.write("insert into t values (12, 'new')", "update t set v = 'x' where id = 1")
    second = stream.run(**BOTH)
    assert sorted((r["_change_type"], r["id"], r["v"]) for r in second) == [
        ("insert", 11, "running"),
        ("insert", 12, "new"),
        ("update_postimage", 1, "x"),
    ]
    last = stream.write("delete from t where id = 12")
    assert [(r["_change_type"], r["id"]) for r in stream.run(**BOTH)] == [("delete", 12)]
    assert stream.position() == last


@pytest.mark.slow
def test_a_lost_snapshot_stops_the_query_unless_the_rows_may_be_read_again(
    stream: Stream,
) -> None:
    stream.table()
    stream.write("insert into t values (1, 'a'), (2, 'a')")
    stream.fail_in = 0
    with pytest.raises(Exception, match="the sink has failed"):
        stream.run(**BOTH)
    stream.fail_in = None
    stream.write("update t set v = 'b' where id = 1", "insert into t values (3, 'c')")
    with pytest.raises(Exception, match=r"the snapshot at tick .* no longer exists") as failed:
        stream.run(**BOTH)
    assert "onSnapshotLost=again" in str(failed.value)
    rows = stream.run(**BOTH, onSnapshotLost="again")
    state: dict[int, str] = {}
    for row in sorted(rows, key=lambda r: (r["_commit_version"], r["_event_id"] or 0)):
        state[row["id"]] = row["v"]
    assert state == {1: "b", 2: "a", 3: "c"}
    # Rows that are newer than the changes that follow say so.
    versions = {r["_commit_version"] for r in rows if r["_event_id"] is None}
    assert versions == {max(r["_commit_version"] for r in rows)}
