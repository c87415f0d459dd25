"""Subscriptions at a node that did not answer when others went from it: the same command, given
again, ends them."""

from __future__ import annotations

from typing import Any

from londiste.cascade.model import NodeType
from londiste.cascade.switching import cluster_state, switchover, takeover_live
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.cascade.switching.steps.readers import Unsubscribe
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes


def _subscribers(node: Node) -> set[Any]:
    asked = "select node_name from pgq_node.get_subscriber_info(%s)"
    return {row[0] for row in node.db.execute(asked, QUEUE)}


def _keeps(node: Node, of: Node) -> None:
    name = of.name
    node.db.execute("select pgq_node.register_location(%s, %s, %s, false)", QUEUE, name, of.dsn)
    asked = "select ret_code, ret_note from pgq_node.register_subscriber(%s, %s, %s, null)"
    answer = node.db.execute(asked, QUEUE, name, f"w_{name}")
    assert answer[0][0] == 200, answer


def test_a_command_ends_what_was_left_where_nodes_have_moved_already(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    old = nodes_of.below(root, "old", NodeType.BRANCH)
    new = nodes_of.below(root, "new", NodeType.BRANCH)
    moved = nodes_of.below(new, "moved")
    for node in (root, old):
        _keeps(node, moved)
    seen = cluster_state.look(nodes_of.sites, root.dsn, QUEUE, "")
    limits: dict[str, Any] = {"timeout": 1.0, "warn": print}
    switch = switchover.prepare(nodes_of.sites, seen, "new", move_all=True, block=1.0, **limits)
    assert switch is not None
    ended = "root: unregister subscriber moved"
    assert ended in [step.describe() for step in switch.steps()]
    alone = switchover.prepare(nodes_of.sites, seen, "new", block=1.0, **limits)
    assert alone is not None
    assert ended not in [step.describe() for step in alone.steps()]
    steps = takeover_live.takeover(nodes_of.sites, seen, "old", "new", move_all=True, **limits)
    assert "old: unregister subscriber moved" in [step.describe() for step in steps]
    # The root is the root already, and something is left all the same.
    stays = nodes_of.below(root, "stays")
    _keeps(old, stays)
    given = londiste(root.db, "switchover", "--to", "root", "--all")
    assert given.code == 0, given.err
    assert "nothing else to do" in given.err
    assert _subscribers(old) == {"moved"}
    assert _subscribers(root) == {"old", "new", "moved", "stays"}
    again = londiste(root.db, "switchover", "--to", "root", "--all")
    assert "nothing to do" in again.err


def test_a_session_that_ends_leaves_no_subscription_behind_where_the_node_answers(
    nodes_of: Nodes,
) -> None:
    root = nodes_of.root()
    _keeps(root, nodes_of.below(root, "gone"))
    told: list[str] = []
    sites = nodes_of.sites
    step = Unsubscribe(NodeAddress("root", root.dsn), QUEUE, "gone", told.append)
    session = sites.at(root.dsn).info.backend_pid
    assert root.db.value("select pg_terminate_backend(%s, 5000)", session)
    step.run(sites)
    assert (told, _subscribers(root)) == ([], set())


def test_a_node_that_does_not_answer_is_told_with_a_statement_that_ends_the_subscription(
    nodes_of: Nodes,
) -> None:
    root = nodes_of.root()
    _keeps(root, nodes_of.below(root, "gone"))
    told: list[str] = []
    nowhere = NodeAddress("root", "host=127.0.0.1 port=1 dbname=nowhere")
    Unsubscribe(nowhere, QUEUE, "gone", told.append).run(nodes_of.sites)
    assert len(told) == 1 and "node root does not answer" in told[0]
    _, _, statement = told[0].partition("run there: ")
    root.db.execute(statement)
    assert _subscribers(root) == set()
