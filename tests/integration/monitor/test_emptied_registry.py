"""A node that has lost its list of tables is told: none of its tables is replicated any more."""

from __future__ import annotations

from typing import Any

from tests.fixtures.cascade import CommandLine, Node, Nodes


def found(node: Node, londiste: CommandLine, *command: str) -> list[dict[str, Any]]:
    findings = londiste(node.db, *command, "--json").json["findings"]
    return [one for one in findings if one["kind"] == "no-tables"]


def test_a_node_that_lost_its_tables_is_told(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    looks = (("status", "--check"), ("check", "--all-nodes"))
    for node in (root, leaf):
        node.db.execute("create table fruit (id int primary key)")
        # Not on the leaf yet, whose worker does not run.
        assert [found(leaf, londiste, *look) for look in looks] == [[], []]
        assert londiste(node.db, "add-table", "fruit", "--expect-sync").code == 0
    assert [found(leaf, londiste, *look) for look in looks] == [[], []]
    leaf.db.execute("delete from londiste.table_info")
    for look in looks:
        [one] = found(leaf, londiste, *look)
        assert one["severity"] == "warning"
        assert one["what"].startswith("node leaf: ")
    assert "with the settings of leaf: londiste add-table --all" in one["do"]
    londiste(leaf.db, "add-table", "--all")
    assert [found(leaf, londiste, *look) for look in looks] == [[], []]
    londiste(root.db, "remove-table", "fruit")
    leaf.db.execute("delete from londiste.table_info")
    assert [found(leaf, londiste, *look) for look in looks] == [[], []]
