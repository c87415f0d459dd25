"""Removing a table during its copy: rows of the copy go, all others stay."""

from __future__ import annotations

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf, ret

ADD = "londiste.local_add_table"


@pytest.fixture
def leaf(pgq_db: Database) -> Database:
    make_leaf(pgq_db)
    pgq_db.execute("create table t (id int primary key, v text)")
    return pgq_db


def test_removing_a_copying_table_empties_and_restores_it(leaf: Database) -> None:
    leaf.execute("create table mine (id int, v text)")
    ret(leaf, "londiste.global_add_table", "q", "t")
    leaf.execute("alter table mine add primary key (id)")
    ret(leaf, ADD, "q", "t", [], None, "mine")
    leaf.execute("alter table mine drop constraint mine_pkey")
    state = "londiste.local_set_table_state"
    struct = "londiste.local_set_table_struct"
    assert ret(leaf, state, "q", "public.t", None, "in-copy")[0] == 200
    ddl = "alter table public.mine add constraint mine_pkey primary key (id)"
    assert ret(leaf, struct, "q", "public.t", ddl)[0] == 200
    with pytest.raises(psycopg.errors.CheckViolation):
        ret(leaf, state, "q", "public.t", None, "ok")
    leaf.execute("set session_replication_role = replica; insert into mine values (1, 'x')")
    assert ret(leaf, "londiste.local_remove_table", "q", "t")[0] == 200
    assert leaf.value("select count(*) from mine") == 0
    assert leaf.value("select londiste.find_column_types('mine')") == "kv"


def chunk(db: Database, words: list[str], rows: str) -> None:
    """A copy of mine that has written one chunk, of these rows, and was killed."""
    ret(db, "londiste.global_add_table", "q", "t")
    assert ret(db, ADD, "q", "t", words, None, "mine")[0] == 200
    ret(db, "londiste.local_set_table_state", "q", "public.t", None, "in-copy")
    db.execute(
        f"""
        begin;
        set local session_replication_role = replica;
        select londiste.copy_chunk_start('q', 'public.t', londiste.copy_start('q', 'public.t'), 0);
        insert into mine {rows};
        commit;
        """
    )


MINE = {
    "plain": "create table mine (id int primary key, v text)",
    "partitioned": """
        create table mine (id int primary key, v text) partition by range (id);
        create table mine_1 partition of mine for values from (0) to (100)
        """,
}


@pytest.mark.parametrize("shape", list(MINE))
@pytest.mark.parametrize("state", ["in-copy", None])
def test_rows_of_killed_chunks_go_where_nothing_is_to_be_restored(
    leaf: Database, shape: str, state: str | None
) -> None:
    leaf.execute(MINE[shape])
    chunk(leaf, [], "values (1, 'x')")
    ret(leaf, "londiste.local_set_table_state", "q", "public.t", None, state)
    assert ret(leaf, "londiste.local_remove_table", "q", "t")[0] == 200
    assert leaf.value("select count(*) from mine") == 0
    for table in ("copy_attempt", "copy_chunk"):
        assert leaf.value(f"select count(*) from londiste.{table}") == 0


@pytest.mark.parametrize("shape", list(MINE))
def test_rows_of_others_stay_when_those_of_killed_chunks_go(leaf: Database, shape: str) -> None:
    leaf.execute(MINE[shape])
    leaf.execute("insert into mine values (2, 'before')")
    chunk(leaf, ["skip_truncate"], "values (1, 'x')")
    assert ret(leaf, "londiste.local_remove_table", "q", "t")[0] == 200
    assert leaf.execute("select id from mine") == [(2,)]


def test_rows_stay_until_a_copy_has_written_a_chunk(leaf: Database) -> None:
    leaf.execute("insert into t values (1, 'before')")
    ret(leaf, "londiste.global_add_table", "q", "t")
    ret(leaf, ADD, "q", "t")
    ret(leaf, "londiste.local_set_table_state", "q", "public.t", None, "in-copy")
    leaf.execute("select londiste.copy_start('q', 'public.t')")
    assert ret(leaf, "londiste.local_remove_table", "q", "t")[0] == 200
    assert leaf.execute("select id from t") == [(1,)]
