"""A lake is what its table is, in every mode, whatever comes; and a difference is found."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import londiste.spark
from londiste.changes.decode import decode_all
from londiste.changes.types import RowChange
from londiste.db.names import TableName
from londiste.engine.spark.lake import parquet_writer
from londiste.errors import BadOption, EventError, LondisteError, NodeBusy, StateError
from londiste.lake import compare as comparing
from londiste.lake.table import LakeTable
from londiste.pgq import batches, queues, ticks
from tests.fixtures.cluster import Database
from tests.fixtures.lake import COLUMNS, Lake, statements
from tests.fixtures.stream import Stream

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def lake(spark: Any, new_database: Callable[..., Database], tmp_path: Path) -> Lake:
    stream = Stream(spark, new_database(pgq=True), tmp_path)
    return Lake(stream, tmp_path / "lake", {})


def table(lake: Lake) -> dict[int, str | None]:
    """What the table is."""
    with lake.stream.database.connect() as conn:
        return dict(conn.execute("select id, v from public.t").fetchall())


def as_dict(rows: Any) -> dict[int, str | None]:
    """What rows of the lake are; a key is there once."""
    found = [(row["id"], row["v"]) for row in rows.select("id", "v").collect()]
    assert len(found) == len(dict(found))
    return dict(found)


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param("append", marks=pytest.mark.slow),
        "state",
        pytest.param("history", marks=pytest.mark.slow),
    ],
)
def test_a_lake_follows_its_table(lake: Lake, mode: str) -> None:
    spark, chance = lake.stream.spark, random.Random(mode)
    lake.more["lake_mode"] = mode
    lake.stream.table(COLUMNS)
    lake.stream.write(*statements(chance, truncate=0))
    first = lake.once()
    assert first.what == "rows" and first.rows == len(table(lake))
    told = {first.tick: table(lake)}
    for truncate in (0.0, 1.0):
        for _ in range(2):
            tick = lake.stream.write(*statements(chance, truncate=truncate))
            told[tick] = table(lake)
        version = lake.once()
        assert version.position is not None and version.tick == tick
    # What no tick has come for yet is compared, too.
    lake.stream.database.execute("update t set v = 'no tick' where id % 2 = 0; truncate t")
    lake.stream.database.execute("insert into t (id, v) values (7, 'after')")
    found = lake.compare()
    assert found.equal and found.found is not None and found.found.rows_here == 1, found
    rows = lake.rows(spark)
    if mode == "state":
        assert as_dict(rows) == told[version.tick]
        assert as_dict(lake.rows(spark, first.tick)) == told[first.tick]
        assert as_dict(londiste.spark.lake(spark, lake.store.directory)) == told[version.tick]
    elif mode == "history":
        rows.cache()
        for tick, then in told.items():
            open_at = f"_valid_to_tick is null or _valid_to_tick > {tick}"
            at = rows.where(f"_valid_from_tick <= {tick} and ({open_at})")
            assert as_dict(at) == then, tick
    else:
        events = [
            (change.event_id, change.row)
            for some in ticks.tick_events(lake.stream.conn, "q", first.tick, version.tick)
            for event in some
            for change in decode_all(event)
            if isinstance(change, RowChange)
        ]
        kept = rows.where("_event_id is not null and _change_type != 'truncate'")
        assert sorted((r["_event_id"], r["_row"]) for r in kept.collect()) == sorted(events)
        assert all(file.path.startswith("data/day=20") for file in version.files)
        assert rows.where("_change_type = 'truncate'").count() >= 1


def test_a_row_that_differs_and_a_file_that_is_damaged_are_found(lake: Lake) -> None:
    lake.stream.table()
    lake.stream.write("insert into t select i, 'v' || i from generate_series(1, 50) i")
    version = lake.once()
    # Behind the back of the capture.
    lake.stream.database.execute(
        "set session_replication_role = replica; update t set v = 'x' where id = 7;"
        " delete from t where id = 9; insert into t values (99, 'y')"
    )
    found = lake.compare().found
    assert found is not None and (found.missing, found.extra, found.differ) == (1, 1, 1)
    assert {(d.kind, d.key, d.columns) for d in found.differences} == {
        ("differ", ("7",), ("v",)),
        ("extra", ("9",), ()),
        ("missing", ("99",), ()),
    }
    path = Path(lake.store.paths(version.files)[0])
    good = path.read_bytes()
    place = random.randrange(len(good))
    path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
    result = lake.compare()
    assert not result.equal and result.found is None and version.files[0].path in result.damaged[0]
    path.unlink()
    assert "No such file" in lake.compare().damaged[0]


@pytest.mark.slow
def test_running_transactions_are_in_the_rows_or_in_the_changes_once(lake: Lake) -> None:
    lake.more["lake_mode"] = "append"
    lake.stream.table()
    lake.stream.write("insert into t values (1, 'a')")
    running = lake.stream.database.connect()
    running.execute("begin; insert into public.t values (2, 'running')")
    # In the rows, and its event comes behind their tick.
    lake.stream.database.execute("insert into t values (3, 'no tick')")
    lake.once()
    running.execute("commit")
    running.close()
    lake.stream.write("insert into t values (4, 'later')")
    lake.once()
    rows = lake.rows(lake.stream.spark).collect()
    assert sorted((r["id"], r["_event_id"] is None) for r in rows) == [
        (1, True),
        (2, False),
        (3, True),
        (4, False),
    ]
    assert lake.compare().equal


@pytest.mark.slow
def test_columns_come_and_go(lake: Lake) -> None:
    lake.stream.table()
    lake.stream.write("insert into t values (1, 'a'), (2, 'b')")
    lake.once()
    lake.stream.write(
        "update t set v = 'c' where id = 1",
        "alter table t add column more int",
        "update t set more = 5 where id = 2",
    )
    lake.once()
    assert lake.compare().equal
    lake.stream.write("alter table t drop column v", "insert into t values (3, 6)")
    version = lake.once()
    assert lake.compare().equal
    assert [(c.name, c.dropped is None) for c in version.columns] == [
        ("id", True),
        ("v", False),
        ("more", True),
    ]
    lake.stream.write("alter table t add column d int default 5", "insert into t values (4, 7)")
    with pytest.raises(StateError, match="values of new columns in older rows: d") as stopped:
        lake.once()
    assert "londiste lake resync public.t" in stopped.value.hint
    assert lake.version().number == version.number
    resync(lake)
    assert lake.compare().equal
    lake.stream.write("alter table t alter column d type text", "update t set d = 'x'")
    with pytest.raises(StateError, match=r"column d of table public\.t has another type: text"):
        lake.once()
    resync(lake)
    lake.stream.write("delete from t where id = 1")
    lake.once()
    assert lake.compare().equal
    lake.stream.write("alter table t rename column more to less")
    with pytest.raises(StateError, match="in older rows: less"):
        lake.once()
    lake.stream.database.execute("drop table t")
    lake.stream.table("id int primary key, v text")
    lake.stream.write("insert into t values (8, 'new')")
    with pytest.raises(StateError, match="was dropped and created again"):
        lake.once()
    resync(lake)
    assert lake.compare().equal and len(lake.version().columns) == 2


def test_names_that_spark_takes_for_one_are_refused_with_what_to_do(lake: Lake) -> None:
    lake.stream.table('id int primary key, v text, "V" text, "_Row" int')
    with pytest.raises(BadOption, match="_Row is reserved by the lake") as refused:
        lake.once(skip_columns="public.t.V")
    assert refused.value.hint.endswith("skip_columns = public.t._Row")
    with pytest.raises(BadOption, match="columns v and V differ only in case") as refused:
        lake.once(skip_columns="public.t._Row")
    assert refused.value.hint.endswith("skip_columns = public.t.V")


@pytest.mark.slow
def test_a_column_whose_name_changes_its_case_only_stops_the_lake(lake: Lake) -> None:
    lake.stream.table()
    lake.stream.write("insert into t values (1, 'a')")
    lake.once()
    lake.stream.write('alter table t rename column v to "V"', "insert into t values (2, 'b')")
    with pytest.raises(StateError, match="column V conflicts with v of the lake"):
        lake.once()
    # The event of the other name is there still.
    lake.stream.write('alter table t rename column "V" to v')
    with pytest.raises(EventError, match="has a column that the result has not: V") as stopped:
        lake.once()
    told = str(stopped.value.__notes__)
    assert "unknown_columns = ignore" in told and "londiste lake resync public.t" in told
    # A state would have NULL where the row has a value.
    with pytest.raises(EventError, match="does not have the column v") as stopped:
        lake.once(unknown_columns="ignore")
    assert "londiste lake resync public.t" in str(stopped.value.__notes__)
    resync(lake)
    assert lake.compare().equal


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "state"])
def test_a_column_that_came_and_went_is_left_out_when_somebody_says_so(
    lake: Lake, mode: str
) -> None:
    lake.more["lake_mode"] = mode
    lake.stream.table()
    lake.stream.write("insert into t values (1, 'a')")
    lake.once()
    lake.stream.write(
        "alter table t add column short int; insert into t values (2, 'b', 5)",
        "alter table t drop column short; insert into t values (3, 'c')",
    )
    with pytest.raises(EventError, match="has a column that the result has not: short"):
        lake.once()
    lake.once(unknown_columns="ignore")
    assert lake.compare().equal
    assert {r["v"] for r in lake.rows(lake.stream.spark).collect()} == {"a", "b", "c"}


def test_a_second_process_is_told_that_one_writes(lake: Lake) -> None:
    lake.stream.table()
    name = TableName("public", "t")
    with closing(LakeTable(lake.settings(), name)) as one:
        assert one.vacuum() == (0, 0)
        with closing(LakeTable(lake.settings(), name)) as two:
            with pytest.raises(NodeBusy, match="belongs to another process") as refused:
                two.compact()
    assert "one process writes the files" in refused.value.hint


def resync(lake: Lake, **more: Any) -> None:
    """What the command does."""
    with closing(LakeTable(lake.settings(**more), TableName("public", "t"))) as kept:
        kept.resync()


@pytest.mark.slow
def test_a_history_is_made_right_by_a_resync(lake: Lake) -> None:
    lake.more["lake_mode"] = "history"
    lake.stream.table()
    lake.stream.write("insert into t values (1, 'a'), (2, 'b'), (3, null)")
    first = lake.once()
    lake.stream.database.execute(
        "set session_replication_role = replica; update t set v = 'x' where id = 1;"
        " delete from t where id = 2; insert into t values (4, 'd')"
    )
    assert not lake.compare().equal
    resync(lake)
    assert lake.compare().equal
    rows = lake.rows(lake.stream.spark).where(f"_valid_from_tick = {first.tick}").collect()
    assert {(r["id"], r["_valid_to_tick"] is None) for r in rows} == {
        (1, False),
        (2, False),
        (3, True),
    }
    lake.stream.write("update t set v = 'y'")
    lake.once()
    assert lake.compare().equal


@pytest.mark.slow
def test_what_cannot_be_kept_is_refused_with_what_to_do(lake: Lake) -> None:
    stream = lake.stream
    stream.table("id int, v text")
    stream.tick()
    with pytest.raises(StateError, match="no primary key") as refused:
        lake.once()
    assert "lake_mode = append" in refused.value.hint
    lake.once(lake_mode="append")
    stream.write("insert into t values (1, 'a'), (1, 'a')", "truncate t")
    lake.once(lake_mode="append")
    kinds = [r["_change_type"] for r in lake.rows(stream.spark).collect()]
    assert sorted(kinds) == ["insert", "insert", "truncate"]
    with pytest.raises(StateError, match="its rows cannot be told apart"):
        lake.compare(lake_mode="append")
    stream.table("f float8 primary key", "g")
    with pytest.raises(StateError, match="may have different texts"):
        lake.once(lake_tables="g")
    stream.table("id int primary key, n numeric", "h")
    with pytest.raises(BadOption, match=r"of the key of public\.h"):
        lake.once(lake_tables="h", skip_columns="public.h.id")
    with pytest.raises(BadOption, match="an address"):
        lake.settings(lake_path="s3://bucket/lake")
    stream.write("insert into h values (1, 'NaN')")
    with pytest.raises(LondisteError, match=r"column n of table public\.h has a value") as unfit:
        lake.once(lake_tables="h")
    assert "hint" in str(unfit.value.__notes__)


@pytest.mark.slow
def test_a_script_stops_the_lake_until_somebody_has_looked(lake: Lake) -> None:
    lake.stream.table()
    lake.stream.write("insert into t values (1, 'a')")
    lake.once()
    event = queues_insert(lake)
    lake.stream.write("insert into t values (2, 'b')")
    with pytest.raises(EventError, match=f"script event {event}"):
        lake.once()
    lake.once(passed_scripts=str(event))
    assert lake.compare().equal


def queues_insert(lake: Lake) -> int:
    """The event of a script."""
    row = lake.stream.conn.execute(
        "select pgq.insert_event('q', 'EXECUTE', 'select 1', 's.sql', null, null, null)"
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.slow
def test_old_versions_are_read_until_they_are_forgotten(lake: Lake) -> None:
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
    assert len(list(lake.store.directory.rglob("*.parquet"))) == 4
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


@pytest.mark.parametrize("mode", ["append", pytest.param("history", marks=pytest.mark.slow)])
def test_small_files_are_joined_and_the_rows_stay(lake: Lake, mode: str) -> None:
    lake.more |= {"lake_mode": mode, "lake_format": "delta", "lake_compact_files": "0"}
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
    assert version.what == "compact" and version.number == before.number + 2
    assert [file.part for file in version.files].count(joined) == 1
    assert everything(lake, version.number) == everything(lake, version.number - 1)
    assert lake.compare().equal
    # Both commits of Delta's log say the same of the table, the second that nothing changed.
    log = sorted(lake.store.directory.glob("_delta_log/*.json"))[-1]
    told = [json.loads(line) for line in log.read_text().splitlines()]
    changes = {a["dataChange"] for one in told for a in one.values() if "dataChange" in a}
    assert changes == {False} and told[0]["commitInfo"]["operation"] == "OPTIMIZE"
    # There is nothing left to do.
    with closing(LakeTable(lake.settings(), TableName("public", "t"))) as kept:
        assert kept.compact() == (0, 0) and lake.version() == version
    lake.stream.write("update t set v = 'behind'")
    lake.once()
    assert lake.compare().equal


def compact(lake: Lake, **more: Any) -> tuple[int, int]:
    """What the command does."""
    settings = lake.settings(**more)
    (name,) = comparing.chosen(settings, [])
    with closing(LakeTable(settings, name)) as kept:
        return kept.compact()


@pytest.mark.slow
def test_a_part_of_many_rows_is_joined_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_writer, "FILE_ROWS", 10)
    lake.more["lake_mode"] = "append"
    lake.stream.table()
    lake.stream.write("insert into t select i, 'a' from generate_series(1, 35) i")
    first = lake.once()
    assert sorted(file.rows for file in first.files) == [5, 10, 10, 10]
    with closing(LakeTable(lake.settings(lake_compact_files=2), TableName("public", "t"))) as kept:
        kept.tidy()
        version = lake.version()
        assert [file.rows for file in version.files] == [35]
        kept.tidy()
    assert lake.version() == version and compact(lake) == (0, 0)


@pytest.mark.slow
def test_a_table_that_was_given_up_can_be_joined(lake: Lake) -> None:
    lake.more |= {"lake_mode": "append", "lake_compact_files": "0"}
    lake.stream.table()
    for name in "abc":
        lake.stream.write(f"insert into t values ({ord(name)}, '{name}')")
        lake.once()
    batches.unregister_consumer(lake.stream.conn, "q", "lake.public.t")
    assert compact(lake) == (3, 1)
    assert not queues.get_consumer_info(lake.stream.conn, "q", "lake.public.t")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "history"])
def test_names_may_be_any(lake: Lake, mode: str) -> None:
    lake.directory = lake.directory / "la ke%20[x]{1}*?#\\é"
    name = 'a b.%41 "é"[x]*\''
    quoted = 'public."' + name.replace('"', '""') + '"'
    lake.more |= {"lake_mode": mode, "lake_format": "delta", "lake_compact_files": "0"}
    lake.more["lake_tables"] = [f"public.{name}"]
    odd = [
        "a b",
        "a.b",
        "x%41",
        "q`r",
        "day",
        "part",
        "rows",
        "=",
        ",;{}()",
        "n\n\t",
        "É",
        "*",
        "'",
    ]
    database = lake.stream.database
    columns = ", ".join(f'"{column}" text' for column in odd)
    database.execute(f"create table {quoted} (id int primary key, {columns})")
    captured = name.replace("'", "''")
    database.execute(f"select londiste.create_capture('q', 'public.{captured}')")
    lake.stream.write(
        f"insert into {quoted} select i{', i' * len(odd)} from generate_series(1, 9) i"
    )
    assert lake.once().rows == 9
    for value in "abc":
        lake.stream.write(f"""update {quoted} set "a.b" = '{value}' where id % 2 = 0""")
        lake.once()
    version = lake.version()
    assert version.rows == 9 + 3 * 4 and lake.compare().equal
    before, after = compact(lake)
    assert before > after == 1
    assert (
        len(londiste.spark.lake(lake.stream.spark, lake.store.directory).collect()) == version.rows
    )
    assert lake.compare().equal


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
        with pytest.raises(LondisteError, match="are damaged"):
            kept.compact()
        path.write_bytes(good)
        assert kept.compact() == (2, 1)
    assert lake.compare().equal


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "state", "history"])
def test_a_reader_of_delta_tables_sees_every_version(lake: Lake, mode: str) -> None:
    deltalake = pytest.importorskip("deltalake")
    lake.more |= {"lake_format": "delta", "lake_mode": mode}
    lake.stream.table(COLUMNS)
    chance = random.Random(mode)
    for _ in range(3):
        lake.stream.write(*statements(chance, truncate=0.3))
        lake.once()
        version = lake.version()
        read = deltalake.DeltaTable(str(lake.store.directory))
        names = {Path(uri).name for uri in read.file_uris()}
        assert names == {Path(file.path).name for file in version.files}
        rows = read.to_pyarrow_table()
        assert rows.num_rows == version.rows
        if mode == "state":
            assert dict(zip(*(rows[n].to_pylist() for n in ("id", "v")), strict=True)) == table(
                lake
            )
    lake.stream.write(
        "alter table t add column more int", "insert into t (id, more) values (9999, 1)"
    )
    lake.once()
    assert "more" in deltalake.DeltaTable(str(lake.store.directory)).to_pyarrow_table().column_names
    assert queues.get_consumer_info(lake.stream.conn, "q", "lake.public.t")
