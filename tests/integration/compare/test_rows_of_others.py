"""Comparison and repair of a table that keeps rows of other tables: ``--dest-table``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.db.names import TableName
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.integration.compare.test_compare import damage
from tests.support.servers.kept_nodes import kept_nodes

TREE = """
create table p (id int primary key, v text) partition by range (id);
create table p_a partition of p for values from (0) to (100);
create table p_b partition of p for values from (100) to (200);
"""
ARCHIVE = "create table archive (id int primary key, v text)"


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=TREE)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=ARCHIVE)
    fill = "select i, 'v' || i from generate_series(1, 199) i"
    root.database.execute(f"insert into p {fill}")
    leaf.database.execute(f"insert into archive {fill}")
    leaf.database.execute("insert into archive values (-1, 'older')")
    line.add(root, "p_a", "p_b")
    line.tick()
    line.once(leaf)
    for name in ("p_a", "p_b"):
        add(line, leaf, name)
    return root, leaf


@pytest.fixture
def pair(line: Line) -> tuple[LineNode, LineNode]:
    """A root with two partitions, a leaf with one table for both, and an older row in it."""
    root, leaf = _pair(line)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    return root, leaf


def add(line: Line, leaf: LineNode, name: str) -> None:
    line.add(leaf, name, skip_truncate=True, dest=TableName.parse("public.archive"))


def answer(line: Line, node: LineNode, *args: str, code: int) -> dict[str, Any]:
    done = line.here(node, *args, "--json")
    assert done.code == code, str(done)
    found: dict[str, Any] = json.loads(done.out)
    return found


def test_tables_that_fill_one_table_are_compared_and_repaired_with_a_condition_only(
    line: Line, pair: tuple[LineNode, LineNode], tmp_path: Path
) -> None:
    _, leaf = pair
    damage(leaf, "update archive set v = 'damaged' where id = 7; insert into archive values (0)")
    for args in (["compare"], ["compare", "p_a"], ["repair", "p_a", "--apply"]):
        done = line.here(leaf, *args)
        assert done.code == 3, str(done)
        assert "error: table public.p_a (here public.archive): also filled from public.p_b" in (
            done.err
        )
        assert "hint: compare the other tables by name, or select the rows" in done.err
        assert "londiste compare public.p_a --where" in done.err
    assert leaf.database.value("select count(*) from archive") == 201
    mine = ["--where", "id between 0 and 99"]
    found = answer(line, leaf, "compare", "p_a", *mine, code=3)["tables"][0]
    assert [(row["kind"], row["key"]["id"]) for row in found["rows"]] == [
        ("extra", "0"),
        ("differs", "7"),
    ]
    plan = str(tmp_path / "fix.sql")
    assert line.here(leaf, "repair", "p_a", *mine, "--plan", plan).code == 3
    done = line.here(leaf, "repair", "--apply", "--plan", plan)
    assert (done.code, "equal now: public.p_a" in done.err) == (0, True), str(done)
    assert answer(line, leaf, "compare", "p_a", *mine, code=0)["equal"]
    assert leaf.database.value("select count(*) from archive where v like 'v%'") == 199
    assert leaf.database.value("select v from archive where id = -1") == "older"


def test_an_audit_does_not_call_rows_of_other_tables_different(
    line: Line, pair: tuple[LineNode, LineNode]
) -> None:
    _, leaf = pair
    remove = "select londiste.local_remove_table(%s, 'public.p_b')"
    leaf.database.execute(remove, QUEUE)
    damage(leaf, "update archive set v = 'damaged' where id = 7; delete from archive where id = 8")
    found = answer(line, leaf, "compare", "--continuous", "--once", "--share", "1", code=3)
    (table,) = found["tables"]
    assert sorted((one["kind"], one["key"]["id"]) for one in table["findings"]) == [
        ("differs", "7"),
        ("missing", "8"),
    ]
    # What is known of a table is no drift any more when another fills it too.
    add(line, leaf, "p_b")
    assert answer(line, leaf, "compare", "--status", code=0)["tables"] == []
    checked = json.loads(line.here(leaf, "status", "--check", "--json").out)["findings"]
    assert [one for one in checked if one["kind"] == "drift"] == []
    done = line.here(leaf, "compare", "--continuous", "--once")
    assert (done.code, "also filled from public.p_b" in done.err) == (3, True), str(done)


def test_a_repair_leaves_rows_alone_that_a_removed_table_has_put_there(
    line: Line, pair: tuple[LineNode, LineNode], tmp_path: Path
) -> None:
    _, leaf = pair
    leaf.database.execute("select londiste.local_remove_table(%s, 'public.p_b')", QUEUE)
    damage(leaf, "update archive set v = 'damaged' where id = 7; delete from archive where id = 8")
    done = line.here(leaf, "repair", "p_a", "--apply")
    assert done.code == 3, str(done)
    assert "wrote 2 rows" in done.err
    assert (
        "table public.p_a: 101 rows that the root does not have are left alone: the table keeps"
        " rows of others (skip_truncate)" in done.err
    )
    assert leaf.database.value("select count(*) from archive where v like 'v%'") == 199
    assert leaf.database.value("select v from archive where id = -1") == "older"
    found = answer(line, leaf, "repair", "p_a", code=3)
    assert (found["equal"], found["statements"]) == (False, [])
    # A plan from before the table was removed, or of an older version.
    plan = tmp_path / "fix.sql"
    where = "id = -1"
    assert line.here(leaf, "repair", "p_a", "--where", where, "--plan", str(plan)).code == 3
    plan.write_text(plan.read_text().replace(f', "where": "{where}"', ""))
    done = line.here(leaf, "repair", "--apply", "--plan", str(plan))
    assert done.code == 3
    assert f"error: {plan}: deletes rows of table public.p_a, which keeps rows" in done.err
    assert leaf.database.value("select v from archive where id = -1") == "older"
