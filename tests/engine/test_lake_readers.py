"""Other programs read a lake, follow its change feed, and write it, too."""

from __future__ import annotations

import random
from collections import Counter

import deltalake
import duckdb
import pyarrow as pa
import pytest

from londiste.errors import BadOption
from londiste.pgq import queues
from tests.engine.test_lake import table
from tests.fixtures.lake import COLUMNS, Lake, statements

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "state", "history"])
def test_other_readers_see_every_version(lake: Lake, mode: str) -> None:
    lake.more |= {"lake_mode": mode}
    lake.stream.table(COLUMNS)
    chance = random.Random(mode)
    for _ in range(3):
        lake.stream.write(*statements(chance, truncate=0.3))
        lake.once()
        version = lake.version()
        rows = deltalake.DeltaTable(lake.store.place.uri).to_pyarrow_table()
        assert rows.num_rows == version.rows
        if mode == "state":
            assert dict(zip(*(rows[n].to_pylist() for n in ("id", "v")), strict=True)) == table(
                lake
            )
        paths = lake.store.paths(version.files)
        query = "select id, v, n, d, l, b, j, f, ok, a from read_parquet(?, union_by_name = true)"
        found = duckdb.connect().execute(query, [paths]).fetchall()
        names = ("id", "v", "n", "d", "l", "b", "j", "f", "ok", "a")
        wanted = list(zip(*(rows[name].to_pylist() for name in names), strict=True))
        assert sorted(found, key=str) == sorted(wanted, key=str)
    lake.stream.write(
        "alter table t add column more int", "insert into t (id, more) values (9999, 1)"
    )
    lake.once()
    read = deltalake.DeltaTable(lake.store.place.uri).to_pyarrow_table()
    assert "more" in read.column_names
    assert queues.get_consumer_info(lake.stream.conn, "q", "lake.public.t")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["state", "history"])
def test_change_feed_leads_to_the_same_rows(lake: Lake, mode: str) -> None:
    lake.more |= {"lake_mode": mode, "lake_change_feed": "true"}
    lake.stream.table()
    lake.stream.write("insert into t select i, 'a' from generate_series(1, 20) i")
    lake.once()
    before = deltalake.DeltaTable(lake.store.place.uri).to_pyarrow_table(columns=["id", "v"])
    lake.stream.write("update t set v = 'b' where id % 3 = 0", "delete from t where id = 5")
    version = lake.once()
    assert lake.compare().equal
    delta = deltalake.DeltaTable(lake.store.place.uri)
    rows = Counter(map(str, before.to_pylist()))
    for row in pa.table(delta.load_cdf(starting_version=version.number)).to_pylist():
        text = str({"id": row["id"], "v": row["v"]})
        rows[text] += {"insert": 1, "delete": -1}[row["_change_type"]]
    after = delta.to_pyarrow_table(columns=["id", "v"])
    assert +rows == Counter(map(str, after.to_pylist()))
    with pytest.raises(BadOption, match="is a change feed itself"):
        lake.settings(lake_mode="append")


@pytest.mark.slow
def test_other_programs_may_optimize_vacuum_and_append(lake: Lake) -> None:
    lake.more["lake_mode"] = "append"
    lake.stream.table()
    for number in range(3):
        lake.stream.write(f"insert into t values ({number}, 'a')")
        lake.once()
    delta = deltalake.DeltaTable(lake.store.place.uri)
    assert delta.optimize.compact()["numFilesRemoved"] == 3
    delta.vacuum(0, dry_run=False, enforce_retention_duration=False)
    one = delta.to_pyarrow_table().slice(0, 1)
    assert one.num_rows == 1
    other = one.set_column(0, one.schema.field(0), pa.array([99], pa.int32()))
    deltalake.write_deltalake(delta, other, mode="append")
    lake.stream.write("insert into t values (4, 'b')")
    version = lake.once()
    assert version.rows == 5 and version.what == "changes"
    found = lake.compare().found
    # The row of the other program is in the lake, and not in the table.
    assert found is not None and (found.missing, found.extra, found.differ) == (0, 1, 0)
