"""Comparing and repairing tables whose keys have types of extensions, domains or ``regclass``."""

from __future__ import annotations

import json
from collections.abc import Callable

import psycopg
import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cluster import Server
from tests.fixtures.line import Line, LineNode
from tests.integration.compare.test_compare import damage
from tests.support.suite.slow import first

EXTENSIONS = """
create schema "ext ""s";
create extension ltree schema "ext ""s";
create extension hstore;
create extension cube;
create extension isn;
create extension citext;
create extension seg;
create domain tree as "ext ""s".ltree;
"""
TYPES = """
create type mood as enum ('sad', 'ok');
create domain feeling as mood;
create domain deeper as feeling;
create type pair as (a int, m mood);
create domain dpair as pair;
create domain numbers as int[];
create domain span as int4range;
create type texts as range (subtype = text);
create domain code as char(4);
"""
#: Two values of each type.
OF_EXTENSIONS = {
    '"ext ""s".ltree': ("a.b", "a.c"),
    "tree": ("a.b", "a.c"),
    "hstore": ("a=>1", "b=>1"),
    "cube": ("(1,2)", "(3,4)"),
    "isbn": ("978-0-393-04002-9", "1-56619-909-3"),
    "citext": ("aB", "c"),
    "citext[]": ("{aB}", "{c}"),
    "seg": ("1 .. 2", "3"),
}
KEYS = {
    "feeling": ("sad", "ok"),
    "feeling[]": ("{sad}", "{ok}"),
    "deeper": ("sad", "ok"),
    "dpair": ("(1,sad)", "(2,ok)"),
    "numbers": ("{1}", "{2}"),
    "span": ("[1,2)", "empty"),
    "texts": ("[a,b)", "[x,y)"),
    "code": ("a", "ab"),
    "regclass": ("-", "pg_class"),
    "regproc": ("-", "now"),
}


def _node(
    line: Line, name: str, above: LineNode | None, schema: str, on: Server | None
) -> LineNode:
    """A node with the schema.  Skips where the server has no contrib modules."""
    kind = NodeType.ROOT if above is None else NodeType.LEAF
    try:
        return line.node(name, kind, above, on=on, schema=schema)
    except psycopg.errors.FeatureNotSupported as error:
        pytest.skip(f"no contrib modules here: {error}")


@pytest.mark.parametrize("extensions", first([True, False]))
def test_damaged_rows_are_found_and_repaired(
    line: Line, server_of: Callable[[int], Server], extensions: bool
) -> None:
    keys = {**KEYS, **(OF_EXTENSIONS if extensions else {})}
    schema = (EXTENSIONS if extensions else "") + TYPES
    schema += "".join(
        f"create table t{n} (k1 {kind}, k0 int, v text, primary key (k0, k1));"
        f" create table u{n} (id {kind} primary key, v text);"
        for n, kind in enumerate(keys)
    )
    fill = "".join(
        f"insert into t{n} values ('{one}', 1, 'x'), ('{two}', 1, 'y');"
        f" insert into u{n} values ('{one}', 'x'), ('{two}', 'y');"
        for n, (one, two) in enumerate(keys.values())
    )
    root = _node(line, "root", None, schema, server_of(17) if extensions else None)
    leaf = _node(line, "leaf", root, schema, server_of(15) if extensions else None)
    tables = [f"{letter}{n}" for n in range(len(keys)) for letter in "tu"]
    for node in (root, leaf):
        node.database.execute(fill)
        line.add(node, *tables, insert_only=True, expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    for table in tables:
        damage(leaf, f"update {table} set v = 'damaged' where v = 'x'")
    damage(leaf, "delete from t0 where v = 'y'; insert into t1 values ('{sad,ok}', 1, 'more')")
    done = line.here(leaf, "compare", "--json")
    assert done.code == 3, str(done)
    kinds = {
        table["table"].removeprefix("public."): sorted(row["kind"] for row in table["rows"])
        for table in json.loads(done.out)["tables"]
    }
    expected = {table: ["differs"] for table in tables}
    assert kinds == {**expected, "t0": ["differs", "missing"], "t1": ["differs", "extra"]}
    plan = line.directory / "plan.sql"
    assert line.here(leaf, "repair", "--plan", str(plan)).code in (0, 3)
    done = line.here(leaf, "repair", "--apply", "--plan", str(plan))
    assert done.code == 0, str(done)
    assert line.here(leaf, "compare").code == 0


def test_a_key_of_an_extension_is_found_by_its_index(
    line: Line, server_of: Callable[[int], Server]
) -> None:
    """Without the operator of the type each row would be a scan of the table."""
    schema = "create extension ltree; create table t (id ltree primary key, v text)"
    root = _node(line, "root", None, schema, server_of(17))
    leaf = _node(line, "leaf", root, schema, server_of(17))
    fill = (
        "insert into t select ('a.n' || i)::ltree, 'x' from generate_series(1, 5000) i; analyze t"
    )
    for node in (root, leaf):
        node.database.execute(fill)
        line.add(node, "t", insert_only=True, expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    damage(leaf, "update t set v = 'damaged' where id = 'a.n7'")
    plan = line.directory / "plan.sql"
    line.here(leaf, "repair", "--plan", str(plan))
    (statement,) = [s for s in plan.read_text().splitlines() if s.startswith("update")]
    leaf.database.execute("set search_path = pg_catalog")
    explained = leaf.database.execute(f"explain {statement}")
    assert any("Index" in row[0] for row in explained), explained


#: json has no order; this one names its equality in its own way.
ODD = """
create function cmp(json, json) returns int immutable language sql
    return case when $1::text < $2::text then -1 when $1::text = $2::text then 0 else 1 end;
create function lt(json, json) returns bool immutable language sql return cmp($1, $2) < 0;
create function le(json, json) returns bool immutable language sql return cmp($1, $2) <= 0;
create function eq(json, json) returns bool immutable language sql return cmp($1, $2) = 0;
create function ge(json, json) returns bool immutable language sql return cmp($1, $2) >= 0;
create function gt(json, json) returns bool immutable language sql return cmp($1, $2) > 0;
create operator ~< (leftarg = json, rightarg = json, function = lt);
create operator ~<= (leftarg = json, rightarg = json, function = le);
create operator ~= (leftarg = json, rightarg = json, function = eq);
create operator ~>= (leftarg = json, rightarg = json, function = ge);
create operator ~> (leftarg = json, rightarg = json, function = gt);
create operator class odd default for type json using btree as operator 1 ~<, operator 2 ~<=,
    operator 3 ~=, operator 4 ~>=, operator 5 ~>, function 1 cmp(json, json);
create table a (id json primary key, v text);
create table b (id int primary key, v text);
"""


@pytest.mark.slow
def test_a_table_that_cannot_be_compared_does_not_stop_the_others(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=ODD)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=ODD)
    for node in (root, leaf):
        node.database.execute("insert into a values ('1', 'x'); insert into b values (1, 'x')")
        line.add(node, "a", "b", insert_only=True, expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    damage(leaf, "update a set v = 'damaged'; update b set v = 'damaged'")
    for command in (["compare"], ["compare", "--continuous", "--once", "--share", "1"]):
        done = line.here(leaf, *command)
        assert done.code == 1, str(done)
        assert "table public.a; the other tables were compared" in done.err
        assert "operator does not exist" in done.err
        # The error names the side by its host and database.
        assert "libpq cannot read" not in done.err
    assert "public.b differs: id='1'" in line.here(leaf, "compare").err
    done = line.here(leaf, "compare", "--status", "--json")
    audited = {one["table"]: one for one in json.loads(done.out)["tables"]}
    assert audited["public.b"]["differing"] == 1
    assert audited["public.a"]["compared"] == 0


@pytest.mark.slow
def test_a_table_that_is_missing_here_does_not_stop_the_others(line: Line) -> None:
    schema = "create table a (id int primary key); create table b (id int primary key, v text)"
    root = line.node("root", NodeType.ROOT, schema=schema)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=schema)
    for node in (root, leaf):
        node.database.execute("insert into b values (1, 'x')")
        line.add(node, "a", "b", insert_only=True, expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    damage(leaf, "alter table a rename to elsewhere; update b set v = 'damaged'")
    done = line.here(leaf, "compare")
    assert done.code == 2, str(done)
    assert "public.b differs: id='1'" in done.err
    assert "error: table public.a does not exist on this node" in done.err
    document = json.loads(line.here(leaf, "compare", "--json").out)
    assert [one["table"] for one in document["tables"]] == ["public.b"]
    assert [one["table"] for one in document["failed"]] == ["public.a"]
