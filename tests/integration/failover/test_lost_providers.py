"""A change of provider is interrupted, then its old and its new provider fail."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from londiste.cascade.switching import change_provider
from londiste.cascade.switching.cluster_state import look
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute, remaining
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes, silent

NOTES = "select operation from pgq_node.operation"
NODE = "select node_type, (select provider_node from pgq_node.local_state) from pgq_node.node_info"
Three = tuple[Node, Node, Node]


def _interrupted(node: Node, upto: str) -> None:
    """The change of ``node`` from root to one, up to this step."""
    node.db.execute("update pgq_node.local_state set uptodate = true, paused = false")
    with Connections(name="test") as sites:
        scene = look(sites, node.dsn, QUEUE, "")
        steps = change_provider.change_provider(
            sites, scene, node.name, "one", timeout=0, warn=print
        )
        for step in remaining(steps, sites):
            execute([step], sites)
            if upto in step.describe():
                return
    raise AssertionError(upto)


@pytest.mark.parametrize("upto", ["pause worker", "switch worker"])
def test_the_node_that_is_left_becomes_the_root(
    three: Three, londiste: CommandLine, upto: str
) -> None:
    root, one, two = three
    _interrupted(two, upto)
    take = ("takeover", "root", "--failover", "--timeout", "0", "--allow-data-loss")
    with silent(root, one):
        assert londiste(two.db, "tag-dead", "one").code == 0
        done = londiste(two.db, *take)
        assert done.code == 0, done.err
        assert "two: record takeover root -> two in place of an unfinished" in done.err
        assert two.db.execute(NOTES) == []
        assert two.db.execute(NODE) == [("root", "two")]
        assert two.db.value("select paused from pgq_node.local_state") is False
        two.db.execute("select pgq.insert_event(%s, 'x', 'y')", QUEUE)


def test_it_is_not_replaced_while_one_of_them_answers(three: Three, londiste: CommandLine) -> None:
    root, _, two = three
    _interrupted(two, "pause worker")
    with silent(root):
        refused = londiste(two.db, "takeover", "root", "--failover", "--timeout", "0")
        assert refused.code == 3
        assert "change of the provider of two to one" in refused.err
    assert two.db.execute(NOTES) == [("change-provider",)]


def test_another_node_moves_below_the_new_root(
    three: Three, nodes_of: Nodes, londiste: CommandLine
) -> None:
    root, one, two = three
    leaf = nodes_of.below(root, "leaf", NodeType.LEAF)
    for node in (one, two):
        node.db.execute("select pgq_node.register_location('q', 'leaf', %s, false)", leaf.dsn)
    _interrupted(leaf, "pause worker")
    with silent(root, one):
        assert londiste(two.db, "tag-dead", "one").code == 0
        done = londiste(two.db, "takeover", "root", "--failover", "--timeout", "0")
        assert done.code == 0, done.err
        assert leaf.db.execute(NODE) == [("leaf", "two")]
        assert leaf.db.execute(NOTES) == two.db.execute(NOTES) == []
        assert leaf.db.value("select paused from pgq_node.local_state") is False


def test_a_change_of_a_consumer_keeps_nothing_from_happening(
    three: Three, nodes_of: Nodes, londiste: CommandLine
) -> None:
    root, one, two = three
    leaf = nodes_of.below(two, "leaf", NodeType.LEAF)
    for node in (two, leaf):
        node.db.execute("select pgq_node.register_location('q', 'leaf', %s, false)", leaf.dsn)
        node.db.execute("select pgq_node.register_consumer('q', 'reports', 'root', 1)")
        node.db.execute(
            "select pgq_node.begin_operation"
            "('q', null, 'move-consumer', 'reports', 'one', 'me', 'root', false)"
        )
    move = ("change-provider", "--node", "leaf", "--consumer", "reports", "--timeout", "0.1")
    with silent(root, one):
        done = londiste(two.db, *move, "--provider", "two")
        assert done.code == 0, done.err
        assert londiste(two.db, "tag-dead", "one").code == 0
        done = londiste(two.db, "takeover", "root", "--failover", "--timeout", "0")
        assert done.code == 0, done.err
    assert leaf.db.execute(NOTES) == two.db.execute(NOTES) == []
    consumers = "select provider_node from pgq_node.local_state where consumer_name = 'reports'"
    assert [node.db.value(consumers) for node in (leaf, two)] == ["two", "two"]
