"""Two operators: one looks at the cascade, another one changes it, the first one continues."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from londiste.cascade.commands import create_node, upstream
from londiste.cascade.model import NodeType
from londiste.cascade.switching import cluster_lock
from londiste.cascade.switching.cluster_state import look
from londiste.cli.cascade import common
from londiste.console import actions
from londiste.errors import NodeBusy, UnknownNode
from londiste.orchestration.connections import Connections
from tests.fixtures.cascade import (
    QUEUE,
    CommandLine,
    Node,
    Nodes,
    refused_at_once,
    silent,
    takes_events,
)

TYPE = "select node_type from pgq_node.node_info"
PROVIDER = "select provider_node from pgq_node.local_state"
NOTES = "select operation, node_name from pgq_node.operation"
DEAD = "select node_name from pgq_node.node_location where dead"
CHANGED = "error: the cascade of queue q changed while this command started: "
AGAIN = "hint: check londiste status, then repeat the command\n"

#: Forces what happens after the first look of the next command.
Between = Callable[[Callable[[], object]], None]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """``between(action)``: runs it once, after the first look of the next command."""
    left: list[Callable[[], object]] = []
    real = look

    def looked(*args: Any, **options: Any) -> Any:
        seen = real(*args, **options)
        if left:
            left.pop()()
        return seen

    monkeypatch.setattr(common, "look", looked)
    return left.append


def _paused(*nodes: Node) -> None:
    """As a worker answers that has paused."""
    for node in nodes:
        node.db.execute("update pgq_node.local_state set uptodate = true, paused = true")


def test_the_second_of_two_failovers_makes_no_second_root(
    three: tuple[Node, Node, Node], londiste: CommandLine, between: Between
) -> None:
    root, one, two = three
    take = ("takeover", "root", "--failover", "--timeout", "0")
    with silent(root):
        done = []
        between(lambda: done.append(londiste(one.db, *take).code))
        second = londiste(two.db, *take)
        assert (done, second.code) == ([0], 3)
        assert second.err.startswith(f"{CHANGED}node one is a root now; ")
        assert second.err.endswith(AGAIN)
        again = londiste(two.db, *take)
    assert "node one is the root, two cannot replace root as well" in again.err
    assert [takes_events(node.db, QUEUE) for node in (one, two)] == [True, False]


def test_the_second_of_two_changes_makes_no_circle(
    three: tuple[Node, Node, Node], londiste: CommandLine, between: Between
) -> None:
    _, one, two = three
    _paused(one, two)
    move = ("change-provider", "--timeout", "0.1", "--provider")
    between(lambda: londiste(two.db, *move, "one"))
    second = londiste(one.db, *move, "two")
    assert second.code == 3
    assert second.err.startswith(f"{CHANGED}node two reads from one now\n")
    assert [node.db.value(PROVIDER) for node in (one, two)] == ["root", "one"]
    assert "node two reads from one" in londiste(one.db, *move, "two").err


def test_a_node_is_not_dropped_that_has_become_a_provider(
    three: tuple[Node, Node, Node], londiste: CommandLine, between: Between
) -> None:
    root, one, two = three
    _paused(two)
    between(lambda: londiste(two.db, "change-provider", "--timeout", "0.1", "--provider", "one"))
    assert londiste(root.db, "drop-node", "one").code == 3
    refused = londiste(root.db, "drop-node", "one")
    assert "node one is the provider of two" in refused.err
    assert root.db.execute(NOTES) == []
    assert one.db.value(TYPE) == "branch"


def test_a_rename_and_another_one_do_not_take_the_same_name(
    three: tuple[Node, Node, Node], londiste: CommandLine, between: Between
) -> None:
    _, one, two = three
    between(lambda: londiste(two.db, "rename-node", "two", "other"))
    refused = londiste(one.db, "rename-node", "one", "other")
    assert refused.code == 3
    assert "node other was added; node two was dropped or renamed" in refused.err
    known = "select string_agg(node_name, ' ' order by node_name) from pgq_node.node_location"
    assert {node.db.value(known) for node in three} == {"one other root"}


COMMANDS = (
    ("takeover", "one", "--node", "two", "--timeout", "0.1"),
    ("switchover", "--to", "one", "--timeout", "0.1", "--block", "0.1"),
    ("switchover", "--to", "one", "--rollback"),
    ("change-provider", "--node", "one", "--provider", "two", "--timeout", "0.1"),
    ("change-provider", "--node", "one", "--provider", "two", "--rollback"),
    ("drop-node", "one"),
    ("rename-node", "one", "other"),
    ("tag-dead", "one"),
    ("tag-alive", "one"),
    ("resurrect", "--node", "one"),
)


def test_every_command_looks_again(
    three: tuple[Node, Node, Node], londiste: CommandLine, between: Between
) -> None:
    root = three[0]
    for number, argv in enumerate(COMMANDS):
        mark = f"select pgq_node.register_location('q', 'two', null, {number % 2 == 0})"
        between(lambda mark=mark: root.db.execute(mark))  # type: ignore[misc]
        refused = londiste(root.db, *argv)
        assert refused.code == 3, argv
        assert refused.err.startswith(f"{CHANGED}node two is marked as "), argv
    assert [node.db.execute(NOTES) for node in three] == [[], [], []]


def test_a_dry_run_takes_no_lock(
    three: tuple[Node, Node, Node], londiste: CommandLine, between: Between
) -> None:
    root = three[0]
    with Connections(name="other") as other:
        other.alone(root.dsn, "root", QUEUE)
        assert londiste(root.db, "drop-node", "two", "--dry-run").code == 0


def test_a_node_without_a_step_is_locked_too(
    three: tuple[Node, Node, Node], londiste: CommandLine
) -> None:
    root, _, two = three
    with Connections(name="other") as other:
        other.alone(two.dsn, "two", QUEUE)
        with refused_at_once():
            refused = londiste(root.db, "tag-alive", "one")
    assert refused.code == 3
    assert refused.err.startswith("error: node two: another command is changing the cascade")


def test_silent_nodes_are_asked_once(three: tuple[Node, Node, Node]) -> None:
    root, one, two = three
    with Connections(name="test") as sites, silent(root):
        seen = look(sites, one.dsn, QUEUE, "")
        with silent(two):
            now = cluster_lock.lock(sites, seen, "")
    assert [seen.answers(n) for n in ("root", "one", "two")] == [False, True, True]
    # It has failed since, which the plan sees.
    assert [now.answers(n) for n in ("root", "one", "two")] == [False, True, False]


def test_nodes_are_created_side_by_side_but_not_below_one_that_is_dropped(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    one = nodes_of.below(root, "one", NodeType.BRANCH)
    leaf = nodes_of.new("leaf", NodeType.LEAF)
    with Connections(name="first") as first, Connections(name="second") as second:
        for sites in (first, second):
            upstream.hold_upstream(sites, QUEUE, one.dsn)
        with refused_at_once():
            refused = londiste(root.db, "drop-node", "one")
        assert refused.err.startswith("error: node one: another command is changing the cascade")
        first.release()
        second.release()
        first.alone(root.dsn, "root", QUEUE)
        with refused_at_once(), pytest.raises(NodeBusy, match="another command is changing"):
            upstream.hold_upstream(second, QUEUE, one.dsn)
    assert londiste(root.db, "drop-node", "one").code == 0
    with Connections(name="third") as sites, pytest.raises(UnknownNode):
        create_node.create_leaf(sites, leaf, one.dsn)


def test_the_command_that_creates_a_node_holds_its_provider(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.new("leaf", NodeType.LEAF)
    with Connections(name="other") as other:
        other.alone(root.dsn, "root", QUEUE)
        db = nodes_of.make_database(pgq=True)
        argv = ("create-leaf", "leaf", f"--provider={root.dsn}")
        with refused_at_once():
            refused = londiste(db, *argv)
        assert "another command is changing the cascade" in refused.err
        assert londiste(db, *argv, "--dry-run").code == 0
    assert leaf.name not in str(root.db.execute("select node_name from pgq_node.node_location"))


def test_the_console_looks_again(three: tuple[Node, Node, Node]) -> None:
    root = three[0]
    with Connections(name="test") as sites:
        place = actions.Place(sites, look(sites, root.dsn, QUEUE, ""), "one")
        ready = actions.ACTIONS["switchover"].prepare(place, {"node": "one"})
        root.db.execute("select pgq_node.register_location('q', 'two', null, true)")
        with pytest.raises(NodeBusy, match="node two is marked as dead"):
            ready.run()
    assert root.db.execute(NOTES) == []
