"""Commands after an interrupted command, or before its notification was read."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from londiste.cascade.switching import operation_log
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cascade.switching.steps.notes import Begin, NodeAddress, Ticket
from londiste.cascade.switching.steps.roots import CloseRoot, Promote
from londiste.orchestration import steps
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes

_WRITE = "select pgq.insert_event(%s, 'x', 'y')"


def _closed(nodes_of: Nodes, root: Node, branch: Node) -> tuple[Ticket, int]:
    """A switchover to the branch, killed when the root is closed; its ticket and the last tick."""
    ticket = Ticket()
    old, new = NodeAddress(root.name, root.dsn), NodeAddress(branch.name, branch.dsn)
    begins = [
        Begin(
            at, QUEUE, OperationKind.SWITCHOVER, root.name, branch.name, ticket, from_node=root.name
        )
        for at in (old, new)
    ]
    steps.execute([*begins, CloseRoot(old, QUEUE, ticket)], nodes_of.sites)
    found = operation_log.find(nodes_of.sites.at(root.dsn), QUEUE)
    assert found is not None and found.last_tick is not None
    return ticket, found.last_tick


def _promoted(nodes_of: Nodes, root: Node, branch: Node) -> None:
    """The same, killed behind the promotion."""
    ticket, tick = _closed(nodes_of, root, branch)
    # What the worker of the branch would have done.
    branch.db.execute("select pgq.ticker(%s, %s, now(), 1)", QUEUE, tick)
    branch.db.execute("update pgq_node.local_state set last_tick_id = %s", tick)
    promote = Promote(NodeAddress(branch.name, branch.dsn), QUEUE, ticket, lambda: tick)
    steps.execute([promote], nodes_of.sites)


def test_a_node_moves_to_one_that_it_has_not_heard_of(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    first = nodes_of.below(root, "first", NodeType.BRANCH)
    nodes_of.below(root, "second", NodeType.BRANCH)
    # No worker runs, so the news has not come; one that is paused would not read it either.
    known = "select count(*) from pgq_node.node_location where node_name = 'second'"
    assert first.db.value(known) == 0
    # Nobody answers: --timeout 0.
    move = ("change-provider", "--node", "first", "--provider", "second", "--timeout", "0")
    done = londiste(root.db, *move)
    assert done.code == 0, done
    assert first.db.value("select provider_node from pgq_node.local_state") == "second"
    assert first.db.value("select count(*) from pgq_node.operation") == 0


def test_the_root_that_a_switchover_has_closed_is_asked_for_again(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    assert "nothing to do" in londiste(branch.db, "switchover", "--to", "root").err
    # Before the promotion: it is undone, which is what was asked for.
    _closed(nodes_of, root, branch)
    planned = londiste(branch.db, "switchover", "--to", "root", "--dry-run")
    assert planned.code == 0 and "root: accept events again" in planned.out, planned
    undone = londiste(branch.db, "switchover", "--to", "root")
    assert undone.code == 0 and "rolled back" in undone.err and "nothing to do" not in undone.err, (
        undone
    )
    root.db.execute(_WRITE, QUEUE)
    for node in (root, branch):
        assert node.db.value("select count(*) from pgq_node.operation") == 0
    # Behind it there is only forward.
    _promoted(nodes_of, root, branch)
    refused = londiste(root.db, "switchover")
    assert refused.code == 3, refused
    assert "londiste switchover --to branch finishes it" in refused.err
    done = londiste(root.db, "switchover", "--to", "branch", "--timeout", "0")
    assert done.code == 0, done
    assert root.db.value("select node_type from pgq_node.node_info") == "branch"
    branch.db.execute(_WRITE, QUEUE)
    # A root that fences itself is no root that takes writes.
    branch.db.execute("select pgq_node.fence_root(%s)", QUEUE)
    refused = londiste(root.db, "switchover", "--to", "branch")
    assert refused.code == 3 and "was replaced" in refused.err, refused
