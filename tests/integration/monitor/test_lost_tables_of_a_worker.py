"""Tables of a leaf that its worker has copied, in a database without a ticker."""

from __future__ import annotations

from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Command, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

DDL = "create table {} (id int primary key, v text);"
#: Of the leaf: none is forgotten, and none is too many.
ORPHANS = """
    select count(*) from (
        select queue_name, table_name from londiste.table_version
        union all select queue_name, table_name from londiste.copy_step
    ) as of_table
    where (queue_name, table_name) not in (select queue_name, table_name from londiste.table_info)
"""


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    schema = DDL.format("t") + DDL.format("c")
    root = line.node("root", NodeType.ROOT, schema=schema)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=schema)
    for name in ("t", "c"):
        root.database.execute(f"insert into {name} select i, 'old' from generate_series(1, 5) i")
    line.add(root, "t", "c")
    line.add(leaf, "t", "c", expect_sync=False)
    return root, leaf


@pytest.fixture
def leaf(line: Line) -> LineNode:
    _, leaf = _pair(line)
    line.start(leaf)
    in_sync(line, leaf, 2)
    return leaf


def in_sync(line: Line, leaf: LineNode, tables: int) -> None:
    count = "select count(*) from londiste.table_info where merge_state = 'ok'"

    def reached() -> bool:
        line.tick()
        return bool(leaf.database.value(count) == tables)

    line.wait(reached, f"{tables} tables in sync")


def kinds(node: LineNode, command: Command, *args: str) -> dict[str, str]:
    """Kinds of findings about the tables, and what each is about."""
    found: list[dict[str, Any]] = command(node, *args, "--json").json["findings"]
    ours = {"table-replaced", "rewritten"}
    return {one["kind"]: one["what"] for one in found if one["kind"] in ours}


@pytest.mark.slow
def test_a_table_made_again_and_a_rewritten_one_are_found(
    line: Line, leaf: LineNode, command: Command
) -> None:
    looks = (("check",), ("status", "--check"))
    for look in looks:
        assert kinds(leaf, command, *look) == {}
    leaf.database.execute("drop table t;" + DDL.format("t"))
    leaf.database.execute("alter table c drop column v, add column v text")
    for look in looks:
        found = kinds(leaf, command, *look)
        assert sorted(found) == ["rewritten", "table-replaced"]
        assert "table public.t" in found["table-replaced"]
        assert "table public.c" in found["rewritten"]
    assert command(leaf, "status", "--check").code == 2
    assert kinds(line.nodes["root"], command, "check", "--all-nodes") == kinds(
        leaf, command, "check"
    )


def test_a_table_that_the_worker_removes_leaves_nothing_behind(
    line: Line, leaf: LineNode, command: Command
) -> None:
    assert leaf.database.value("select count(*) from londiste.table_version") == 2
    assert command(line.nodes["root"], "remove-table", "t").code == 0
    in_sync(line, leaf, 1)
    assert leaf.database.value(ORPHANS) == 0


def test_two_tables_that_change_names_are_found_and_the_finding_mends_them(
    line: Line, leaf: LineNode, command: Command
) -> None:
    root = line.nodes["root"]
    leaf.database.execute(
        "begin; alter table t rename to z; alter table c rename to t; alter table z rename to c;"
        " commit"
    )
    root.database.execute("insert into t values (10, 't'); insert into c values (10, 'c')")
    line.tick()
    line.wait(lambda: "is not the table that was copied" in (line.error(leaf) or ""), "the halt")
    found = command(leaf, "check", "--json").json["findings"]
    mends = {
        one["what"].partition("table ")[2].split()[0]: one["do"]
        for one in found
        if one["kind"] == "table-replaced"
    }
    assert set(mends) == {"public.t", "public.c"}
    for name, do in mends.items():
        assert f"londiste resync {name} where it differs" in do
        assert command(leaf, "resync", name).code == 0
    in_sync(line, leaf, 2)
    for name in ("t", "c"):
        rows = f"select id, v from {name} order by id"
        assert leaf.database.execute(rows) == root.database.execute(rows)
    assert kinds(leaf, command, "check") == {}


def test_harmless_changes_of_a_leaf_are_noted_by_its_worker(
    line: Line, leaf: LineNode, command: Command
) -> None:
    assert leaf.worker is not None
    leaf.worker.stop()
    line.nodes["root"].database.execute("truncate t")
    line.tick()
    # Each one at its start.
    for _ in range(2):
        line.once(leaf)
    leaf.database.execute("alter table t add w text")
    assert kinds(leaf, command, "check") == {}
