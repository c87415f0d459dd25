"""Nodes that are offline while others are renamed, dropped or replaced."""

from __future__ import annotations

import shlex

import pytest

from londiste.cascade import fencing
from londiste.cascade.model import Member, NodeType
from londiste.cascade.switching.rejoin_checks import MembershipChange, news
from londiste.monitor import status
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes, silent
from tests.support.suite.slow import first

NAMES = "select node_name from pgq_node.node_location order by 1"
NOTES = "select operation, node_name from pgq_node.operation"
SUBSCRIBERS = "select subscriber_node from pgq_node.subscriber_info order by 1"
PROVIDER = (
    "select node_type, (select provider_node from pgq_node.local_state) from pgq_node.node_info"
)
BEGIN = "select pgq_node.begin_operation('q', null, %s, %s, %s, 'me', %s, null)"
TAKE = ("takeover", "root", "--failover", "--timeout", "0")

Three = tuple[Node, Node, Node]


def _members(*given: tuple[str, str]) -> list[Member]:
    return [Member(name, location) for name, location in given]


def test_membership_changes_are_computed_from_two_lists() -> None:
    known = _members(("me", "A"), ("old", "B"), ("gone", "C"), ("same", "D"))
    now = _members(("me", "A"), ("new", "B"), ("same", "E"), ("born", "F"))
    assert news(known, now, "me") == MembershipChange(("gone",), (("old", "new"),), tuple(now[1:]))
    # A name that a node has given up is another one's now.
    known = _members(("me", "A"), ("b", "B"), ("c", "C"))
    now = _members(("me", "A"), ("c", "B"))
    assert news(known, now, "me") == MembershipChange(("c",), (("b", "c"),), tuple(now[1:]))
    assert news(now, now, "me") == MembershipChange((), (), tuple(now[1:]))


def test_returned_root_recognises_its_renamed_successor(
    three: Three, londiste: CommandLine
) -> None:
    root, one, two = three
    with silent(root):
        assert londiste(one.db, *TAKE).code == 0
        for at, old, new in ((one, "one", "uno"), (two, "two", "due")):
            renamed = londiste(at.db, "rename-node", old, new)
            assert renamed.code == 0, renamed.err
        refused = londiste(one.db, "rename-node", "root", "radix")
        assert refused.code == 6
        assert "it would return under its old name" in refused.err
    # It sees who has its place, by whatever name, and does not go on as a root.
    with root.connect(autocommit=True) as conn:
        assert fencing.replaced_by(conn, QUEUE, "root") == fencing.Successor("uno", True)
    seen = status.collect(root.dsn, QUEUE)
    assert {n.name: n.type for n in seen.nodes} == {
        "root": "root",
        "uno": "root",
        "due": "branch",
    }


def test_replaced_root_does_not_block_other_commands(three: Three, londiste: CommandLine) -> None:
    root, one, two = three
    with silent(root):
        assert londiste(one.db, *TAKE).code == 0
    # Its worker has fenced it.
    root.db.execute("select pgq_node.fence_root('q')")
    refused = londiste(two.db, "tag-alive", "root")
    assert refused.code == 3
    assert "londiste resurrect --node root makes it a branch" in refused.err
    refused = londiste(two.db, "rename-node", "root", "radix")
    assert refused.code == 3
    assert "root root was replaced by another node" in refused.err
    for argv in (("rename-node", "two", "due"), ("tag-dead", "due"), ("tag-alive", "due")):
        done = londiste(one.db, *argv)
        assert done.code == 0, done.err
    done = londiste(one.db, "drop-node", "due")
    assert done.code == 0, done.err
    assert one.db.execute(NAMES) == [("one",), ("root",)]
    assert root.db.execute(NAMES) == [("one",), ("root",), ("two",)]


@pytest.mark.parametrize("renamed", first([True, False]))
def test_leaf_marked_as_failed_resumes_at_its_position(
    nodes_of: Nodes, londiste: CommandLine, renamed: bool
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(root, "leaf")
    with silent(leaf):
        taken = londiste(branch.db, "takeover", "leaf", "--failover", "--timeout", "0")
        assert taken.code == 0, taken.err
        if renamed:
            assert londiste(root.db, "rename-node", "root", "radix").code == 0
    name = "radix" if renamed else "root"
    assert root.db.execute(SUBSCRIBERS) == [("branch",)]
    again = ("change-provider", "--node", "leaf", "--provider", name, "--timeout", "0")
    done = londiste(root.db, *again)
    assert done.code == 0, done.err
    assert root.db.execute(SUBSCRIBERS) == [("branch",), ("leaf",)]
    assert leaf.db.execute(PROVIDER) == [("leaf", name)]
    assert "nothing to do" in londiste(root.db, *again).err
    # Where its provider has rotated its tick away it has to be made anew.
    with silent(leaf):
        assert londiste(branch.db, "takeover", "leaf", "--failover", "--timeout", "0").code == 0
    root.tick()
    root.db.execute("delete from pgq.tick where tick_id < (select max(tick_id) from pgq.tick)")
    refused = londiste(root.db, *again)
    assert refused.code == 3
    assert "londiste drop-node leaf; then, with the settings of leaf: londiste" in refused.err
    where = [shlex.quote(node.dsn) for node in (leaf, root)]
    assert f"create-leaf leaf {where[0]} --provider {where[1]}" in refused.err


def test_drop_node_completes_if_its_database_has_a_new_node(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    # Killed behind the step on the node itself.
    root.db.execute(BEGIN, "drop-node", "leaf", "leaf", None)
    leaf.db.execute("select pgq_node.drop_node('q', 'leaf')")
    made = londiste(leaf.db, "create-leaf", "other", leaf.dsn, "--provider", root.dsn)
    assert made.code == 0, made.err
    assert root.db.execute(NAMES) == [("leaf",), ("other",), ("root",)]
    done = londiste(root.db, "drop-node", "leaf")
    assert done.code == 0, done.err
    assert root.db.execute(NAMES) == [("other",), ("root",)]
    assert root.db.execute(NOTES) == []


def test_takeover_refuses_a_new_root_that_lost_a_table(three: Three, londiste: CommandLine) -> None:
    root, one, _two = three
    for node in three:
        node.db.execute("create table public.t (id int primary key)")
    assert londiste(root.db, "add-table", "public.t").code == 0
    root.tick()
    one.db.execute("select londiste.global_add_table('q', 'public.t')")
    one.db.execute("select londiste.local_add_table('q', 'public.t')")
    one.db.execute("update londiste.table_info set merge_state = 'ok'")
    with silent(root):
        # Killed behind its first step.
        one.db.execute(BEGIN, "takeover", "root", "one", "root")
        assert londiste(one.db, "remove-table", "public.t").code == 0
        refused = londiste(one.db, *TAKE)
        assert refused.code == 3, refused
        assert "table public.t is not replicated on one" in refused.err
        assert "londiste takeover root --node one --failover --rollback" in refused.err
    assert one.db.execute(PROVIDER) == [("branch", "root")]


def test_two_nodes_are_not_sent_to_read_from_each_other(
    three: Three, londiste: CommandLine
) -> None:
    _root, one, two = three
    one.db.execute(BEGIN, "change-provider", "one", "two", "root")
    back = ("change-provider", "--node", "two", "--provider", "one", "--timeout", "0")
    refused = londiste(two.db, *back)
    assert refused.code == 3, refused
    undo = "londiste change-provider --node one --provider two --rollback"
    assert undo in refused.err
    assert londiste(one.db, *undo.split()[1:]).code == 0
    assert londiste(two.db, *back).code == 0
    assert two.db.execute(PROVIDER) == [("branch", "one")]


def test_abandoned_root_is_no_provider(three: Three, londiste: CommandLine) -> None:
    root, one, two = three
    with silent(root):
        # Killed behind the promotion: two is on its way, and its worker stands still.
        assert londiste(one.db, *TAKE).code == 0
        two.db.execute("select pgq_node.change_consumer_provider('q', 'w_two', 'root')")
        two.db.execute("select pgq_node.set_consumer_paused('q', 'w_two', true)")
        two.db.execute(BEGIN, "change-provider", "two", "one", "root")
    refused = londiste(one.db, "resume", "--node", "two", "--timeout", "0")
    assert refused.code == 3
    assert "finish it: londiste change-provider --node two --provider one" in refused.err
    two.db.execute("select pgq_node.set_consumer_paused('q', 'w_two', false)")
    stopped = londiste(two.db, "worker", "--once", job="w_two")
    assert stopped.code == 3
    assert "root root was marked as failed, but responds" in stopped.err
    two.db.execute("select pgq_node.register_location('q', 'root', null, false)")
    assert "marked as failed" not in londiste(two.db, "worker", "--once", job="w_two").err


def test_copying_node_refuses_a_provider_without_the_table(
    three: Three, londiste: CommandLine
) -> None:
    root, one, two = three
    for node in three:
        node.db.execute("create table public.t (id int primary key)")
    assert londiste(root.db, "add-table", "public.t").code == 0
    for node in (one, two):
        node.db.execute("select londiste.global_add_table('q', 'public.t')")
    two.db.execute("select londiste.local_add_table('q', 'public.t')")
    move = ("change-provider", "--node", "two", "--provider", "one", "--timeout", "0")
    refused = londiste(two.db, *move)
    assert refused.code == 3
    assert "node two still copies table public.t, which one does not have" in refused.err
    assert two.db.execute(PROVIDER) == [("branch", "root")]
    one.db.execute("select londiste.local_add_table('q', 'public.t')")
    assert londiste(two.db, *move).code == 0


def test_no_node_switches_to_a_replaced_root(three: Three, londiste: CommandLine) -> None:
    root, one, two = three
    two.db.execute(BEGIN, "change-provider", "two", "root", "one")
    two.db.execute("select pgq_node.change_consumer_provider('q', 'w_two', 'one')")
    with silent(root):
        assert londiste(one.db, *TAKE).code == 0
    refused = londiste(two.db, "change-provider", "--provider", "root", "--timeout", "0")
    assert refused.code == 3
    assert "root root was replaced by another node" in refused.err
    assert "londiste change-provider --node two --provider root --rollback" in refused.err
    # It has not heard of that itself.
    two.db.execute("delete from pgq_node.operation")
    refused = londiste(root.db, "change-provider", "--node", "two", "--provider", "root")
    assert refused.code == 3
    assert "root root was replaced by another node" in refused.err


def test_no_node_switches_to_a_dropped_node(three: Three, londiste: CommandLine) -> None:
    root, _one, two = three
    root.db.execute(BEGIN, "drop-node", "one", "one", None)
    for argv in (("change-provider", "--provider", "one"), ("takeover", "root", "--node", "one")):
        refused = londiste(two.db, *argv, "--timeout", "0")
        assert refused.code == 3
        assert "the drop of node one" in refused.err
        assert "finish it: londiste drop-node one" in refused.err
    assert two.db.execute(PROVIDER) == [("branch", "root")]


def test_a_node_that_keeps_events_for_a_lost_root_stays(
    three: Three, londiste: CommandLine
) -> None:
    root, one, _two = three
    # As if it had been the root in the place of the other one, and had given that on.
    one.db.execute("select pgq_node.register_subscriber('q', 'two', 'two.gravestone', null)")
    refused = londiste(root.db, "drop-node", "one")
    assert refused.code == 3
    assert "node one keeps events for the failed root two" in refused.err
    assert "londiste resurrect --node two" in refused.err
    assert one.db.value("select count(*) from pgq_node.node_info") == 1
    assert londiste(root.db, "drop-node", "one", "--drop-consumers").code == 0


def test_node_with_silent_subscriber_is_not_dropped(nodes_of: Nodes, londiste: CommandLine) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    root.db.execute("select pgq_node.register_location('q', 'leaf', %s, false)", leaf.dsn)
    with silent(leaf):
        refused = londiste(root.db, "drop-node", "branch")
        assert refused.code == 6
        assert "node branch is the provider of leaf, which does not answer" in refused.err
        assert londiste(root.db, "drop-node", "branch", "--ignore-unreachable").code == 0
    again = ("change-provider", "--node", "leaf", "--provider", "root", "--timeout", "0")
    moved = londiste(root.db, *again, "--allow-resync")
    assert moved.code == 0, moved.err
    assert leaf.db.execute(PROVIDER) == [("leaf", "root")]
