"""Table copy: the contract of every engine."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from londiste.copy.chunking.key_ranges import split_by_key
from londiste.copy.sqlapi import attempts
from londiste.db import catalog
from londiste.db import table_fingerprint as marks_of
from londiste.db.names import TableName
from londiste.engine.base import Engine
from londiste.engine.spec import ChunkDone, CopySpec
from londiste.errors import LondisteError, StateError, Superseded, TransientError
from tests.engine.conftest import LOCAL_FIRST, QUEUE, Pair
from tests.fixtures.values import quoted, usable
from tests.support.unflushed import unflushed
from tests.support.waiting import wait_for

TABLE = TableName("public", "t")
ROWS = "select id::text || coalesce(v, '<null>') from public.t order by 1"


def with_rows(pair: Pair, rows: int) -> None:
    pair.both("create table public.t (id int8, v text)")
    pair.source.execute(
        f"insert into public.t select i, repeat(md5(i::text), 8) from generate_series(1, {rows}) i"
    )


def in_target(pair: Pair) -> int:
    return int(pair.target.value("select count(*) from public.t"))


def marks(pair: Pair) -> int:
    return int(pair.target.value("select count(*) from londiste.copy_chunk"))


@pytest.mark.parametrize("binary", [False, True])
def test_a_table_in_many_chunks_arrives_whole_with_right_counts(
    carrier: Engine, pair: Pair, binary: bool
) -> None:
    with_rows(pair, 4000)
    spec = pair.spec(TABLE, chunk_bytes=128 * 1024, binary=binary)
    assert len(spec.chunks) > 5
    done = list(carrier.copy(spec, 2))
    assert sorted(d.number for d in done) == [c.number for c in spec.chunks]
    assert sum(d.rows for d in done) == 4000
    assert sum(d.bytes for d in done) > 4000 * 256
    assert pair.target.execute(ROWS) == pair.source.execute(ROWS)


def test_values_of_every_type_have_the_same_text_afterwards(carrier: Engine, pair: Pair) -> None:
    columns = []
    with pair.source.connect() as source, pair.target.connect() as target:
        types = usable(source)
        usable(target)
        # text of regtype depends on what the target has, and money on the locale
        for number, (type_name, literals) in enumerate(types.items()):
            columns.append((f"c{number}", type_name, literals))
    definition = ", ".join(f"{name} {type_name}" for name, type_name, _ in columns)
    pair.both(f"create table public.t ({definition})")
    for index in range(max(len(literals) for _, _, literals in columns)):
        chosen = [(n, t, ls[index]) for n, t, ls in columns if index < len(ls)]
        names = ", ".join(name for name, _, _ in chosen)
        values = ", ".join(f"cast({quoted(v)} as {t})" for _, t, v in chosen)
        pair.source.execute(f"insert into public.t ({names}) values ({values})")
    spec = pair.spec(TABLE)
    assert sum(d.rows for d in carrier.copy(spec, 2)) > 10
    shown = "select row(t.*)::text from public.t order by 1"
    assert pair.target.execute(shown) == pair.source.execute(shown)
    source, target = carrier.checksum(
        [pair.compare("source", TABLE), pair.compare("target", TABLE)], 1
    )
    assert (source.rows, source.sum1, source.sum2) == (target.rows, target.sum1, target.sum2)


@LOCAL_FIRST
def test_rows_written_after_the_snapshot_stay_out(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 1000)
    before = pair.source.execute(ROWS)
    spec = pair.spec(TABLE, chunk_bytes=64 * 1024)
    pair.source.execute("insert into public.t select i, 'late' from generate_series(1, 5000) i")
    pair.source.execute("update public.t set v = 'changed' where id < 300")
    pair.source.execute("delete from public.t where id > 900")
    list(carrier.copy(spec, 2))
    assert pair.target.execute(ROWS) == before


@LOCAL_FIRST
def test_a_copy_that_runs_twice_leaves_the_rows_once(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 1000)
    spec = pair.spec(TABLE, chunk_bytes=64 * 1024)
    first = list(carrier.copy(spec, 2))
    second = list(carrier.copy(spec, 2))
    assert sum(d.rows for d in first) == 1000
    assert [d.rows for d in second] == [0] * len(spec.chunks)
    assert in_target(pair) == 1000


@LOCAL_FIRST
def test_a_superseded_attempt_writes_nothing(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 100)
    spec = pair.spec(TABLE)
    with pair.target.connect() as conn:
        attempts.copy_start(conn, QUEUE, TABLE)
    with pytest.raises(Superseded):
        list(carrier.copy(spec, 2))
    assert in_target(pair) == 0
    assert marks(pair) == 0


@LOCAL_FIRST
def test_an_ended_attempt_writes_nothing(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 100)
    spec = pair.spec(TABLE)
    with pair.target.connect() as conn:
        assert attempts.copy_end(conn, QUEUE, TABLE, spec.attempt)
        assert not attempts.copy_end(conn, QUEUE, TABLE, spec.attempt)
    with pytest.raises(Superseded):
        list(carrier.copy(spec, 2))
    assert in_target(pair) == 0


@LOCAL_FIRST
def test_an_empty_table_is_copied(carrier: Engine, pair: Pair) -> None:
    pair.both("create table public.t (id int)")
    (done,) = carrier.copy(pair.spec(TABLE), 2)
    assert (done.rows, marks(pair)) == (0, 1)


@LOCAL_FIRST
def test_a_table_without_columns_keeps_its_number_of_rows(carrier: Engine, pair: Pair) -> None:
    pair.both("create table public.t ()")
    pair.source.execute("insert into public.t default values")
    pair.source.execute("insert into public.t default values")
    (done,) = carrier.copy(pair.spec(TABLE), 2)
    assert (done.rows, in_target(pair)) == (2, 2)


@LOCAL_FIRST
@pytest.mark.parametrize("binary", [False, True])
def test_quoted_names_are_copied(carrier: Engine, pair: Pair, binary: bool) -> None:
    schema, name, column = 'Sch "é ', 'a.b "%s"; --', 'Sel\'ect "{}" %'
    quote = lambda s: '"' + s.replace('"', '""') + '"'  # noqa: E731
    pair.both(
        f"create schema {quote(schema)};"
        f' create table {quote(schema)}.{quote(name)} ({quote(column)} text, "order" int)'
    )
    full = f"{quote(schema)}.{quote(name)}"
    pair.source.execute(f"insert into {full} select 'x', i from generate_series(1, 50) i")
    table = TableName(schema, name)
    (done,) = carrier.copy(pair.spec(table, binary=binary), 2)
    assert done.rows == 50
    assert pair.target.value(f"select count(*) from {full}") == 50


@LOCAL_FIRST
def test_rows_of_inheriting_tables_stay_out(carrier: Engine, pair: Pair) -> None:
    pair.both(
        "create table public.t (id int8, v text); create table public.c () inherits (public.t)"
    )
    pair.source.execute(
        "insert into public.t values (1, 'own'); insert into public.c values (2, 'child')"
    )
    (done,) = carrier.copy(pair.spec(TABLE), 2)
    assert (done.rows, in_target(pair)) == (1, 1)


@LOCAL_FIRST
def test_a_source_condition_limits_the_rows(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 1000)
    list(carrier.copy(pair.spec(TABLE, chunk_bytes=64 * 1024, where="id % 10 = 0"), 2))
    assert pair.target.execute("select count(*), min(id % 10), max(id % 10) from public.t") == [
        (100, 0, 0)
    ]


@LOCAL_FIRST
def test_a_failing_source_is_reported_and_nothing_of_its_chunk_stays(
    carrier: Engine, pair: Pair
) -> None:
    with_rows(pair, 2000)
    spec = pair.spec(TABLE, where="1 / (id - 1500) < 2")
    with pytest.raises(LondisteError, match="division by zero") as caught:
        list(carrier.copy(spec, 2))
    assert pair.source.name in caught.value.message
    assert in_target(pair) == 0
    assert marks(pair) == 0


@LOCAL_FIRST
def test_a_failing_target_is_reported_and_nothing_of_its_chunk_stays(
    carrier: Engine, pair: Pair
) -> None:
    with_rows(pair, 2000)
    pair.target.execute("create unique index on public.t (v)")
    pair.source.execute("update public.t set v = 'same' where id in (1000, 2000)")
    with pytest.raises(LondisteError, match="duplicate key value") as caught:
        list(carrier.copy(pair.spec(TABLE), 2))
    assert pair.target.name in caught.value.message
    assert "Key (v)=(…) already exists" in caught.value.detail
    assert in_target(pair) == 0


@LOCAL_FIRST
@pytest.mark.parametrize("binary", [False, True])
def test_types_that_do_not_fit_are_reported(carrier: Engine, pair: Pair, binary: bool) -> None:
    pair.source.execute("create table public.t (id text)")
    pair.source.execute("insert into public.t values ('not a number')")
    pair.target.execute("create table public.t (id int4)")
    with pytest.raises(LondisteError, match=r"invalid input syntax|incorrect binary data"):
        list(carrier.copy(pair.spec(TABLE, binary=binary), 2))
    assert in_target(pair) == 0


@LOCAL_FIRST
def test_a_missing_target_table_is_reported(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 10)
    spec = pair.spec(TABLE)
    pair.target.execute("drop table public.t")
    with pytest.raises(LondisteError, match="does not exist"):
        list(carrier.copy(spec, 2))


@LOCAL_FIRST
def test_one_bad_chunk_of_many_is_reported(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 2000)
    pair.target.execute("alter table public.t add check (id <> 1999)")
    spec = pair.spec(TABLE, chunk_bytes=64 * 1024)
    assert len(spec.chunks) > 4
    with pytest.raises(LondisteError, match="violates check constraint"):
        list(carrier.copy(spec, 2))
    assert pair.target.value("select count(*) from public.t where id = 1999") == 0


@LOCAL_FIRST
def test_a_snapshot_whose_holder_is_gone_is_reported(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 10)
    spec = pair.spec(TABLE)
    pair.holders.pop().close()
    with pytest.raises(TransientError, match="no longer exists"):
        list(carrier.copy(spec, 2))
    assert in_target(pair) == 0


@pytest.mark.parametrize(
    "change",
    [
        "vacuum full public.t",
        # The rows of a table that takes the name are invisible, too.
        "create table n (like t including all); insert into n select * from t;"
        " alter table t rename to o; alter table n rename to t",
    ],
)
def test_a_source_table_that_was_rewritten_is_not_trusted(
    carrier: Engine, pair: Pair, change: str
) -> None:
    with_rows(pair, 1000)
    spec = pair.spec(TABLE, chunk_bytes=64 * 1024)
    pair.source.execute(change)
    with pytest.raises(StateError, match="rewritten during its copy"):
        list(carrier.copy(spec, 2))
    assert in_target(pair) == 0


@LOCAL_FIRST
def test_a_table_that_was_rewritten_before_it_was_split_is_not_trusted(
    carrier: Engine, pair: Pair
) -> None:
    with_rows(pair, 10)
    early = pair.spec(TABLE)
    pair.source.execute("alter table public.t add x float8 default random()")
    late = pair.spec(TABLE)
    with pytest.raises(StateError, match="rewritten during its copy"):
        list(carrier.copy(replace(late, snapshot=early.snapshot), 2))
    assert in_target(pair) == 0


@LOCAL_FIRST
@pytest.mark.parametrize(
    "change",
    [
        "alter table public.t rename v to x; alter table public.t add v text",
        "alter table public.t drop v; alter table public.t add v text",
    ],
)
def test_another_column_behind_a_name_is_not_read(carrier: Engine, pair: Pair, change: str) -> None:
    with_rows(pair, 1000)
    spec = pair.spec(TABLE, chunk_bytes=64 * 1024)
    with pair.source.connect() as source:
        shape = marks_of.shape(source, TABLE, ["id", "v"])
    pair.source.execute(change)
    with pytest.raises(StateError, match="changed during its copy"):
        list(carrier.copy(replace(spec, source_shape=shape), 2))
    assert in_target(pair) == 0


@LOCAL_FIRST
@pytest.mark.parametrize("chunks", [1, 2])
def test_an_unreachable_target_is_reported(
    carrier: Engine, pair: Pair, chunks: int, caplog: pytest.LogCaptureFixture
) -> None:
    with_rows(pair, 10)
    spec = replace(pair.spec(TABLE), target="host=/nonexistent dbname=x")
    spec = replace(spec, chunks=tuple(replace(spec.chunks[0], number=n) for n in range(chunks)))
    caplog.set_level("INFO")
    with pytest.raises(LondisteError) as caught:
        list(carrier.copy(spec, 2))
    assert caught.value.retry
    assert "\n" not in caught.value.message
    if carrier.name == "local":
        said = [r.getMessage() for r in caplog.records if "again" in r.getMessage()]
        line = "chunk 0 of public.t is tried again, attempt {}: " + caught.value.message
        assert [one for one in said if "chunk 0" in one] == [line.format(n) for n in (2, 3, 4)]


@LOCAL_FIRST
def test_triggers_of_the_target_stay_silent(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 10)
    pair.target.execute(
        "create function public.refuse() returns trigger language plpgsql"
        " as 'begin raise exception ''fired''; end';"
        "create trigger refuse before insert on public.t for each row"
        " execute function public.refuse()"
    )
    list(carrier.copy(pair.spec(TABLE), 2))
    assert in_target(pair) == 10


@LOCAL_FIRST
def test_a_target_trigger_that_swallows_rows_is_noticed(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 10)
    pair.target.execute(
        "create function public.swallow() returns trigger language plpgsql"
        " as 'begin return null; end';"
        "create trigger swallow before insert on public.t for each row"
        " execute function public.swallow();"
        "alter table public.t enable always trigger swallow"
    )
    with pytest.raises(StateError, match="target wrote 0 rows, but 10 rows were read"):
        list(carrier.copy(pair.spec(TABLE), 2))


def test_no_password_is_in_an_error(carrier: Engine, pair: Pair) -> None:
    with_rows(pair, 10)
    spec = replace(pair.spec(TABLE), source="host=/nonexistent dbname=x user=u password=s3cr3t")
    with pytest.raises(LondisteError) as caught:
        list(carrier.copy(spec, 2))
    error = caught.value
    assert "s3cr3t" not in error.message + error.detail + error.hint


def ranged(pair: Pair, rows: int) -> CopySpec:
    """A copy whose chunks are ranges of the key, each with a snapshot of its own."""
    pair.both("create table public.t (id int8 primary key, v text)")
    pair.source.execute(
        f"insert into public.t select i, repeat(md5(i::text), 8) from generate_series(1, {rows}) i"
    )
    with pair.source.connect() as source, pair.target.connect() as target:
        info = catalog.require(source, TABLE)
        key = [column for column in catalog.columns(source, TABLE) if column.name == "id"]
        return replace(
            pair.spec(TABLE),
            chunks=split_by_key(source, info, key, chunk_bytes=128 * 1024),
            snapshot="",
            filenode=None,
            source_mark=marks_of.mark(source, TABLE),
            target_mark=marks_of.mark(target, TABLE),
        )


@LOCAL_FIRST
def test_ranges_of_the_key_are_read_in_snapshots_of_their_own(carrier: Engine, pair: Pair) -> None:
    spec = ranged(pair, 4000)
    assert len(spec.chunks) > 5
    first, rest = spec.chunks[:2], spec.chunks[2:]
    list(carrier.copy(replace(spec, chunks=first), 2))
    # Whatever is written between two chunks is seen by the second.
    pair.source.execute("update public.t set v = 'later' where id > 3900 or id < 10")
    list(carrier.copy(replace(spec, chunks=rest), 2))
    assert in_target(pair) == 4000
    assert pair.target.value("select count(*) from public.t where v = 'later'") == 100
    seen = [text for (text,) in pair.target.execute("select snapshot from londiste.copy_chunk")]
    assert len(seen) == len(spec.chunks)
    assert all(seen)


@LOCAL_FIRST
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_table_that_has_become_another_one_is_not_read(
    carrier: Engine, pair: Pair, side: str
) -> None:
    spec = ranged(pair, 2000)
    list(carrier.copy(replace(spec, chunks=spec.chunks[:1]), 2))
    before = in_target(pair)
    database = pair.source if side == "source" else pair.target
    database.execute("alter table public.t alter v type varchar using left(v, 20)")
    with pytest.raises(StateError, match="changed during its copy"):
        list(carrier.copy(spec, 2))
    assert in_target(pair) == before


def test_a_range_that_waits_for_a_rewrite_of_the_table_is_read_behind_it(
    local_engine: Engine, pair: Pair
) -> None:
    spec = ranged(pair, 2000)
    done: list[ChunkDone] = []
    waiting = (
        "select count(*) from pg_stat_activity where datname = current_database()"
        " and application_name like 'londiste copy%' and wait_event_type = 'Lock'"
    )
    with pair.source.connect() as conn:
        conn.autocommit = False
        # A new file, and the rows in it look younger than any snapshot that is there.
        conn.execute("alter table public.t add w timestamptz default clock_timestamp()")
        copy = threading.Thread(target=lambda: done.extend(local_engine.copy(spec, 2)))
        copy.start()
        wait_for(lambda: pair.source.value(waiting), what="a chunk that waits for the table")
        conn.commit()
    copy.join()
    assert sum(one.rows for one in done) == 2000
    assert in_target(pair) == 2000


@LOCAL_FIRST
def test_what_the_snapshot_of_a_chunk_has_seen_is_on_disk_before_it_counts(
    carrier: Engine, pair: Pair
) -> None:
    with_rows(pair, 10)
    spec = replace(pair.spec(TABLE), snapshot="")
    with unflushed(pair.source, "insert into public.t values (11, 'x')") as flushed:
        assert sum(done.rows for done in carrier.copy(spec, 1)) == 11
        assert flushed()
