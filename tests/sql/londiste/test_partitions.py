"""Partitions that are created and dropped by time."""

from __future__ import annotations

import datetime
from typing import Any

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_leaf, make_root, ret
from tests.support.suite.slow import first

CREATE = "select londiste.create_partition(%s, %s, %s, %s, %s, %s)"


@pytest.fixture
def db(pgq_db: Database) -> Database:
    pgq_db.execute(
        """
        set client_min_messages = warning;
        create role part_reader;
        """
        if not pgq_db.value("select 1 from pg_roles where rolname = 'part_reader'")
        else "select 1"
    )
    pgq_db.execute(
        """
        create schema "S x";
        create table "S x"."T.y" (
            id int primary key,
            "At" timestamptz not null default '2024-05-06 10:00+00',
            n int check (n > 0),
            twice int generated always as (n * 2) stored
        ) with (fillfactor = 70);
        create index on "S x"."T.y" ("At");
        grant select on "S x"."T.y" to part_reader with grant option;
        grant update (n) on "S x"."T.y" to part_reader;
        """
    )
    return pgq_db


def make(
    db: Database,
    part: str,
    *,
    table: str = "S x.T.y",
    keys: str = "",
    field: str = "At",
    time: str = "2024-05-06 10:11+00",
    period: str = "month",
) -> int:
    return int(db.value(CREATE, table, part, keys, field, time, period))


def test_a_partition_is_like_its_parent(db: Database) -> None:
    assert make(db, "S x.T.y_2024_05") == 1
    part = '"S x"."T.y_2024_05"'
    db.execute(f"insert into {part} (id, n) values (1, 3)")
    assert db.execute('select id, n, twice from "S x"."T.y"') == [(1, 3, 6)]
    with pytest.raises(psycopg.errors.UniqueViolation):
        db.execute(f"insert into {part} (id, n) values (1, 3)")
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute(f"insert into {part} (id, n) values (2, 0)")
    assert db.value("select count(*) from pg_index where indrelid = %s::regclass", part) == 2
    assert db.value("select reloptions from pg_class where oid = %s::regclass", part) == [
        "fillfactor=70"
    ]
    for right in ("select", "select with grant option"):
        assert db.value("select has_table_privilege('part_reader', %s, %s)", part, right)
    assert not db.value("select has_table_privilege('part_reader', %s, 'update')", part)
    assert db.value("select has_column_privilege('part_reader', %s, 'n', 'update')", part)


def test_a_partition_that_is_there_is_left_alone(db: Database) -> None:
    assert make(db, "S x.T.y_2024_05") == 1
    assert make(db, "S x.T.y_2024_05") == 0


@pytest.mark.parametrize(
    ("period", "first", "last", "outside"),
    [
        ("hour", "2024-05-06 10:00+00", "2024-05-06 10:59:59.999999+00", "2024-05-06 11:00+00"),
        ("daily", "2024-05-06 00:00+00", "2024-05-06 23:59:59.999999+00", "2024-05-07 00:00+00"),
        ("month", "2024-05-01 00:00+00", "2024-05-31 23:59:59.999999+00", "2024-06-01 00:00+00"),
        ("yearly", "2024-01-01 00:00+00", "2024-12-31 23:59:59.999999+00", "2023-12-31 23:59+00"),
    ],
)
def test_rows_of_other_periods_are_kept_out(
    db: Database, period: str, first: str, last: str, outside: str
) -> None:
    with db.connect() as conn:
        conn.execute("set timezone = 'UTC'; set datestyle = 'German'")
        conn.execute(CREATE, ["S x.T.y", "p", "", "At", "2024-05-06 10:11+00", period])
    add = 'insert into public.p (id, "At", n) values (%s, %s, 1) returning id'
    assert db.value(add, 1, first) == 1
    assert db.value(add, 2, last) == 2
    with pytest.raises(psycopg.errors.CheckViolation):
        db.value(add, 3, outside)


def test_without_a_field_nothing_is_kept_out(db: Database) -> None:
    assert make(db, "p", field="") == 1
    db.execute("insert into p (id, \"At\", n) values (1, '1999-01-01', 1)")


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_times_without_zone(db: Database, kind: str) -> None:
    db.execute(f"create table plain (id int primary key, at {kind})")
    with db.connect() as conn:
        conn.execute("set timezone = 'Pacific/Auckland'")
        conn.execute(CREATE, ["plain", "plain_x", "", "at", "2024-05-06 10:11+00", "month"])
    db.execute("insert into plain_x values (1, '2024-05-01'), (2, '2024-05-31')")
    for outside in ("2024-04-30", "2024-06-01"):
        with pytest.raises(psycopg.errors.CheckViolation):
            db.execute("insert into plain_x values (3, %s)", outside)


def test_the_key_is_made_where_the_parent_has_none(db: Database) -> None:
    db.execute('create table keyless ("A b" int, c int, at timestamptz)')
    make(db, "keyless_2024", table="keyless", keys="A b, c", field="at", period="year")
    assert (
        db.value(
            "select pg_get_constraintdef(oid) from pg_constraint"
            " where conrelid = 'keyless_2024'::regclass and contype = 'p'"
        )
        == 'PRIMARY KEY ("A b", c)'
    )


def test_a_partitioned_parent_gets_a_partition(db: Database) -> None:
    db.execute(
        "create table parted (id int, at timestamptz, primary key (id, at)) partition by range (at)"
    )
    assert make(db, "parted_2024_05", table="parted", field="at") == 1
    db.execute("insert into parted values (1, '2024-05-06')")
    assert db.value("select count(*) from parted_2024_05") == 1
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute("insert into parted values (1, '2024-07-06')")
    with pytest.raises(psycopg.Error, match="part_field is not set") as caught:
        make(db, "parted_2024_06", table="parted", field="")
    assert caught.value.sqlstate == "LD005"


def test_triggers_and_rules_come_along_enabled_as_they_were(db: Database) -> None:
    db.execute(
        """
        create function note() returns trigger language plpgsql as
            $$ begin perform pg_notify('x', tg_argv[0]); return new; end $$;
        create trigger " ON off" before update of n on "S x"."T.y"
            for each row when (new.n > 1) execute function note('it''s');
        create trigger always after insert on "S x"."T.y" for each row execute function note();
        create constraint trigger late after delete on "S x"."T.y" deferrable initially deferred
            for each row execute function note();
        alter table "S x"."T.y" disable trigger " ON off";
        alter table "S x"."T.y" enable always trigger always;
        create rule keep as on delete to "S x"."T.y" where old.n = 7 do instead nothing;
        alter table "S x"."T.y" enable replica rule keep;
        """
    )
    make(db, "S x.part")
    assert shapes(db, '"S x".part') == shapes(db, '"S x"."T.y"')


def shapes(db: Database, table: str) -> list[tuple[Any, ...]]:
    return db.execute(
        "select tgname::text, tgenabled::text, tgtype, tgdeferrable, tgattr::text, tgargs,"
        "       tgqual is not null"
        " from pg_trigger where tgrelid = %s::regclass and not tgisinternal"
        " union all select rulename::text, ev_enabled::text, ev_type::text::int2, false, '', '',"
        "       false from pg_rewrite where ev_class = %s::regclass order by 1",
        table,
        table,
    )


def test_a_partition_of_a_leaf_refuses_writes_as_its_parent_does(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    pgq_db.execute("create table t (id int primary key, at timestamptz)")
    ret(pgq_db, "londiste.global_add_table", "q", "public.t")
    ret(pgq_db, "londiste.local_add_table", "q", "public.t", ["expect_sync"])
    make(pgq_db, "t_2024_05", table="t", field="at")
    with pytest.raises(psycopg.Error, match="change not allowed"):
        pgq_db.execute("insert into t_2024_05 values (1, '2024-05-06')")
    with pytest.raises(psycopg.Error, match="change not allowed"):
        pgq_db.execute("truncate t_2024_05")


@pytest.mark.parametrize("end", ["remove", "drop", "virtual"])
@pytest.mark.parametrize("flags", first([["tgflags=C"], None, ["tgflags=L"]]))
def test_partitions_of_a_table_that_is_removed_are_the_applications(
    pgq_db: Database, flags: list[str] | None, end: str
) -> None:
    """Triggers of other queues, and of partitions that are replicated themselves, stay."""
    make_leaf(pgq_db) if flags is None else make_branch(pgq_db)
    pgq_db.execute(
        "create table t (id int primary key, at timestamptz); select pgq.create_queue('q2')"
    )
    ret(pgq_db, "londiste.global_add_table", "q", "public.t")
    ret(pgq_db, "londiste.local_add_table", "q", "public.t", ["expect_sync", *(flags or [])])
    for name, parent in (("t_2024_05", "t"), ("old_name", "t"), ("deep", "t_2024_05")):
        make(pgq_db, name, table=parent, field="at")
    pgq_db.execute(
        "alter table t rename to moved; alter table old_name rename to new_name;"
        " create table own () inherits (moved);"
        " select londiste.create_capture('q2', 'own', '{}', 't');"
        " select londiste.create_capture('q2', 't_2024_05', '{deny}')"
    )
    ret(pgq_db, "londiste.global_add_table", "q", "public.own")
    ret(pgq_db, "londiste.local_add_table", "q", "public.own", ["expect_sync", "tgflags=C"])
    of = (
        "select tgrelid::regclass::text, tgname::text from pg_trigger"
        " where londiste._trigger_first_arg(tgargs) = %s"
    )
    before = {queue: set(pgq_db.execute(of, queue)) for queue in ("q", "q2")}
    assert {table for table, _ in before["q"]} > {"t_2024_05", "new_name", "deep"}
    if end == "remove":
        ret(pgq_db, "londiste.local_remove_table", "q", "t")
    elif end == "virtual":
        ret(pgq_db, "londiste.local_change_handler", "q", "t", ["virtual_table"], "")
    else:
        ret(pgq_db, "pgq_node.drop_node", "q", "n2")
    left = {one for one in before["q"] if one[0] == "own" and end != "drop"}
    assert set(pgq_db.execute(of, "q")) == left
    assert set(pgq_db.execute(of, "q2")) == before["q2"]
    pgq_db.execute("insert into deep values (1, '2024-05-06'); truncate deep, new_name")


@pytest.mark.parametrize("flags", [[], ["tgflags=L"], ["tgflags=J"], ["tgflags=Q"]])
def test_changes_of_a_partition_are_captured_under_the_name_of_its_parent(
    pgq_db: Database, flags: list[str]
) -> None:
    make_root(pgq_db)
    pgq_db.execute("create table t (id int primary key, at timestamptz)")
    ret(pgq_db, "londiste.local_add_table", "q", "public.t", flags)
    make(pgq_db, "t_2024_05", table="t", field="at")
    pgq_db.execute("insert into t_2024_05 values (1, '2024-05-06')")
    pgq_db.execute("update t set at = '2024-05-07'")
    pgq_db.execute("delete from t_2024_05")
    assert pgq_db.execute(
        "select distinct ev_extra1 from pgq.event_template where ev_type not like 'londiste.%'"
    ) == [("public.t",)]
    assert (
        pgq_db.value("select count(*) from pgq.event_template where ev_type not like 'londiste.%'")
        == 3
    )


@pytest.mark.parametrize("kind", ["root", "branch"])
def test_an_argument_that_does_not_fit_the_parent_stops_no_branch(
    pgq_db: Database, kind: str
) -> None:
    make_root(pgq_db) if kind == "root" else make_branch(pgq_db)
    pgq_db.execute("create table t (id int primary key, at timestamptz, v text)")
    if kind == "branch":
        ret(pgq_db, "londiste.global_add_table", "q", "public.t")
    words = ["expect_sync", "tgflags=C", "when=v is not null"]
    ret(pgq_db, "londiste.local_add_table", "q", "public.t", words)
    pgq_db.execute("alter table t rename v to w")
    if kind == "root":
        with pytest.raises(psycopg.Error, match="does not fit table"):
            make(pgq_db, "t_2024_05", table="t", field="at")
        return
    assert make(pgq_db, "t_2024_05", table="t", field="at") == 1
    with pytest.raises(psycopg.Error, match="change not allowed"):
        pgq_db.execute("insert into t_2024_05 values (1, '2024-05-06')")


def test_whoever_sees_the_parent_by_policy_does_not_see_past_it(db: Database) -> None:
    db.execute('alter table "S x"."T.y" enable row level security')
    make(db, "S x.part")
    db.execute('insert into "S x".part (id, n) values (1, 1)')
    db.execute('grant usage on schema "S x" to part_reader')
    with db.connect() as conn:
        conn.execute("set role part_reader")
        with pytest.raises(psycopg.Error, match="row-level security"):
            conn.execute('select count(*) from "S x".part')


def test_the_owner_is_that_of_the_parent(db: Database) -> None:
    db.execute('alter table "S x"."T.y" owner to part_reader')
    make(db, "S x.part")
    owner = "select relowner::regrole::text from pg_class where oid = '\"S x\".part'::regclass"
    assert db.value(owner) == "part_reader"


def test_two_that_make_the_same_partition_make_one(db: Database) -> None:
    arguments = ["S x.T.y", "p", "", "At", "2024-05-06", "day"]
    with db.connect(autocommit=False) as one, db.connect(autocommit=False) as two:
        assert one.execute(CREATE, arguments).fetchone() == (1,)
        two.execute("set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            two.execute(CREATE, arguments)
        two.rollback()
        one.commit()
        assert two.execute(CREATE, arguments).fetchone() == (0,)


def test_what_cannot_be_meant_is_refused(db: Database) -> None:
    with pytest.raises(psycopg.Error, match=r"does not exist: public\.nothing") as caught:
        make(db, "p", table="nothing")
    assert caught.value.sqlstate == "LD004"
    for period in ("week", ""):
        with pytest.raises(psycopg.Error, match="unknown partition period") as caught:
            make(db, "p", period=period)
        assert caught.value.sqlstate == "LD005"


@pytest.mark.parametrize(
    ("period", "keep", "at", "obsolete"),
    [
        ("year", "2 years", {"years": 2}, False),
        ("yearly", "1 year", {"years": 2}, True),
        ("month", "2 months", {"months": 2}, False),
        ("monthly", "2 months", {"months": 3}, True),
        ("day", "3 days", {"days": 3}, False),
        ("daily", "3 days", {"days": 4}, True),
        ("hour", "5 hours", {"hours": 5}, False),
        ("hourly", "5 hours", {"hours": 6}, True),
    ],
)
def test_a_partition_is_obsolete_when_its_youngest_row_is(
    pgq_db: Database, period: str, keep: str, at: dict[str, int], obsolete: bool
) -> None:
    ending = {"y": "YYYY", "m": "YYYY_MM", "d": "YYYY_MM_DD", "h": "YYYY_MM_DD_HH24"}[period[0]]
    name = pgq_db.value(
        "select 't_' || to_char(now() - make_interval(years => %s, months => %s, days => %s,"
        " hours => %s), %s)",
        *(at.get(unit, 0) for unit in ("years", "months", "days", "hours")),
        ending,
    )
    asked = "select londiste.is_obsolete_partition(%s, %s, %s)"
    assert pgq_db.value(asked, name, keep, period) is obsolete


@pytest.mark.parametrize("name", ["t", "t_old", "t_2024", "t_2024_13_01", "t_2024_02_30"])
def test_other_names_are_never_obsolete(pgq_db: Database, name: str) -> None:
    asked = "select londiste.is_obsolete_partition(%s, '1 day', 'day')"
    assert pgq_db.value(asked, name) is False


def test_obsolete_partitions_are_listed_and_dropped(pgq_db: Database) -> None:
    pgq_db.execute(
        """
        create table t (id int primary key, at timestamptz);
        create table other (like t);
        create table t_2001_01 () inherits (t);
        create table t_2001_02 () inherits (t);
        create table t_2001_03 () inherits (other);
        create table t_2001_04_05 () inherits (t);
        create table t_x_2001_04 (like t);
        create table t_2001_06 (like t);
        create view t_2001_07 as select 1;
        create table t_9999_01 () inherits (t);
        """
    )
    gone = ["public.t_2001_01", "public.t_2001_02", "public.t_2001_06"]
    asked = "select * from londiste.{}('t', '1 year', 'monthly')"
    assert pgq_db.execute(asked.format("list_obsolete_partitions")) == [(x,) for x in gone]
    assert pgq_db.execute(asked.format("drop_obsolete_partitions")) == [(x,) for x in gone]
    assert pgq_db.execute(asked.format("list_obsolete_partitions")) == []
    assert pgq_db.value("select to_regclass('t_9999_01') is not null")


def test_a_replicated_table_is_no_obsolete_partition(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute(
        "create table t (id int primary key); create table t_2001 (like t including all)"
    )
    ret(pgq_db, "londiste.local_add_table", "q", "t_2001")
    asked = "select * from londiste.list_obsolete_partitions('t', '1 year', 'year')"
    assert pgq_db.execute(asked) == []


def test_names_are_read_as_they_are_made(pgq_db: Database) -> None:
    """What create_partition() is given by name comes back as obsolete by the same period."""
    pgq_db.execute("create table t (id int primary key, at timestamptz)")
    day = datetime.datetime(2001, 2, 3, 4, tzinfo=datetime.UTC)
    for period, form in (
        ("year", "%Y"),
        ("month", "%Y_%m"),
        ("day", "%Y_%m_%d"),
        ("hour", "%Y_%m_%d_%H"),
    ):
        name = f"t_{day:{form}}"
        make(pgq_db, name, table="t", field="at", time=day.isoformat(), period=period)
        asked = "select * from londiste.drop_obsolete_partitions('t', '1 day', %s)"
        assert pgq_db.execute(asked, period) == [(f"public.{name}",)]
