"""The owner of a database chooses its path; statements that Londiste stored are not read by it."""

from __future__ import annotations

import pytest

from londiste.copy.chunking.blocks import split
from londiste.copy.prepare import prepare
from londiste.copy.restore import restore
from londiste.db.connection import Connection
from londiste.db.ddl import run_stored
from londiste.db.names import TableName
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf, ret
from tests.fixtures.owners import OWNER, as_owner, make_scene, proof

TABLE = TableName("public", "t")

#: A function and operators of the server, and the same ones of the owner, which his path finds.
_TABLE = """
    create table public.t (id int8 primary key, v text, n int4, tags text[]);
    create index t_lower on public.t (lower(v));
    create index t_tags on public.t (cardinality(tags));
    create index t_part on public.t (n) where n > 5 and v <> 'x';
"""
_TRAP = """
    create schema evil;
    create function evil.act() returns void language plpgsql as $t$
    begin
        insert into vault.proof values ('act');
    exception when insufficient_privilege then
        null;
    end $t$;
    create function evil.lower(text) returns text language plpgsql immutable as
        'begin perform evil.act(); return pg_catalog.lower($1); end';
    -- It fits better than that of the server, which takes any array.
    create function evil.cardinality(text[]) returns int4 language plpgsql immutable as
        'begin perform evil.act(); return pg_catalog.cardinality($1); end';
    create function evil.differs(text, text) returns boolean language plpgsql immutable as
        'begin perform evil.act(); return $1 operator(pg_catalog.<>) $2; end';
    create function evil.above(int4, int4) returns boolean language plpgsql immutable as
        'begin perform evil.act(); return $1 operator(pg_catalog.>) $2; end';
    create operator evil.<> (leftarg = text, rightarg = text, function = evil.differs);
    create operator evil.> (leftarg = int4, rightarg = int4, function = evil.above);
    grant usage on schema evil to public;
    alter database {name} set search_path = evil, pg_catalog, public
"""
_INDEXES = """
    select array_agg(pg_catalog.pg_get_indexdef(indexrelid) order by indexrelid::regclass::text)
    from pg_catalog.pg_index where indrelid = 'public.t'::regclass
"""


@pytest.fixture
def leaf(pgq_db: Database) -> Database:
    """A leaf with a table that is being copied, in a database of the role."""
    make_scene(pgq_db)
    pgq_db.execute(_TABLE)
    make_leaf(pgq_db)
    with pgq_db.connect() as conn:
        tables.global_add_table(conn, "q", TABLE)
        tables.add_table(conn, "q", TABLE)
        tables.local_set_table_state(conn, "q", TABLE, None, "in-copy")
    pgq_db.execute(f"alter database {pgq_db.name} owner to {OWNER}")
    as_owner(pgq_db, _TRAP.format(name=pgq_db.name))
    return pgq_db


def registered(conn: Connection) -> ReplicatedTable:
    (table,) = tables.get_table_list(conn, "q")
    return table


def indexes(db: Database) -> object:
    return db.value(_INDEXES)


def prepared(db: Database) -> Connection:
    """A session in which the indexes are stored; then a row is written as a copy does."""
    conn = db.connect(replica=True)
    prepare(
        conn, "q", registered(conn), split(TABLE, pages=1, total_bytes=8192, chunk_bytes=1 << 20)
    )
    with conn.transaction():
        conn.execute("insert into public.t values (1, 'A', 7)")
    return conn


def test_indexes_of_a_copy_are_not_built_with_functions_of_the_path(leaf: Database) -> None:
    before = indexes(leaf)
    conn = prepared(leaf)
    assert restore(conn, "q", registered(conn))
    assert proof(leaf) == []
    assert indexes(leaf) == before


def test_remove_table_does_not_build_indexes_with_functions_of_the_path(leaf: Database) -> None:
    before = indexes(leaf)
    conn = prepared(leaf)
    # Rows that stay are those for which functions of an index run.
    leaf.execute("update londiste.table_info set table_attrs = 'skip_truncate=1'")
    assert ret(leaf, "londiste.local_remove_table", "q", "public.t")[0] == 200
    assert leaf.value("select count(*) from public.t") == 1
    assert proof(leaf) == []
    assert indexes(leaf) == before
    conn.close()


#: As Londiste 3 stores it: without a schema that was in the path of its session.
_UNMARKED = "create index t_lower on t (lower(v)); create index t_part on t (n) where n > 5"


@pytest.mark.parametrize("removed", [False, True], ids=["restored", "removed"])
def test_names_without_schema_are_those_of_the_server_before_those_of_the_path(
    leaf: Database, removed: bool
) -> None:
    leaf.execute(
        "drop index public.t_lower, public.t_part, public.t_tags;"
        " set session_replication_role = replica; insert into public.t values (1, 'A', 7)"
    )
    leaf.execute("update londiste.table_info set table_attrs = 'skip_truncate=1'")
    with leaf.connect(autocommit=True) as conn:
        ret(leaf, "londiste.local_set_table_struct", "q", "public.t", _UNMARKED)
        if removed:
            assert ret(leaf, "londiste.local_remove_table", "q", "public.t")[0] == 200
        else:
            assert restore(conn, "q", registered(conn))
    assert leaf.value("select count(*) from pg_index where indrelid = 'public.t'::regclass") == 3
    assert proof(leaf) == []


@pytest.mark.parametrize("path", ["''", '"$user"', "default", "public, evil"])
def test_any_path_of_the_database_can_be_used(leaf: Database, path: str) -> None:
    leaf.execute(f"alter database {leaf.name} set search_path to {path}")
    with leaf.connect(autocommit=True) as conn, conn.transaction():
        run_stored(conn, "create index again on public.t (lower(v))")
        assert conn.execute("show search_path").fetchone() == ("pg_catalog, pg_temp",)
    assert proof(leaf) == []
