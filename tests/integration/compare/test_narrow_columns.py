"""Columns that are shorter on the node: values are neither called equal nor cut."""

from __future__ import annotations

import json
from typing import Any

from londiste.cascade.model import NodeType
from londiste.db.names import TableName
from londiste.replication.commands import columns
from tests.fixtures.line import QUEUE, Command, Line, LineNode
from tests.integration.compare.test_compare import damage

#: By table: type on the root, type on the node, a value, what the node has of it, one that fits.
TYPES = {
    "c": ("char(10)", "char(5)", "'abcdefgh'", "'abcde'", "'abc'"),
    "b": ("bit(10)", "bit(5)", "b'1010101010'", "b'10101'", None),
    "v": ("varchar(10)", "varchar(5)", "'abcdefgh'", "'abcde'", "'abc'"),
    "vb": ("varbit(10)", "varbit(5)", "b'10101010'", "b'10101'", "b'101'"),
    "va": ("varchar(10)[]", "varchar(5)[]", "'{abcdefgh}'", "'{abcde}'", "'{abc,NULL}'"),
    "ca": ("char(10)[]", "char(5)[]", "'{abcdefgh}'", "'{abcde}'", "'{abc,NULL}'"),
    "ba": ("bit(10)[]", "bit(5)[]", "'{1010101010}'", "'{10101}'", "'{}'"),
    "t": ("text", "char(5)", "'abcdefgh'", "'abcde'", "'abc'"),
    "d": ("text", "short", "'abcdefgh'", "'abcde'", "'abc'"),
}


def pair(line: Line) -> tuple[LineNode, LineNode]:
    """A root with values that do not fit in row 1, and what a cast made of them on the leaf."""
    sides = []
    for number, kind in enumerate((NodeType.ROOT, NodeType.LEAF)):
        made = "create domain short as varchar(5);"
        for name, types in TYPES.items():
            made += f"create table {name} (id int primary key, x {types[number]});"
            made += f"insert into {name} values (1, {types[2 + number]});"
            if types[4]:
                made += f"insert into {name} values (2, {types[4]}), (3, null);"
        sides.append(line.node(kind.value, kind, sides[0] if sides else None, schema=made))
        line.add(sides[-1], *TYPES, expect_sync=True)
    line.start(sides[1])
    line.wait_position(sides[1], line.tick())
    return sides[0], sides[1]


def test_a_value_that_does_not_fit_differs_and_is_not_cut(line: Line, command: Command) -> None:
    _, leaf = pair(line)
    done = command(leaf, "compare", "--json")
    assert done.code == 3, str(done)
    found: dict[str, list[dict[str, Any]]] = {
        one["table"].removeprefix("public."): one["rows"] for one in json.loads(done.out)["tables"]
    }
    assert {name: [row["key"]["id"] for row in rows] for name, rows in found.items()} == {
        name: ["1"] for name in TYPES
    }
    # One of a type, of a cast by assignment, of an array, of a domain.
    for name in ("b", "t", "va", "d"):
        kind = TYPES[name][1]
        before = leaf.database.execute(f"select * from {name} order by id")
        done = command(leaf, "repair", name, "--apply")
        assert done.code == 3, str(done)
        error = next(one for one in done.err.splitlines() if one.startswith("error:"))
        assert f"error: table public.{name}: a value of the root is too long for column x" in error
        assert "varying(5)" in error if kind == "short" else "(5)" in error
        assert "abc" not in error
        assert leaf.database.execute(f"select * from {name} order by id") == before
    for name in TYPES:
        damage(leaf, f"delete from {name} where id > 1")
    assert command(leaf, "repair", "--where", "id > 1", "--apply").code == 0
    for name in TYPES:
        assert leaf.database.value(f"select count(*) from {name}") == (3 if TYPES[name][4] else 1)


#: Type on the root, type below the domain on the node, a value, what the node stores of it.
DOMAINS = {
    "n": ("numeric", "numeric(5,2)", "2.345", "2.35"),
    "s": ("timestamp", "timestamp(0)", "'2026-01-01 10:00:00.7'", "'2026-01-01 10:00:01'"),
    "t": ("text", "char(3)", "'a'", "'a  '"),
}


def test_a_domain_is_compared_as_the_type_below_it(line: Line) -> None:
    sides = []
    for number, kind in enumerate((NodeType.ROOT, NodeType.LEAF)):
        made = ""
        for name, types in DOMAINS.items():
            made += f"create domain d_{name} as {types[1]};"
            of = types[0] if number == 0 else f"d_{name}"
            made += f"create table {name} (id int primary key, x {of});"
            made += f"insert into {name} values (1, {types[2 + number]}), (2, null);"
        sides.append(line.node(kind.value, kind, sides[0] if sides else None, schema=made))
        line.add(sides[-1], *DOMAINS, expect_sync=True)
    leaf = sides[1]
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    done = line.here(leaf, "compare")
    assert done.code == 0, str(done)
    leaf.database.execute("set session_replication_role = replica; update n set x = 2.36")
    done = line.here(leaf, "compare", "n")
    assert done.code == 3, str(done)


def test_a_column_that_is_generated_here_alone_is_named_with_what_stores_it(
    line: Line, command: Command
) -> None:
    root = line.node("root", NodeType.ROOT, schema="create table g (id int primary key, a int)")
    leaf = line.node(
        "leaf",
        NodeType.LEAF,
        root,
        schema="create table g (id int primary key, a int generated always as (id * 2) stored)",
    )
    root.database.execute("insert into g values (1, 7)")
    leaf.database.execute("insert into g values (1)")
    for node in (root, leaf):
        line.add(node, "g", expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    done = command(leaf, "columns", "g")
    assert done.code == 3 and "generated here" in done.out
    with leaf.database.connect() as here, root.database.connect() as there:
        assert columns.lacking(here, there, QUEUE) == {TableName("public", "g"): ["a"]}
    added = command(leaf, "columns", "g", "--add")
    assert added.code == 0, str(added)
    done = command(leaf, "compare", "g")
    assert done.code == 3, str(done)
    hint = done.err.partition("not compared: a; in psql on this node: ")[2]
    assert f"lost in columns that are generated here: a; in psql on this node: {hint}" in added.err
    statement, _, commands = hint.splitlines()[0].partition("; then: londiste ")
    assert commands.split()[-2:] == ["resync", "public.g"]
    leaf.database.execute(statement)
    assert command(leaf, "columns", "g").code == 0
    (row,) = json.loads(command(leaf, "compare", "g", "--json").out)["tables"]
    assert row["rows"][0]["columns"] == {"a": {"root": "7", "here": "2"}}
