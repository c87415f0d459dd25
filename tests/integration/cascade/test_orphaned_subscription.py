"""Subscriptions at a node that did not answer when others went from it: the same command, given
again, ends them."""

from __future__ import annotations

import json
from typing import Any

from londiste.cascade.model import NodeType
from londiste.cascade.switching import cluster_state, switchover, takeover_live
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.cascade.switching.steps.readers import Unsubscribe, UnsubscribeMoved
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes, silent


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


def test_a_returned_branch_keeps_nothing_for_nodes_that_were_moved(
    three: tuple[Node, Node, Node], nodes_of: Nodes, londiste: CommandLine
) -> None:
    """It would hold back the watermark of all nodes."""
    root, one, two = three
    moved, stays = (nodes_of.below(one, name) for name in ("moved", "stays"))
    with silent(one, stays):
        for node in ("stays", "one"):
            taken = londiste(
                two.db, "takeover", node, "--failover", "--allow-resync", "--timeout", "0"
            )
            assert taken.code == 0, taken.err
    assert _subscribers(one) == {"moved", "stays"}
    assert londiste(root.db, "tag-alive", "one", "stays").code == 0
    # What keeps events for a failed root is no subscription.
    gravestone = ("root", "root.gravestone")
    one.db.execute("select pgq_node.register_subscriber('q', %s, %s, null)", *gravestone)
    back = ("change-provider", "--node", "one", "--provider", "root", "--timeout", "0")
    with silent(moved):
        done = londiste(root.db, *back)
        assert done.code == 0 and "unregister" not in done.err, done
    done = londiste(root.db, *back)
    assert done.code == 0, done.err
    assert "one: unregister subscriber moved" in done.err
    assert _subscribers(one) == {"root", "stays"}
    assert "nothing to do" in londiste(root.db, *back).err
    # With another provider than before, too.
    _keeps(one, moved)
    done = londiste(root.db, *back[:4], "two", *back[5:])
    assert done.code == 0, done.err
    assert _subscribers(one) == {"root", "stays"}
    consumers = one.db.execute("select consumer_name from pgq.get_consumer_info('q')")
    assert not [name for (name,) in consumers if "moved" in name]


def test_a_node_that_was_moved_back_meanwhile_stays_registered(
    three: tuple[Node, Node, Node], nodes_of: Nodes
) -> None:
    root, one, _ = three
    leaf = nodes_of.below(one, "leaf")
    here, there = NodeAddress("one", one.dsn), NodeAddress("leaf", leaf.dsn)
    step = UnsubscribeMoved(here, QUEUE, "leaf", print, there)
    assert step.done(nodes_of.sites)
    leaf.db.execute("select pgq_node.register_location('q', 'root', %s, false)", root.dsn)
    leaf.db.execute("select pgq_node.change_consumer_provider('q', 'w_leaf', 'root')")
    assert not step.done(nodes_of.sites)


def test_status_names_a_subscription_of_a_node_that_reads_elsewhere(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    assert "subscription" not in londiste(root.db, "status").out
    _keeps(root, leaf)
    shown = londiste(root.db, "status")
    assert "node leaf is registered as a subscriber here but reads from branch" in shown.out
    checked = londiste(root.db, "status", "--check", "--json")
    (found,) = [f for f in json.loads(checked.out)["findings"] if f["kind"] == "subscription"]
    statement = f"select pgq_node.unregister_subscriber(E'{QUEUE}', E'leaf')"
    assert found["do"].endswith(statement)
    root.db.execute(statement)
    assert "subscription" not in londiste(root.db, "status").out


def test_a_worker_that_was_unregistered_by_hand_is_registered_again(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    position = "select last_tick from pgq.get_consumer_info('q', 'w_leaf')"
    before = root.db.value(position)
    assert londiste(root.db, "check").code == 0
    assert root.db.value("select pgq.unregister_consumer('q', 'w_leaf')") == 1
    do = "londiste change-provider --node leaf --provider root"
    for db, args in ((root.db, ()), (leaf.db, ("--all-nodes",))):
        shown = londiste(db, "check", "--json", *args)
        (found,) = [one for one in shown.json["findings"] if "w_leaf" in one["what"]]
        assert "node leaf gets nothing" in found["why"]
        assert (found["severity"], found["do"].endswith(do)) == ("critical", True)
        assert found["do"].startswith("with the settings of root: ")
    assert "node leaf gets nothing" in londiste(root.db, "status").out
    done = londiste(leaf.db, "change-provider", "--provider", "root")
    assert done.code == 0, done.err
    assert "root: register leaf as subscriber" in done.err
    assert root.db.value(position) == before
    assert "gets nothing" not in londiste(root.db, "check").out
    again = londiste(leaf.db, "change-provider", "--provider", "root")
    assert "nothing to do" in again.err
