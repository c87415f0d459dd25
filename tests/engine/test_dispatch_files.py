"""``londiste dispatch`` into files: which row is in which folder, in every mode and format."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import londiste.spark
from londiste.db.names import TableName
from londiste.engine.spark.lake.file_writer import Place
from londiste.errors import BadOption, EventError, StateError
from londiste.lake.store import Store
from londiste.lake.versions import Version
from londiste.pgq import consumers
from londiste.tools.dispatch.program import Dispatcher
from tests.fixtures.cluster import Database
from tests.fixtures.stream import Stream

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

Work = Callable[..., Version]
COLUMNS = "id int primary key, at timestamptz, v text, secret text"


@pytest.fixture
def stream(spark: Any, new_database: Callable[..., Database], tmp_path: Path) -> Stream:
    made = Stream(spark, new_database(pgq=True), tmp_path)
    made.table(COLUMNS)
    return made


@pytest.fixture
def work(stream: Stream) -> Work:
    return worker(stream)


def worker(stream: Stream) -> Work:
    """One run of the dispatcher; the version that is there then."""

    def run(**options: Any) -> Version:
        given: dict[str, Any] = {
            "queue_name": "q",
            "job_name": "archive",
            "target_path": str(stream.directory / "archive"),
            "table_filter": ("public.t",),
            "spark": {"spark.master": "local[2]"},
            **options,
        }
        worker = Dispatcher(stream.database.dsn, **given).into_files()
        assert worker is not None
        with worker:
            worker.check()
            worker.once()
        version = store(stream).newest()
        assert version is not None
        return version

    return run


def store(stream: Stream) -> Store:
    return Store(Place(str(stream.directory / "archive" / "public.t")), TableName("public", "t"))


def rows(stream: Stream, *names: str) -> dict[str, list[tuple[Any, ...]]]:
    """What is in the files of each folder, as others than Spark read it."""
    version = store(stream).newest()
    assert version is not None
    found: dict[str, list[tuple[Any, ...]]] = {}
    for file in version.files:
        (path,) = map(Path, store(stream).paths([file]))
        assert path.parent == Path(store(stream).place.uri) / "data" / file.part
        read = [tuple(row[name] for name in names) for row in records(path, version.format)]
        assert len(read) == file.rows
        found.setdefault(file.part, []).extend(read)
    return {part: sorted(rows, key=str) for part, rows in found.items()}


def records(path: Path, form: str) -> list[dict[str, Any]]:
    """The rows of a file; of csv all values are texts."""
    import pyarrow.orc
    import pyarrow.parquet

    assert path.suffix == f".{form}"
    match form:
        case "parquet":
            return list(pyarrow.parquet.read_table(path).to_pylist())
        case "orc":
            read = pyarrow.orc.read_table(path)
            at = read.schema.get_field_index("at")
            time = read.column(at).cast(pyarrow.timestamp("us", "UTC"))
            return list(read.set_column(at, "at", time).to_pylist())
        case "json":
            return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        case _:
            with path.open(encoding="utf-8", newline="") as file:
                return list(csv.DictReader(file))


def test_events_that_change_no_row_are_ignored(stream: Stream, work: Work) -> None:
    options = {"handler": "daily_field", "part_field": "at", "row_mode": "keep_all"}
    work(**options)
    stream.write(
        "insert into t values (1, '2024-01-01', 'a', 's')",
        "select pgq.insert_event('q', 'EXECUTE', 'select 1', 'add.sql', null, null, null)",
        # Events of an application.
        "select pgq.insert_event('q', 'signup', 'x')",
        "select pgq.insert_event('q', '{\"a\": 1}', 'x', 'public.t', null, null, null)",
        "select pgq.insert_event('q', null, 'x')",
        "insert into t values (2, '2024-01-01', 'b', 's')",
    )
    work(**options)
    assert rows(stream, "id") == {"day=2024-01-01": [(1,), (2,)]}


def test_a_row_is_as_it_was_last_in_its_folder(stream: Stream, work: Work) -> None:
    options = {
        "handler": "monthly_field",
        "part_field": "at",
        "part_name": "y=%(year)s/data/m=%(month)s",
        "fields": "id,v:value",
    }
    with pytest.raises(
        BadOption, match=r"table public\.t: DELETE events do not contain at"
    ) as refused:
        work(**options)
    assert "londiste change-form public.t row" in refused.value.hint
    stream.database.execute("select londiste.create_capture('q', 't', array['form=row'])")
    assert work(**options).files == ()
    assert consumers.get_consumer_kinds(stream.conn) == {("q", "archive.public.t"): "dispatch"}
    stream.write(
        "insert into t select n, timestamptz '2026-01-31 23:30+00' + n * interval '1 hour',"
        " 'a', 's' from generate_series(0, 3) n",
        "update t set v = 'b' where id = 1",
        "delete from t where id = 2",
    )
    work(**options)
    assert rows(stream, "id", "value") == {
        "y=2026/data/m=01": [(0, "a")],
        "y=2026/data/m=02": [(1, "b"), (3, "a")],
    }
    stream.write("delete from t where id = 0", "update t set v = null where id = 3")
    work(**options)
    assert rows(stream, "id", "value") == {"y=2026/data/m=02": [(1, "b"), (3, None)]}


@pytest.mark.slow
def test_the_last_row_of_each_key_is_kept_in_its_folder(stream: Stream, work: Work) -> None:
    options = {
        "handler": "monthly_field",
        "part_field": "at",
        "part_name": "y=%(year)s/m=%(month)s",
        "fields": "id,v:value",
        "retention_period": "100 years",
        "event_types": "I,U",
    }
    assert work(**options).files == ()
    assert consumers.get_consumer_kinds(stream.conn) == {("q", "archive.public.t"): "dispatch"}
    stream.write(
        "insert into t values (1, '2026-01-31 23:30+00', 'a', 's'),"
        " (2, '2026-02-01 00:30+00', 'b', 's'), (3, '1907-02-03 04:05+00', 'too old', 's')",
        "update t set v = 'a2' where id = 1",
    )
    first = work(**options)
    assert rows(stream, "id", "value") == {"y=2026/m=01": [(1, "a2")], "y=2026/m=02": [(2, "b")]}
    # The folder that is not touched keeps its file; a row that moves leaves its old folder alone.
    stream.write(
        "update t set v = 'b2' where id = 2",
        "insert into t values (4, '2026-02-10 00:00+00', null, 's')",
        "update t set at = '2026-03-01 00:00+00' where id = 4",
    )
    second = work(**options)
    assert {f.path for f in first.files if f.part == "y=2026/m=01"} <= {
        f.path for f in second.files
    }
    assert rows(stream, "id", "value") == {
        "y=2026/m=01": [(1, "a2")],
        "y=2026/m=02": [(2, "b2"), (4, None)],
        "y=2026/m=03": [(4, None)],
    }
    there = londiste.spark.lake(stream.spark, Path(store(stream).place.uri))
    assert there.columns[:2] == ["id", "value"] and "secret" not in there.columns
    assert there.count() == 4
    stream.write("insert into t (id) values (9)")
    with pytest.raises(EventError, match="no time in column at"):
        work(**options)
    with pytest.raises(StateError, match="row_mode keep_latest, not keep_all"):
        work(**{**options, "row_mode": "keep_all"})
    with pytest.raises(StateError, match="is called value in the files, not v"):
        work(**{**options, "fields": "id,v"})
    with pytest.raises(
        StateError, match=r"are parquet y=%\(year\)s/m=%\(month\)s, not parquet month="
    ):
        work(**{**options, "part_name": None})
    stream.write("truncate t", "insert into t values (5, '2026-05-05 00:00+00', 'new', 's')")
    work(**options)
    assert rows(stream, "id", "value") == {"y=2026/m=05": [(5, "new")]}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["parquet", "orc", "json", "csv"])
@pytest.mark.parametrize("mode", ["plain", "keep_all"])
def test_every_format_has_every_change_by_the_time_of_its_event(
    mode: str, form: str, stream: Stream, work: Work
) -> None:
    options = {
        "handler": "dispatch",
        "part_mode": "event_time",
        "period": "hour",
        "row_mode": mode,
        "file_format": form,
        "skip_fields": "secret",
        "ignore_truncate": "1",
    }
    work(**options)
    texts = ['line\n"one', " space ", "", "back\\\\slash\\\\", "a,b;\tc\r\nd ü", "NULL", '""'] * 2
    stream.conn.execute(
        "insert into public.t select n, '2026-01-02 03:04:05.678901+02', v, 's'"
        " from unnest(%s::text[]) with ordinality as x (v, n)",
        [texts],
    )
    # Events that came hours before their tick; one is of another form, which is read alone.
    stream.conn.execute("update pgq.event_template set ev_time = '2026-01-31 23:59:59+00'")
    stream.write("update t set v = null where id = 2", "delete from t where id = 3")
    stream.conn.execute(
        "select pgq.insert_event('q', 'I:id', 'id=9&at=2026-01-01+00%3A00%3A00%2B00&v=alone',"
        " 'public.t', '', '', '')"
    )
    stream.conn.execute(
        "update pgq.event_template set ev_time = '2026-02-01 00:00+00' where ev_type = 'I:id'"
    )
    stream.tick()
    work(**options)
    found = rows(stream, "id", "v", "at", "_change_type")
    if form == "csv":
        # An empty text is not NULL.
        files = [p.read_text("utf-8") for p in Path(store(stream).place.uri).rglob("*.csv")]
        lines = [line for text in files for line in text.splitlines()]
        assert '""' in [line.split(",")[2] for line in lines if line[:2] == "3,"]
        assert "" in [line.split(",")[2] for line in lines if line[:2] == "2,"]

    def text(*row: Any) -> tuple[Any, ...]:
        return tuple("" if one is None else str(one) for one in row) if form == "csv" else row

    def at(day: int, hour: int = 0, rest: str = "00:00.000000") -> Any:
        if form in ("csv", "json"):
            return f"2026-01-{day:02d}T{hour:02d}:{rest}Z"
        minute, second, part = int(rest[:2]), int(rest[3:5]), int(rest[6:])
        return datetime(2026, 1, day, hour, minute, second, part, tzinfo=UTC)

    time = at(2, 1, "04:05.678901")
    assert found["hour=2026-01-31T23"] == sorted(
        (text(n, v, time, "insert") for n, v in enumerate(texts, 1)), key=str
    )
    assert found["hour=2026-02-01T00"] == [text(9, "alone", at(1), "insert")]
    rest = [row for part, some in found.items() for row in some if part > "hour=2026-02-01T00"]
    wanted = [text(2, None, time, "update_postimage")]
    if mode == "plain":
        wanted.append(text(3, None, None, "delete"))
    assert sorted(rest, key=str) == sorted(wanted, key=str)
    stream.write("truncate t")
    assert work(**options).rows == len(texts) + 1 + len(wanted)


def test_the_files_begin_with_the_rows_of_the_table(stream: Stream, work: Work) -> None:
    stream.write(
        "insert into t select g, '2026-01-02'::date + g, 'v', 's' from generate_series(1, 3) g"
    )
    options = {"handler": "monthly_field", "part_field": "at", "row_mode": "plain"}
    options |= {"event_types": ("I", "U")}
    stream.write("insert into t values (9, null, 'v', 's')")
    with pytest.raises(StateError, match="a row of the copy has no time in column at"):
        work(**options, with_copy=True)
    stream.write("delete from t where id = 9")
    work(**options, with_copy=True)
    stream.write(
        "update t set v = 'w' where id = 2", "insert into t values (4, '2026-02-01', 'v', 's')"
    )
    # The first start has decided.
    work(**options)
    found = rows(stream, "id", "v", "_change_type")
    assert found == {
        "month=2026-01": [
            (1, "v", "insert"),
            (2, "v", "insert"),
            (2, "w", "update_postimage"),
            (3, "v", "insert"),
        ],
        "month=2026-02": [(4, "v", "insert")],
    }
    # Rows of now would leave a gap after the files.
    with pytest.raises(StateError, match="the directory contains no table") as refused:
        work(**options, with_copy=True, target_path=str(stream.directory / "other"))
    assert refused.value.hint.endswith("with_copy = 0")


@pytest.mark.slow
def test_folders_that_are_too_old_go_and_their_events_make_none(stream: Stream, work: Work) -> None:
    options = {"handler": "daily_field", "part_field": "at", "row_mode": "keep_all"}
    work(**options)
    stream.write("insert into t values (1, '2001-01-01', 'a', 's'), (2, now(), 'b', 's')")
    assert len(work(**options).files) == 2
    options |= {"retention_period": "2 days", "ignore_old_events": "1"}
    stream.write("insert into t values (3, '2001-01-02', 'a', 's'), (4, now(), 'b', 's')")
    work(**options)
    (found,) = rows(stream, "id").values()
    assert found == [(2,), (4,)]


@pytest.mark.slow
def test_a_row_that_is_deleted_is_not_in_its_folder(stream: Stream, work: Work) -> None:
    work(handler="yearly_batch")
    stream.write("insert into t select g, now(), 'v', 's' from generate_series(1, 3) g")
    work(handler="yearly_batch")
    stream.write("delete from t where id = 2", "update t set v = 'w' where id = 3")
    work(handler="yearly_batch")
    (found,) = rows(stream, "id", "v").values()
    assert found == [(1, "v"), (3, "w")]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"table_filter": ()}, "no table selected"),
    ({"handler": "direct"}, "table_mode"),
    ({"part_template": "create %(part)s"}, "part_template"),
    ({"part_name": "day=%(day)s"}, "needs each of"),
    ({"part_name": "../%(year)s%(month)s%(day)s"}, "below the table's directory"),
    ({"row_mode": "keep_latest", "file_format": "csv"}, "cannot read files of format"),
    ({"part_mode": "date_field", "part_field": "v"}, "is not a date or time"),
    ({"fields": "id,nope"}, "has no column nope"),
    ({"row_mode": "keep_latest", "fields": "v"}, "needs its key"),
    ({"retention_period": "soon"}, "retention_period=soon"),
    ({"retention_period": "-2 days"}, "retention_period=-2 days"),
    ({"target_db": "dbname=x"}, "exclude each other"),
    ({"consumer_filter": "true"}, "consumer_filter is not available"),
    ({"part_func": "mine"}, "part_func"),
    ({"part_name": "_%(year)s%(month)s%(day)s"}, "is not a visible path"),
    ({"fields": "id,v:_event_id"}, "duplicate name: _event_id"),
    ({"fields": "id,v:ID"}, "duplicate name: id"),
    ({"pgq_keep_lag": "1 hour"}, "pgq_keep_lag is not available"),
    ({"string_columns": "public.t.nope"}, "unknown columns nope"),
    ({"with_copy": True, "row_mode": "keep_latest"}, "with_copy is not available with row_mode"),
    ({"with_copy": True, "part_mode": "event_time", "row_mode": "plain"}, "part_mode = event_time"),
    ({"row_mode": "keep_latest", "table_filter": ("public.f",)}, "may have different texts"),
]


def test_what_files_cannot_do_is_refused(
    new_database: Callable[..., Database], tmp_path: Path
) -> None:
    stream = Stream(None, new_database(pgq=True), tmp_path)
    stream.table(COLUMNS)
    stream.table("x float8 primary key", "f")
    for given, said in REFUSED:
        with pytest.raises(BadOption, match=said) as caught:
            worker(stream)(**given)
        assert caught.value.hint, given
    assert list(tmp_path.iterdir()) == []
