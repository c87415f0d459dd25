"""The stored definition of a foreign key is one statement, whatever names are in it."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import sql

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_root


@pytest.mark.parametrize(
    "name",
    [
        "FOREIGN KEY(a)REFERENCES u;select proof()--",
        'k" FOREIGN KEY (a) REFERENCES u(id); select proof();--',
        "REFERENCES x(",
        " NOT VALID",
    ],
)
@pytest.mark.parametrize("of", ["key", "table", "column"])
def test_names_in_a_key_are_never_executed(pgq_db: Database, name: str, of: str) -> None:
    make_root(pgq_db)
    names = {"key": "k", "table": "t", "column": "c", of: name}
    key, table, column = (sql.Identifier(n) for n in names.values())
    pgq_db.execute("create table u (id int primary key)")
    with psycopg.connect(pgq_db.dsn, autocommit=True) as conn:
        conn.execute(
            "create function proof() returns void language sql as 'create table shown (id int)'"
        )
        conn.execute(sql.SQL("create table {} (id int primary key, {} int)").format(table, column))
        add = "alter table {} add constraint {} foreign key ({}) references {} (id)"
        conn.execute(sql.SQL(add).format(table, key, column, table))
        path, key_name = f"public.{names['table']}", names["key"]
        drop = "select londiste.drop_table_fkey(%s, %s)"
        assert conn.execute(drop, [path, key_name]).fetchone() == (1,)
        again = "select londiste.restore_table_fkey(%s, %s, true)"
        for _ in range(2):
            (statement,) = conn.execute(again, [path, key_name]).fetchone() or ("",)
            conn.execute(str(statement).encode())
        assert conn.execute(again, [path, key_name]).fetchone() == ("",)
    assert pgq_db.value("select to_regclass('public.shown')") is None
    found = "select conname, convalidated from pg_constraint where contype = 'f'"
    found += " and connamespace = 'public'::regnamespace"
    assert pgq_db.execute(found) == [(key_name, True)]


@pytest.mark.parametrize(
    "stored",
    [
        "select proof()",
        "ALTER TABLE ONLY u ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES t(id); select proof()",
        "ALTER TABLE ONLY u ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES t(id) -- ",
        "ALTER TABLE ONLY u ADD CONSTRAINT k CHECK (proof())",
    ],
)
def test_a_stored_text_that_is_no_key_is_refused(pgq_db: Database, stored: str) -> None:
    make_root(pgq_db)
    insert = "insert into londiste.pending_fkeys values ('public.u', 'public.t', 'k', %s)"
    pgq_db.execute(insert, stored)
    for lazy in ("true", "false"):
        with pytest.raises(psycopg.Error, match="is not one ALTER TABLE"):
            pgq_db.execute(f"select londiste.restore_table_fkey('public.u', 'k', {lazy})")
