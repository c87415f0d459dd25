"""DDL that rewrites rows of replicated tables without events is noticed."""

from __future__ import annotations

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_root, ret


@pytest.fixture
def root(pgq_db: Database) -> Database:
    make_root(pgq_db)
    make_table(pgq_db)
    return pgq_db


def make_table(db: Database) -> None:
    db.execute("create table t (id int primary key, v text)")
    db.execute("insert into t select i, i::text from generate_series(1, 10) i")
    assert ret(db, "londiste.local_add_table", "q", "t")[0] == 200


def begin_again(db: Database) -> None:
    """The table as it was made."""
    assert ret(db, "londiste.local_remove_table", "q", "t")[0] == 200
    db.execute("drop table t")
    make_table(db)
    maintain(db)


def rewritten(db: Database) -> list[object]:
    return [name for (name,) in db.execute("select table_name from londiste.rewritten_tables('q')")]


def maintain(db: Database) -> None:
    db.execute("select londiste.periodic_maintenance()")


#: What changes rows without an event.
REWRITES = [
    "alter table t alter v type text using upper(v)",
    "alter table t alter id type bigint",
    "alter table t add c int default 7",
    "alter table t add c timestamptz default clock_timestamp()",
    "alter table t add c int generated always as (id * 2) stored",
    "alter table t add c serial",
    "alter table t drop v; alter table t add v text",
    "alter table t drop v, add v int",
    "alter table t add w text; alter table t drop v; alter table t rename w to v",
]


def test_rows_that_ddl_has_changed_are_noticed_at_once_and_remembered(root: Database) -> None:
    since = "select since from londiste.rewritten_tables('q')"
    for ddl in REWRITES:
        assert rewritten(root) == [], ddl
        root.execute(ddl)
        assert rewritten(root) == ["public.t"], ddl
        maintain(root)
        noted = root.value(since)
        maintain(root)
        assert rewritten(root) == ["public.t"], ddl
        assert root.value(since) == noted, ddl
        assert ret(root, "londiste.accept_rewrite", "q", "t")[0] == 200
        maintain(root)
        assert rewritten(root) == [], ddl
        begin_again(root)
    assert ret(root, "londiste.accept_rewrite", "q", "other")[0] == 404


def test_a_table_is_noted_that_lacks_changes(root: Database) -> None:
    assert root.value("select londiste.note_rewrite('q', 't')") is True
    noted = root.value("select since from londiste.rewritten_tables('q')")
    maintain(root)
    assert root.value("select londiste.note_rewrite('q', 't')") is True
    assert root.value("select since from londiste.rewritten_tables('q')") == noted
    assert root.value("select londiste.note_rewrite('q', 'other')") is False
    assert ret(root, "londiste.accept_rewrite", "q", "t")[0] == 200
    assert rewritten(root) == []


#: What changes no row, or tells of it.
HARMLESS = [
    "vacuum full t",
    "truncate t",
    "cluster t using t_pkey",
    "alter table t add c int",
    "alter table t drop v",
    "alter table t drop v; alter table t add w text",
    "alter table t rename v to w; alter table t rename w to v",
    "alter table t rename v to w; alter table t rename id to v; alter table t rename w to id",
    "alter table t alter v set default 'x'",
    "alter table t alter v set not null",
    "alter table t add constraint c check (id > 0)",
    "create index on t (v)",
    "alter table t alter v set statistics 50",
    "select londiste.create_capture('q', 't')",
]


def test_what_changes_no_row_without_an_event_is_not_listed(root: Database) -> None:
    for ddl in HARMLESS:
        root.execute(ddl)
        maintain(root)
        assert rewritten(root) == [], ddl
        begin_again(root)


def test_two_harmless_changes_one_after_the_other_are_no_rewrite(root: Database) -> None:
    root.execute("alter table t alter v set default 'x'")
    maintain(root)
    root.execute("vacuum full t")
    maintain(root)
    assert rewritten(root) == []


def test_a_script_that_all_nodes_run_is_accepted_and_hides_no_change_of_before(
    root: Database,
) -> None:
    def script(name: str, ddl: str) -> None:
        with root.connect() as conn, conn.transaction():
            args = ("q", name, ddl, True)
            conn.execute("select londiste.execute_start(%s, %s, %s, %s)", args)
            conn.execute(ddl.encode())
            conn.execute("select londiste.execute_finish('q', %s)", [name])

    script("one.sql", "alter table public.t add c int default 7")
    script("two.sql", "alter table public.t alter v type text using upper(v)")
    assert rewritten(root) == []
    root.execute("alter table t alter v type text using lower(v)")
    script("three.sql", "alter table public.t add d int default 7")
    assert rewritten(root) == ["public.t"]


def test_a_script_does_not_accept_what_another_session_does_before_it_ends(root: Database) -> None:
    root.execute("create table u (id int primary key, v text)")
    assert ret(root, "londiste.local_add_table", "q", "u")[0] == 200
    change = "alter table public.{} alter v type text using upper(v)"
    with root.connect() as conn, conn.transaction():
        conn.execute("select londiste.execute_start('q', 'one.sql', 'select 1', true)")
        root.execute(f"set lock_timeout = '5s'; {change.format('t')}")
        conn.execute(change.format("u").encode())
        conn.execute("select londiste.execute_finish('q', 'one.sql')")
    assert rewritten(root) == ["public.t"]
    maintain(root)
    assert rewritten(root) == ["public.t"]


def test_a_script_does_not_accept_what_another_session_does_just_before_it(root: Database) -> None:
    root.execute(
        'create table "a b" (id int primary key, v text); alter table t rename to here;'
        "update londiste.table_info set dest_table = 'public.here'"
    )
    assert ret(root, "londiste.local_add_table", "q", "a b")[0] == 200
    change = 'alter table "{}" alter v type text using lower(v)'
    for name, text in (
        ("here", change.format("here")),
        ("here", "do $$ begin execute 'ALTER TABLE HERE drop v'; end $$"),
        ("here", "alter table @t@ drop v"),
        ("a b", 'alter table public."a b" drop v'),
    ):
        with root.connect() as conn, conn.transaction():
            conn.execute("select londiste.execute_start('q', %s, %s, true)", [text, text])
            with pytest.raises(psycopg.errors.LockNotAvailable):
                root.execute(f"set lock_timeout = 50; {change.format(name)}")
            conn.execute("select londiste.execute_finish('q', %s)", [text])
    # Who may not read a table cannot change it either, and locks nothing.
    root.execute("set role londiste_writer")
    root.execute("select londiste.execute_start('q', 'b', 'here', true)")
    root.execute("reset role")


def test_a_copy_ends_it_and_a_table_that_is_copied_is_not_watched(root: Database) -> None:
    root.execute("alter table t add c int default 7")
    maintain(root)
    state = "update londiste.table_info set merge_state = %s"
    root.execute(state, "in-copy")
    assert rewritten(root) == []
    root.execute("alter table t add d int default 7")
    root.execute(state, "ok")
    maintain(root)
    assert rewritten(root) == []


def test_tables_of_an_older_release_and_those_created_again_are_watched(root: Database) -> None:
    # As after an upgrade.
    root.execute("delete from londiste.table_version")
    maintain(root)
    root.execute("alter table t add c int default 7")
    assert rewritten(root) == ["public.t"]
    root.execute("drop table t; create table t (id int primary key, v text)")
    maintain(root)
    assert rewritten(root) == []
    root.execute("alter table t alter v type text using upper(v)")
    assert rewritten(root) == ["public.t"]


def test_partitions_are_watched_with_their_table(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute(
        "create table p (id int primary key, v text) partition by range (id);"
        "create table p1 partition of p for values from (0) to (100);"
        "insert into p values (1, 'a')"
    )
    assert ret(pgq_db, "londiste.local_add_table", "q", "p")[0] == 200
    pgq_db.execute("create table p2 partition of p for values from (100) to (200)")
    maintain(pgq_db)
    assert rewritten(pgq_db) == []
    pgq_db.execute("alter table p alter v type text using upper(v)")
    maintain(pgq_db)
    assert rewritten(pgq_db) == ["public.p"]


@pytest.mark.parametrize(
    "tables",
    [
        "create table p (j1 int, j2 int, id int primary key, v text) partition by range (id);"
        "alter table p drop j1, drop j2;"
        "create table p1 partition of p for values from (0) to (100);",
        "create table p (id int primary key, v text) partition by range (id);"
        "create table p1 (j1 int, j2 int, id int not null, v text);"
        "alter table p1 drop j1, drop j2;"
        "alter table p attach partition p1 for values from (0) to (100);",
    ],
    ids=["the table has more numbers", "a partition has more numbers"],
)
def test_columns_of_partitions_have_numbers_of_their_own(pgq_db: Database, tables: str) -> None:
    make_root(pgq_db)
    pgq_db.execute(tables + "insert into p values (1, 'a')")
    assert ret(pgq_db, "londiste.local_add_table", "q", "p")[0] == 200
    assert rewritten(pgq_db) == []
    pgq_db.execute("alter table p add c int default 7")
    maintain(pgq_db)
    assert rewritten(pgq_db) == ["public.p"]
    assert ret(pgq_db, "londiste.accept_rewrite", "q", "p")[0] == 200
    assert rewritten(pgq_db) == []


def test_readers_may_ask_and_only_writers_accept(root: Database) -> None:
    root.execute("alter table t add c int default 7")
    for role, right in (("londiste_reader", False), ("londiste_writer", True)):
        assert root.value(
            "select has_function_privilege(%s, 'londiste.rewritten_tables(text)', 'execute')", role
        )
        accept = "londiste.accept_rewrite(text, text)"
        assert root.value("select has_function_privilege(%s, %s, 'execute')", role, accept) is right


def test_a_column_that_was_added_long_ago_may_get_the_name_of_another_one(root: Database) -> None:
    root.execute("alter table t add w text")
    maintain(root)
    root.execute("alter table t drop v; alter table t rename w to v")
    assert rewritten(root) == []
    maintain(root)
    assert rewritten(root) == []


def test_names_of_columns_are_stored_for_tables_of_an_older_release(root: Database) -> None:
    root.execute("update londiste.table_version set names = null")
    maintain(root)
    root.execute("alter table t drop v; alter table t add v text")
    assert rewritten(root) == ["public.t"]
