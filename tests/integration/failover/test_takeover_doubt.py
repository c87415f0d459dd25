"""Takeover of a node whose failure or role is uncertain."""

from __future__ import annotations

from pathlib import Path

from londiste.cascade import fencing
from londiste.cascade.model import NodeType
from londiste.cascade.switching import failover
from londiste.cascade.switching.cluster_state import look
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute, remaining
from londiste.replication.failover.rejoin import plan as rejoin
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes, silent

NOTES = "select operation, node_name from pgq_node.operation"
DEAD = "select node_name from pgq_node.node_location where dead order by 1"
TYPE = "select node_type, (select paused from pgq_node.local_state) from pgq_node.node_info"
UNDO = ("takeover", "root", "--node", "one", "--failover", "--rollback")


def test_a_lost_branch_is_not_taken_for_the_root_while_the_root_is_silent(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, one, two = three
    take = ("takeover", "one", "--failover", "--allow-resync", "--timeout", "0")
    with silent(root, one):
        refused = londiste(two.db, *take)
        assert refused.code == 6
        assert "it may be one or root, which does not answer either" in refused.err
        assert "if failed as well: londiste tag-dead root" in refused.err
        assert two.db.execute(DEAD) == two.db.execute(NOTES) == []
        # Somebody says that it was a branch: then its provider is asked for.
        refused = londiste(two.db, *take[:2], "--dead-branch", *take[3:])
        assert refused.code == 6
        assert "queue q: no root answers" in refused.err
        # Or that it was the root, by giving the other one up as well.
        assert londiste(two.db, "tag-dead", "one").code == 0
        with Connections(name="test") as sites:
            assert failover.surely_root(sites, look(sites, two.dsn, QUEUE, ""), "root")
    with silent(one):
        done = londiste(two.db, *take)
        assert done.code == 0, done.err
    assert two.db.execute(TYPE)[0][0] == "branch"


def test_a_takeover_with_its_names_swapped_does_not_claim_to_have_happened(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    nodes_of.below(root, "one", NodeType.BRANCH)
    nodes_of.below(root, "leaf", NodeType.LEAF)
    for name in ("one", "leaf"):
        told = londiste(root.db, "takeover", name)
        assert told.code == 0, told.err
        assert f"node {name} already reads from root, nothing to do" in told.err
        assert "replaced" not in told.err
        # A leaf cannot replace it.
        swapped = f"; if {name} is to replace root: londiste takeover root --node {name}\n"
        assert (swapped in told.err) == (name == "one")


def _steps(at: Node, count: int) -> list[str]:
    """The first steps of taking the place of the lost root; what they are."""
    with Connections(name="test") as sites:
        scene = look(sites, at.dsn, QUEUE, "")
        steps = failover.takeover_root(
            sites, scene, "root", at.name, accept_loss=False, timeout=0, warn=print
        )
        left = remaining(steps, sites)[:count]
        execute(left, sites)
        return [step.describe() for step in left]


def test_a_takeover_is_undone_when_the_root_comes_back_before_there_is_another_one(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, one, two = three
    with silent(root):
        done = _steps(one, 4)
        assert done[-1] == "one: pause worker w_one"
    assert one.db.execute(TYPE) == [("branch", True)]
    refused = londiste(one.db, "takeover", "root", "--failover")
    assert refused.code == 3
    assert "node root answers and has not failed" in refused.err
    undo = "londiste takeover root --node one --failover --rollback"
    assert f"hint: undo it: {undo}; or stop the server of root for good\n" in refused.err
    assert f"or undo it: {undo}" in londiste(two.db, "rename-node", "two", "other").err
    done_again = londiste(two.db, *undo.split()[1:])
    assert done_again.code == 0, done_again.err
    assert one.db.execute(TYPE) == [("branch", False)]
    for node in three:
        assert node.db.execute(NOTES) == node.db.execute(DEAD) == []
    root.db.execute("select pgq.insert_event('q', 'x', 'y')")
    # Once more there is nothing to undo.
    assert londiste(two.db, *undo.split()[1:]).code == 3


def test_a_takeover_is_finished_when_the_root_comes_back_behind_the_promotion(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, one, two = three
    with silent(root):
        assert _steps(one, 5)[-1] == "one: make it the root"
    refused = londiste(one.db, "takeover", "root", "--failover", "--rollback")
    assert refused.code == 3
    assert "node one is the root already" in refused.err
    done = londiste(one.db, "takeover", "root", "--failover", "--timeout", "0")
    assert done.code == 0, done.err
    assert [node.db.execute(NOTES) for node in (one, two)] == [[], []]
    assert one.db.execute(TYPE) == [("root", False)]
    assert two.db.value("select provider_node from pgq_node.local_state") == "one"


def test_an_old_takeover_is_undone_and_the_lost_root_stays_out(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, one, two = three
    with silent(root):
        _steps(one, 4)
        # It reads from the other branch now, or does not answer: nobody asks it.
        with silent(one):
            other = ("takeover", "root", "--node", "two", "--dead-root", "--timeout", "0")
            done = londiste(two.db, *other)
            assert done.code == 0, done.err
        refused = londiste(one.db, "change-provider", "--node", "one", "--provider", "two")
        assert refused.code != 0 and "--rollback" in refused.err
        done = londiste(one.db, *UNDO)
        assert done.code == 0, done.err
        assert two.db.execute(DEAD) == [("root",)]
        assert one.db.execute(NOTES) == []
        assert one.db.execute(TYPE) == [("branch", False)]
    with Connections(name="test") as sites:
        conn = sites.at(root.dsn)
        assert fencing.replaced_by(conn, QUEUE, "root") == fencing.Successor("two", True)


def test_a_takeover_is_not_undone_while_another_node_may_be_the_root(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, one, two = three
    with silent(root):
        _steps(one, 4)
        with silent(two):
            refused = londiste(one.db, *UNDO)
            assert refused.code == 6
            assert "two does not answer, and may have replaced root since" in refused.err
            assert one.db.execute(DEAD) == [("root",)]
        # A second one would make a second root.
        refused = londiste(two.db, "takeover", "root", "--node", "two", "--failover")
        assert refused.code != 0 and "node one: " in refused.err and "--rollback" in refused.err
        assert two.db.execute(TYPE)[0][0] == "branch"
    assert londiste(one.db, *UNDO).code == 0
    assert one.db.execute(DEAD) == two.db.execute(DEAD) == []


def test_a_root_whose_rejoin_is_not_possible_is_dropped(
    three: tuple[Node, Node, Node], londiste: CommandLine, tmp_path: Path
) -> None:
    root, one, two = three
    with silent(root):
        done = londiste(one.db, "takeover", "root", "--failover", "--timeout", "0")
        assert done.code == 0, done.err
    with Connections(name="test") as sites:
        scene = look(sites, one.dsn, QUEUE, "")
        found = rejoin.prepare(sites, scene, "root", file=str(tmp_path), warn=print)
        assert found is not None
        execute(found.first[:2], sites)
    # The provider of the rejoin takes part in it.
    refused = londiste(two.db, "drop-node", "one")
    assert refused.code == 3
    dropped = londiste(two.db, "drop-node", "root")
    assert dropped.code == 0, dropped.err
    for node in (one, two):
        assert node.db.execute(NOTES) == node.db.execute(DEAD) == []
    assert root.db.execute(NOTES) == root.db.execute(TYPE) == []
    again = londiste(root.db, "create-branch", "root", f"--provider={one.dsn}")
    assert again.code == 0, again.err
