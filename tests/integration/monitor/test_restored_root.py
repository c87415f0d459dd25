"""``check`` of a root that was restored elsewhere: its stored location leads to no database."""

from __future__ import annotations

from typing import Any

from tests.fixtures.cascade import CommandLine, Nodes


def test_a_restored_root_is_checked_and_told(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    root.db.execute("create table fruit (id int primary key); create table more (id int)")
    assert londiste(root.db, "add-table", "fruit").code == 0
    nodes_of.below(root, "leaf")
    # As after a restore: the name is another one, and the transaction ids are in the future.
    root.db.execute(
        "update pgq_node.node_location"
        " set node_location = replace(node_location, 'dbname=', 'dbname=gone_')"
    )
    root.db.execute("update pgq.tick set tick_snapshot = '1000000000:1000000000:'")
    for more in ((), ("--all-nodes",)):
        answer = londiste(root.db, "check", *more, "--json")
        assert answer.code == 2, answer.err
        assert answer.json["tables"] == 1
        found: dict[tuple[str, str], dict[str, Any]] = {
            (one["kind"], one["what"].partition(":")[0]): one for one in answer.json["findings"]
        }
        restored = found["restored", "node root" if more else "queue q"]
        assert (restored["severity"], "londiste queue rebase" in restored["do"]) == (
            "critical",
            True,
        )
        place = found["unreachable", "node root"]
        assert place["do"] == "londiste move-node root CONNECTION; before it: londiste queue rebase"
        assert "does not exist" in place["why"]
    assert londiste(root.db, "add-table", "more", "--whole-row").code == 0
