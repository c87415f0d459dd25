"""A lake has the rows of its table in every mode; a difference is detected."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import londiste.spark
from londiste.changes.decode import decode_all
from londiste.changes.types import RowChange
from londiste.db.names import TableName
from londiste.errors import BadOption, EventError, LondisteError, NodeBusy, StateError
from londiste.lake import compare as comparing
from londiste.lake.table import LakeTable
from londiste.lake.worker import LakeWorker
from londiste.pgq import queues, ticks
from tests.fixtures.cascade import refused_at_once
from tests.fixtures.lake import COLUMNS, Lake, statements

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


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
        assert as_dict(londiste.spark.lake(spark, lake.store.place.uri)) == told[version.tick]
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
def test_added_and_dropped_columns_are_followed(lake: Lake) -> None:
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
    with pytest.raises(StateError, match=r"public\.t: column d changed its type"):
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


@pytest.mark.slow
def test_new_columns_that_have_values_in_older_rows_stop_a_state(lake: Lake) -> None:
    lake.stream.table(
        "id int primary key, v text, old text, g int generated always as (id * 2) stored"
    )
    lake.more["skip_columns"] = "public.t.old"
    lake.stream.write("insert into t values (1, 'a', 'o'), (2, 'b', 'o')")
    lake.once()
    plain = "alter table t alter {0} drop default, alter {0} drop not null"
    for name, changes, more in (
        ("old", (), {"skip_columns": ""}),
        ("g", ("alter table t alter g drop expression",), {}),
        ("c", ("alter table t add column c int not null default 5", plain), {}),
        ("d", ("alter table t add column d float default random()", plain), {}),
        ("f", ("alter table t add column f int default 5", plain, "vacuum full t"), {}),
    ):
        number = lake.version().number
        lake.stream.write(*(one.format(name) for one in changes), "update t set v = v")
        with pytest.raises(StateError, match=f"columns in older rows: {name}\n") as stopped:
            lake.once(**more)
        assert "londiste lake resync public.t" in stopped.value.hint
        assert lake.version().number == number
        resync(lake, **more)
    # One that is NULL in older rows continues.
    lake.stream.write("alter table t add column e int", "update t set e = 1 where id = 1")
    lake.once()
    assert lake.compare().equal
    # So do values that a new type has changed.
    lake.stream.write("alter table t alter v type varchar(9) using upper(v)")
    with pytest.raises(StateError, match=r"v changed its type: character varying\(9\), was text"):
        lake.once()
    resync(lake)
    lake.stream.write("alter table t alter v type varchar(99)", "update t set e = 2 where id = 1")
    lake.once()
    assert lake.compare().equal


def test_names_equal_for_spark_are_refused_with_a_hint(lake: Lake) -> None:
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
    with pytest.raises(EventError, match="columns not in the result: V") as stopped:
        lake.once()
    told = str(stopped.value.__notes__)
    assert "unknown_columns = ignore" in told and "londiste lake resync public.t" in told
    # A state would have NULL where the row has a value.
    with pytest.raises(EventError, match="missing columns: v") as stopped:
        lake.once(unknown_columns="ignore")
    assert "londiste lake resync public.t" in str(stopped.value.__notes__)
    resync(lake)
    assert lake.compare().equal


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "state"])
def test_column_added_and_dropped_is_excluded_on_request(lake: Lake, mode: str) -> None:
    lake.more["lake_mode"] = mode
    lake.stream.table()
    lake.stream.write("insert into t values (1, 'a')")
    lake.once()
    lake.stream.write(
        "alter table t add column short int; insert into t values (2, 'b', 5)",
        "alter table t drop column short; insert into t values (3, 'c')",
    )
    with pytest.raises(EventError, match="columns not in the result: short"):
        lake.once()
    lake.once(unknown_columns="ignore")
    assert lake.compare().equal
    assert {r["v"] for r in lake.rows(lake.stream.spark).collect()} == {"a", "b", "c"}


@pytest.mark.slow
def test_directory_that_is_absent_does_not_move_the_consumer(lake: Lake) -> None:
    lake.stream.table()
    lake.stream.write("insert into t values (1, 'a')")
    with LakeWorker(lake.settings()) as worker:
        worker.once()
        first = lake.version()
        lake.stream.write("insert into t values (2, 'b')")
        lake.stream.write("insert into t values (3, 'c')")
        away = lake.directory.with_name("unmounted")
        lake.directory.rename(away)
        # Neither the process that runs nor another one starts again with the rows of now.
        with pytest.raises(StateError, match=f"is registered at tick {first.tick}") as refused:
            worker.step()
    assert refused.value.hint.endswith("londiste queue unregister q lake.public.t")
    with pytest.raises(StateError, match="the directory contains no table"):
        lake.once()
    (consumer,) = queues.get_consumer_info(lake.stream.conn, "q")
    assert consumer.last_tick == first.tick and not lake.directory.exists()
    away.rename(lake.directory)
    assert lake.once().number == first.number + 1 and lake.compare().equal


def test_second_lake_process_is_refused(lake: Lake) -> None:
    lake.stream.table()
    name = TableName("public", "t")
    with closing(LakeTable(lake.settings(), name)) as one:
        assert one.vacuum() == (0, 0)
        with closing(LakeTable(lake.settings(), name)) as two:
            busy = pytest.raises(NodeBusy, match="in use by another process")
            with refused_at_once(), busy as refused:
                two.compact()
    assert "one process writes the files" in refused.value.hint


def resync(lake: Lake, **more: Any) -> None:
    """What the command does."""
    with closing(LakeTable(lake.settings(**more), TableName("public", "t"))) as kept:
        kept.resync()


@pytest.mark.slow
def test_resync_repairs_a_history(lake: Lake) -> None:
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
def test_unsupported_tables_and_options_are_refused(lake: Lake) -> None:
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
    with pytest.raises(StateError, match="no primary key to compare by"):
        lake.compare(lake_mode="append")
    stream.table("f float8 primary key", "g")
    with pytest.raises(StateError, match="may have different texts"):
        lake.once(lake_tables="g")
    stream.table("id int primary key, n numeric", "h")
    with pytest.raises(BadOption, match=r"public\.h: skip_columns names key columns"):
        lake.once(lake_tables="h", skip_columns="public.h.id")
    with pytest.raises(BadOption, match="not a directory"):
        lake.settings(lake_path="hdfs://host/lake")
    with pytest.raises(BadOption, match="opens no path with"):
        lake.settings(lake_path="/la%20ke")
    stream.write("insert into h values (1, 'NaN')")
    with pytest.raises(
        LondisteError, match=r"column n of table public\.h: value out of range"
    ) as unfit:
        lake.once(lake_tables="h")
    assert "hint" in str(unfit.value.__notes__)


@pytest.mark.slow
def test_script_stops_the_lake_until_confirmed(lake: Lake) -> None:
    lake.stream.table()
    lake.stream.write("insert into t values (1, 'a')")
    lake.once()
    event = queues_insert(lake)
    # An event of an application is no script.
    lake.stream.database.execute("select pgq.insert_event('q', 'signup', 'x')")
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


def compact(lake: Lake, **more: Any) -> tuple[int, int]:
    """What the command does."""
    settings = lake.settings(**more)
    (name,) = comparing.chosen(settings, [])
    with closing(LakeTable(settings, name)) as kept:
        return kept.compact()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "history"])
def test_names_may_be_any(lake: Lake, mode: str) -> None:
    lake.directory = lake.directory / "la ke% {1}*é"
    name = 'a b.%41 "é"[x]*\''
    quoted = 'public."' + name.replace('"', '""') + '"'
    lake.more |= {"lake_mode": mode, "lake_compact_files": "0"}
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
        len(londiste.spark.lake(lake.stream.spark, lake.store.place.uri).collect()) == version.rows
    )
    assert lake.compare().equal
