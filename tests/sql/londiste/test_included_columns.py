"""Columns that the index of a key only includes are not of the key."""

from __future__ import annotations

from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.db.relation import shapes
from londiste.monitor.doctor import collect
from tests.fixtures.cluster import Database


def test_columns_that_an_index_includes_are_not_of_the_key(pgq_db: Database) -> None:
    pgq_db.execute(
        "create table k (note text, b int, v text, a int, primary key (b, a) include (note));"
        "create table u (code int not null, note text, unique (code) include (note))"
    )
    assert pgq_db.value("select londiste.find_column_types('k')") == "vkvk"
    with pgq_db.connect() as conn:
        shape = shapes(conn, [TableName("public", "k")])[TableName("public", "k")]
        assert set(shape.key) == {"a", "b"}
        told = conn.execute(query("sample_columns"), {"table": "public.k"}).fetchall()
        assert [name for name, _, of_key in told if of_key] == ["b", "a"]
        found = {table.name.name: table for table in collect.tables(conn)}
    assert found["k"].key == ("b", "a")
    assert found["u"].unique_key is not None
    assert found["u"].unique_key["columns"] == ["code"]
