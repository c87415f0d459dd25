"""Another table with the name of a replicated one is noticed, on all nodes but the root."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_branch, make_leaf, make_root, ret
from tests.fixtures.restore import dump, restore

AGAIN = "drop table public.t; create table public.t (id int primary key, v text)"
SWAPPED = "alter table t rename to t_old; create table t (id int primary key, v text)"


@pytest.fixture(params=[make_leaf, make_branch])
def node(pgq_db: Database, request: pytest.FixtureRequest) -> Database:
    request.param(pgq_db)
    pgq_db.execute("create table t (id int primary key, v text)")
    keep(pgq_db, "t")
    return pgq_db


def keep(db: Database, table: str) -> None:
    assert ret(db, "londiste.global_add_table", "q", table)[0] == 200
    assert ret(db, "londiste.local_add_table", "q", table)[0] == 200
    db.execute("update londiste.table_info set merge_state = 'ok'")


def replaced(db: Database) -> list[object]:
    return [name for (name,) in db.execute("select table_name from londiste.replaced_tables('q')")]


def maintain(db: Database) -> None:
    db.execute("select londiste.periodic_maintenance()")


@pytest.mark.parametrize("ddl", [AGAIN, SWAPPED])
def test_another_table_is_noticed_at_once_until_a_copy_or_a_comparison(
    node: Database, ddl: str
) -> None:
    maintain(node)
    assert replaced(node) == []
    node.execute(ddl)
    assert replaced(node) == ["public.t"]
    since = "select since from londiste.replaced_tables('q')"
    maintain(node)
    noted = node.value(since)
    maintain(node)
    assert (replaced(node), node.value(since)) == (["public.t"], noted)
    # A worker that writes the state again changes nothing.
    node.execute("update londiste.table_info set merge_state = merge_state")
    assert replaced(node) == ["public.t"]
    assert ret(node, "londiste.accept_rewrite", "q", "t")[0] == 200
    assert replaced(node) == []
    node.execute(AGAIN)
    node.execute("update londiste.table_info set merge_state = 'in-copy'")
    assert replaced(node) == []
    node.execute("update londiste.table_info set merge_state = 'ok'")
    maintain(node)
    assert replaced(node) == []


@pytest.mark.parametrize(
    "ddl",
    [
        "vacuum full t",
        "set session_replication_role = replica; truncate t",
        "alter table t alter id type bigint",
        "alter table t rename to u; alter table u rename to t",
        "create schema s; alter table t set schema s",
        "drop table t",
    ],
)
def test_the_same_table_or_none_is_not_another_one(node: Database, ddl: str) -> None:
    node.execute(ddl)
    maintain(node)
    assert replaced(node) == []


def test_a_script_of_all_nodes_may_replace_a_table_and_hides_no_other_one(node: Database) -> None:
    def script(name: str) -> None:
        with node.connect() as conn, conn.transaction():
            args = ("q", name, AGAIN, False)
            conn.execute("select londiste.execute_start(%s, %s, %s, %s)", args)
            conn.execute(AGAIN.encode())
            conn.execute("select londiste.execute_finish('q', %s)", [name])

    script("one.sql")
    assert replaced(node) == []
    node.execute(AGAIN)
    script("two.sql")
    assert replaced(node) == ["public.t"]


def test_a_script_does_not_accept_what_another_session_does_before_it_ends(node: Database) -> None:
    node.execute(
        "create table m (id int primary key) partition by range (id);"
        "create table m2 partition of m for values from (10) to (20) partition by range (id);"
        "create table m3 partition of m2 for values from (10) to (20)"
    )
    keep(node, "m")
    with node.connect() as conn, conn.transaction():
        conn.execute("select londiste.execute_start('q', 'one.sql', 'select 1', false)")
        node.execute(f"set lock_timeout = '5s'; {AGAIN}")
        conn.execute("alter table public.m detach partition public.m2")
        conn.execute("select londiste.execute_finish('q', 'one.sql')")
    assert replaced(node) == ["public.t"]
    assert node.execute("select partition from londiste.detached_partitions('q')") == []


def test_partitioned_tables_have_an_identity_too(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    ddl = (
        "create table p (id int primary key, v text) partition by range (id);"
        "create table p1 partition of p for values from (0) to (100);"
    )
    pgq_db.execute(ddl)
    keep(pgq_db, "p")
    pgq_db.execute("create table p2 partition of p for values from (100) to (200); drop table p1")
    assert replaced(pgq_db) == []
    pgq_db.execute("drop table p;" + ddl)
    assert replaced(pgq_db) == ["public.p"]


def test_the_table_of_a_root_is_the_matter_of_its_capture(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute("create table t (id int primary key, v text)")
    assert ret(pgq_db, "londiste.local_add_table", "q", "t")[0] == 200
    pgq_db.execute(AGAIN)
    assert replaced(pgq_db) == []
    maintain(pgq_db)
    pgq_db.execute("update pgq_node.node_info set node_type = 'branch'")
    assert replaced(pgq_db) == []


def test_a_branch_that_becomes_the_root_takes_the_finding_along(pgq_db: Database) -> None:
    make_branch(pgq_db)
    pgq_db.execute("create table t (id int primary key, v text)")
    keep(pgq_db, "t")
    pgq_db.execute(AGAIN)
    maintain(pgq_db)
    pgq_db.execute("update pgq_node.node_info set node_type = 'root'")
    maintain(pgq_db)
    assert replaced(pgq_db) == ["public.t"]


def test_a_restored_database_has_the_same_tables_and_keeps_what_was_found(
    node: Database, new_database: Callable[..., Database]
) -> None:
    node.execute("create table w (id int primary key)")
    keep(node, "w")
    node.execute("drop table w; create table w (id int primary key)")
    maintain(node)
    assert replaced(node) == ["public.w"]
    other = new_database()
    # Not the same oids by chance.
    other.execute("create table first (id int); drop table first")
    restore(dump(node), other)
    relid = "select relid = 't'::regclass from londiste.table_version where table_name = 'public.t'"
    assert other.value(relid) is False
    assert replaced(other) == ["public.w"]
    maintain(other)
    assert other.value(relid) is True
    assert replaced(other) == ["public.w"]
    other.execute(AGAIN)
    assert replaced(other) == ["public.t", "public.w"]


def test_tables_of_an_older_release_are_known_from_their_first_maintenance_on(
    node: Database,
) -> None:
    node.execute("delete from londiste.table_version")
    maintain(node)
    node.execute(AGAIN)
    assert replaced(node) == ["public.t"]


def test_readers_may_ask(node: Database) -> None:
    assert node.value(
        "select has_function_privilege('londiste_reader', 'londiste.replaced_tables(text)',"
        " 'execute')"
    )
