"""Schema copy of a migration: choice of pg_dump, and excluded objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from londiste.cli import cli
from londiste.db.names import TableName
from londiste.db.structure.introspect import read
from londiste.embedded.binaries import find_binaries
from londiste.migrate import pg_dump
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_root, ret
from tests.support.suite.slow import first

SCHEMA = """
create table t (id int primary key, v text);
create function touch() returns trigger language plpgsql as $$begin return new; end$$;
create trigger mine before insert on t for each row execute function touch();
create trigger theirs after insert or update or delete on t
    for each row execute function pgq.logutriga('other');
alter table t enable always trigger theirs;
insert into t values (1, 'one');
alter table t alter v set (n_distinct = 5);
"""
#: As servers do that keep options of their own for a column.
INTERNAL = """
update pg_attribute set attoptions = array_append(attoptions, 'pg_attver=1')
where attrelid = 't'::regclass and attname in ('id', 'v')
"""
OPTIONS = (
    "select attname::text, attoptions from pg_attribute"
    " where attrelid = 'public.t'::regclass and attoptions is not null"
)
TRIGGERS = (
    "select tgname::text from pg_trigger where tgrelid = 'public.t'::regclass"
    " and not tgisinternal and tgname !~ 'migrate' order by 1"
)


def move(old: Database, new: Database, *args: str) -> Result:
    command, *rest = args
    argv = ["migrate", command, "--from", old.dsn, "--to", new.dsn, *rest]
    return CliRunner().invoke(cli, argv)


@pytest.fixture
def old(pgq_db16: Database) -> Database:
    pgq_db16.execute("select pgq.create_queue('other')")
    pgq_db16.execute(SCHEMA)
    make_root(pgq_db16)
    assert ret(pgq_db16, "londiste.local_add_table", "q", "t")[0] == 200
    return pgq_db16


@pytest.mark.parametrize("way", first(["pg_dump", "create", "auto"]))
def test_a_database_with_queues_and_internal_options_of_columns_moves(
    old: Database, new_database: Callable[..., Database], way: str
) -> None:
    old.execute(INTERNAL)
    new = new_database()
    done = move(old, new, "start", "--no-daemons", "--schema", way)
    assert done.exit_code == 0, done.output
    assert new.execute(OPTIONS) == [("v", ["n_distinct=5"])]
    assert new.execute(TRIGGERS) == [("mine",)]
    # The other queues of the old database go on.
    assert ("theirs",) in old.execute(TRIGGERS)


def test_a_statement_that_fails_is_named(
    old: Database, new_database: Callable[..., Database]
) -> None:
    new = new_database()
    new.execute("create function touch() returns trigger language plpgsql as $$begin end$$")
    done = move(old, new, "start", "--no-daemons", "--schema", "pg_dump")
    error = str(done.exception)
    assert "already exists" in error
    assert "at: CREATE FUNCTION public.touch() RETURNS trigger" in str(done.exception.detail)
    assert "--pg-dump PATH" in str(done.exception.hint)
    assert new.value("select to_regclass('public.t')") is None


def test_the_pg_dump_of_the_old_release_is_taken_or_the_one_that_is_named(
    old: Database, new_database: Callable[..., Database], tmp_path: Path
) -> None:
    new = new_database()
    shown = move(old, new, "check", "--schema", "pg_dump")
    assert "created by pg_dump 16" in shown.output
    newer = find_binaries(18).program("pg_dump")
    shown = move(old, new, "check", "--schema", "pg_dump", "--pg-dump", str(newer))
    assert f"created by pg_dump 18 ({newer})" in shown.output
    none = move(old, new, "check", "--pg-dump", str(tmp_path / "none"))
    assert "is no working pg_dump" in str(none.exception)
    too_old = find_binaries(16).program("pg_dump")
    back = move(new, old, "check", "--pg-dump", str(too_old))
    assert "has release 16, the old server 18" in str(back.exception)


def test_only_options_that_users_set_are_read(old: Database) -> None:
    old.execute(INTERNAL)
    with old.connect() as conn:
        (table,) = read(conn, [TableName("public", "t")]).tables
    assert [column.options for column in table.columns] == [(), ("n_distinct=5",)]
    lines = [
        "ALTER TABLE ONLY public.t ALTER COLUMN v SET (n_distinct=5, pg_attver=1);",
        "ALTER TABLE ONLY public.t ALTER COLUMN id SET (pg_attver=1);",
        "ALTER TABLE ONLY public.t ALTER COLUMN v SET STORAGE EXTERNAL;",
    ]
    assert pg_dump.for_any_release("\n".join(lines)).split("\n") == [
        "ALTER TABLE ONLY public.t ALTER COLUMN v SET (n_distinct=5);",
        lines[2],
    ]


@pytest.mark.parametrize("way", first(["pg_dump", "create"]))
def test_unlogged_sequences_are_moved_but_not_those_of_unlogged_tables(
    database16: Database, new_database: Callable[..., Database], way: str
) -> None:
    new = new_database()
    database16.execute(
        "create unlogged sequence counter start 7; create sequence plain;"
        " create table t (id int primary key default nextval('counter'));"
        " create unlogged table fast (id serial primary key)"
    )
    done = move(database16, new, "start", "--schema", way, "--no-daemons")
    assert done.exit_code == 0, done.output
    moved = "select array_agg(seq_name order by seq_name) from londiste.seq_info where local"
    for one in (database16, new):
        assert one.value(moved) == ["public.counter", "public.plain"]
    assert move(database16, new, "finish", "--abandon").exit_code == 0


def test_parts_of_views_are_created_without_pg_dump(
    database16: Database, new_database: Callable[..., Database]
) -> None:
    new = new_database()
    database16.execute(
        "create table t (id int primary key, v text); create view v as select id, v from t;"
        " alter view v alter v set default 'none'; create materialized view m as select id from t;"
        " create unique index by_id on m (id); comment on index by_id is 'finds';"
        " comment on view v is 'shows'; comment on column v.v is 'text'"
    )
    done = move(database16, new, "start", "--schema", "create", "--no-daemons")
    assert done.exit_code == 0, done.output
    assert new.value("select obj_description('by_id'::regclass, 'pg_class')") == "finds"
    assert new.value("select obj_description('v'::regclass, 'pg_class')") == "shows"
    assert new.value("select count(*) from pg_attrdef where adrelid = 'v'::regclass") == 1
    assert "grants" not in move(database16, new_database(), "check", "--schema", "create").output
    assert move(database16, new, "finish", "--abandon").exit_code == 0
