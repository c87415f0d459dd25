"""A root or branch whose queue was lost, by a restore or by hand, is told with what to type."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import CommandLine, Node, Nodes


def lose_queue(node: Node) -> None:
    node.db.execute(
        "set session_replication_role = replica; drop table pgq.event_1 cascade;"
        " drop sequence pgq.event_1_way; delete from pgq.queue"
    )


def remedy(node: Node, londiste: CommandLine) -> str:
    """What check says, of which status says the same."""
    errors = londiste(node.db, "check", "--json").json["findings"]
    (found,) = (one for one in errors if one["kind"] == "error")
    assert found["severity"] == "critical"
    assert found["what"] == f"node {node.name}: queue q is stopped"
    assert f"ERR: queue q: {found['why']}" in londiste(node.db, "status").out
    return str(found["do"])


def test_a_node_without_its_queue_is_dropped(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    lose_queue(branch)
    do = remedy(branch, londiste)
    assert "londiste drop-node branch; then create the node again" in do
    assert londiste(branch.db, "drop-node", "branch").code == 0
    root.db.execute("create table fruit (id int primary key)")
    assert londiste(root.db, "add-table", "fruit").code == 0
    lose_queue(root)
    first, _, rest = remedy(root, londiste).partition("; ")
    assert rest == "then create all nodes again, first: londiste create-root root"
    root.db.execute(first.partition("in the database of node root: ")[2])
    root.db.execute("insert into fruit values (1)")
