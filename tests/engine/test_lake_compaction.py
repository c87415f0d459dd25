"""Compaction of a lake joins small files and keeps every row and version."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from londiste.db.names import TableName
from londiste.errors import LondisteError, StateError
from londiste.lake.table import LakeTable
from londiste.pgq import batches, queues
from tests.engine.test_lake import as_dict, compact
from tests.fixtures.lake import COLUMNS, Lake, statements

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.slow
def test_old_versions_are_readable_until_vacuum(lake: Lake) -> None:
    lake.stream.table()
    lake.stream.write("insert into t select i, 'a' from generate_series(1, 20) i")
    first = lake.once()
    lake.stream.write("update t set v = 'b'")
    lake.once()
    assert set(as_dict(lake.rows(lake.stream.spark, first.tick)).values()) == {"a"}
    with closing(LakeTable(lake.settings(lake_retention=3600), TableName("public", "t"))) as kept:
        assert kept.vacuum() == (0, 0)
    with closing(LakeTable(lake.settings(lake_retention=0), TableName("public", "t"))) as kept:
        assert kept.vacuum() == (1, 4)
    assert len(list(Path(lake.store.place.uri, "data").rglob("*.parquet"))) == 4
    assert lake.compare().equal
    with pytest.raises(StateError, match=r"public\.t: the lake has no version at tick"):
        lake.store.at(first.tick)


def everything(lake: Lake, number: int) -> list[Any]:
    """All rows of a version, with all that is known of them."""
    version = lake.store.numbered(number)
    assert version is not None
    spark = lake.stream.spark.read.option("mergeSchema", "true")
    rows = spark.parquet(*lake.store.paths(version.files))
    return sorted(rows.select(sorted(rows.columns)).collect(), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "history"])
def test_small_files_are_joined_and_the_rows_stay(lake: Lake, mode: str) -> None:
    lake.more |= {"lake_mode": mode, "lake_compact_files": "0"}
    lake.stream.table(COLUMNS)
    chance = random.Random(mode)
    # Whatever chance brings: a row that is there, and is another one in every epoch.
    always = "insert into t (id, v) values (2, 'b') on conflict (id) do update set v = t.v || 'c'"
    for _ in range(3):
        lake.stream.write(*statements(chance, truncate=0), always)
        lake.once()
    before = lake.version()
    parts = {file.part for file in before.files}
    joined = "closed" if mode == "history" else next(iter(parts))
    assert sum(file.part == joined for file in before.files) > 1
    lake.stream.write("alter table t add column more int", "update t set more = 5 where id = 2")
    lake.once(lake_compact_files="2")
    version = lake.version()
    assert version.what == "optimize" and version.tick > before.tick
    assert [file.part for file in version.files].count(joined) == 1
    assert everything(lake, version.number) == everything(lake, version.number - 1)
    assert lake.compare().equal
    # No reader of the changes has to look at the files.
    log = Path(lake.store.place.uri, "_delta_log", f"{version.number:020d}.json")
    told = [json.loads(line) for line in log.read_text().splitlines()]
    changes = {a["dataChange"] for one in told for a in one.values() if "dataChange" in a}
    assert changes == {False}
    # There is nothing left to do.
    with closing(LakeTable(lake.settings(), TableName("public", "t"))) as kept:
        assert kept.compact() == (0, 0) and lake.version() == version
    lake.stream.write("update t set v = 'behind'")
    lake.once()
    assert lake.compare().equal


@pytest.mark.slow
def test_abandoned_table_can_be_compacted(lake: Lake) -> None:
    lake.more |= {"lake_mode": "append", "lake_compact_files": "0"}
    lake.stream.table()
    for name in "abc":
        lake.stream.write(f"insert into t values ({ord(name)}, '{name}')")
        lake.once()
    batches.unregister_consumer(lake.stream.conn, "q", "lake.public.t")
    assert compact(lake) == (3, 1)
    assert not queues.get_consumer_info(lake.stream.conn, "q", "lake.public.t")


@pytest.mark.slow
def test_damaged_files_are_not_joined(lake: Lake) -> None:
    lake.more["lake_mode"] = "append"
    lake.stream.table()
    for name in "ab":
        lake.stream.write(f"insert into t values ({ord(name)}, '{name}')")
        version = lake.once()
    path = Path(lake.store.paths(version.files)[0])
    good = path.read_bytes()
    path.write_bytes(good[:-5] + b"x" + good[-4:])
    with closing(LakeTable(lake.settings(), TableName("public", "t"))) as kept:
        with pytest.raises(LondisteError, match="damaged files in the lake"):
            kept.compact()
        path.write_bytes(good)
        assert kept.compact() == (2, 1)
    assert lake.compare().equal
