"""``londiste missing`` lists every table, with the reason if it cannot be replicated."""

from __future__ import annotations

from tests.fixtures.cascade import CommandLine, Nodes


def test_tables_that_cannot_be_replicated_are_listed_with_why(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    root.db.execute(
        'create schema "a.b"; create table "a.b".t (id int primary key); create sequence "a.b".s;'
        "create unlogged table fast (id int primary key);"
        'create table "dot.ted" (id int primary key);'
        "create table m (id int primary key) partition by range (id);"
        "create table m_1 partition of m for values from (0) to (10)"
    )
    rows = londiste(root.db, "missing", "--json").json["missing"]
    fine = {row["name"] for row in rows if row["why"] is None}
    assert fine == {"public.dot.ted", "public.m"}
    odd = {(row["kind"], row["name"]): row["why"] for row in rows if row["why"]}
    assert odd.keys() == {("table", "a.b.t"), ("sequence", "a.b.s"), ("table", "public.fast")}
    assert "its schema has a dot" in odd["table", "a.b.t"]
    assert "unlogged" in odd["table", "public.fast"]
    assert "a.b.t" in londiste(root.db, "missing").out

    refused = londiste(root.db, "add-table", "a.b.t")
    assert refused.code == 2
    assert "its schema has a dot in its name" in refused.err
    assert 'alter schema "a.b" rename to' in refused.err
    # What is said of all of them is so.
    assert londiste(root.db, "add-table", "--all").code == 0
    assert [r["name"] for r in londiste(root.db, "missing", "--json").json["missing"]] == [
        "a.b.t",
        "public.fast",
        "a.b.s",
    ]
    root.db.execute('insert into m values (3); insert into "dot.ted" values (4)')
    told = root.db.execute(
        "select distinct ev_extra1 from pgq.event_template where ev_extra1 is not null order by 1"
    )
    assert told == [("public.dot.ted",), ("public.m",)]
    root.db.execute('alter schema "a.b" rename to ab')
    assert londiste(root.db, "add-table", "ab.t").code == 0
