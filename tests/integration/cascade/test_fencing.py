"""A failed root that returns finds its successor, whatever the others have done since."""

from __future__ import annotations

import re
import shlex

import pytest

from londiste.cascade.fencing import Report, Successor, replaced_by, successor
from londiste.cascade.model import NodeType
from tests.fixtures.cascade import Node, closed, takes_events
from tests.fixtures.line import QUEUE, Command, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

TAKE = ("takeover", "root", "--failover", "--timeout", "0")


@kept_nodes
def _pair(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT)
    return root, line.node("one", NodeType.BRANCH, root)


def _done(command: Command, node: LineNode, *args: str) -> None:
    done = command(node, *args)
    assert done.code == 0, done


def _replaced_twice(line: Line, command: Command, one: LineNode) -> LineNode:
    """One takes over from the failed root, and the root after it is a node that is made then."""
    _done(command, one, *TAKE)
    two = line.node("two", NodeType.BRANCH, one)
    line.start(one)
    line.start(two)
    line.wait_position(two, line.tick(one))
    _done(command, one, "switchover", "--to", "two")
    return two


def _returns(line: Line, root: LineNode, *, below: str) -> str:
    """Its worker runs once: it refuses events and says so; returns what it says."""
    done = line.here(root, "worker", "--once")
    assert f"was replaced by {below}: writes are refused" in done.err, done
    assert not takes_events(root.database, QUEUE)
    return done.err


def test_failed_root_follows_branch_to_a_successor_it_never_knew(
    line: Line, command: Command
) -> None:
    root, one = _pair(line)
    with closed(root.database):
        two = _replaced_twice(line, command, one)
    assert "londiste resurrect --node root" in _returns(line, root, below="two")
    assert takes_events(two.database, QUEUE)


def test_dropped_root_that_returns_is_fenced(line: Line, command: Command) -> None:
    root, one = _pair(line)
    with closed(root.database):
        _done(command, one, *TAKE)
        _done(command, one, "drop-node", "root")
    said = _returns(line, root, below="one")
    assert "resurrect" not in said
    assert takes_events(one.database, QUEUE)
    # A node of its name elsewhere is another one, below the present root or as the root itself.
    again = line.node("root", NodeType.BRANCH, one)
    again.config = again.config.rename(line.directory / "again.toml")
    line.configure(root)
    _returns(line, root, below="one")
    line.start(one)
    line.start(again)
    line.wait_position(again, line.tick(one))
    _done(command, one, "switchover", "--to", "root")
    _returns(line, root, below="another node root")
    assert takes_events(again.database, QUEUE)
    # The printed statement drops the old node only.
    printed = re.search(r"select pgq_node.drop_node\(.*?\)", said)
    assert printed is not None
    root.database.execute(printed[0])
    _done(command, root, "create-branch", "back", root.database.dsn, "--provider", one.database.dsn)
    names = "select node_name from pgq_node.node_location order by 1"
    assert again.database.execute(names) == [("back",), ("one",), ("root",)]


def test_leaf_that_has_read_further_is_made_again_by_the_hint(line: Line) -> None:
    root, one = _pair(line)
    leaf = line.node("leaf", NodeType.LEAF, root)
    line.tick(root)
    line.once(one)
    line.tick(root)
    line.once(leaf)
    with closed(root.database), closed(leaf.database):
        done = line.here(one, "takeover", "root", "--dead-root", "--timeout", "0")
        assert done.code == 0, done
    refused = line.here(root, "resurrect", "--undo")
    assert refused.code == 3 and "leaf has read from root up to tick" in refused.err, refused
    said = re.search(
        r"hint: create it again: (.*); then repeat the command; and, (.*)", refused.err
    )
    assert said is not None, refused
    drop, (whose, create) = said[1], said[2].split(": ", 1)
    assert whose == "with the settings of leaf"
    assert drop == "londiste drop-node leaf"
    for at, words in ((root, drop), (root, "londiste resurrect --undo"), (leaf, create)):
        done = line.here(at, *shlex.split(words)[1:])
        assert done.code == 0, done
    kinds = "select node_type from pgq_node.node_info"
    assert (root.database.value(kinds), leaf.database.value(kinds)) == ("branch", "leaf")


def test_node_made_again_in_place_of_a_dropped_one_becomes_the_root(
    line: Line, command: Command
) -> None:
    root, one = _pair(line)
    with closed(root.database):
        _done(command, one, *TAKE)
        _done(command, one, "drop-node", "root")
    root.database.execute("select pgq_node.drop_node(%s, 'root')", QUEUE)
    _done(command, root, "create-branch", "root", root.database.dsn, "--provider", one.database.dsn)
    line.start(one)
    line.start(root)
    line.wait_position(root, line.tick(one))
    _done(command, one, "switchover", "--to", "root")
    with root.database.connect(autocommit=True) as conn:
        assert replaced_by(conn, QUEUE, "root") is None
    assert takes_events(root.database, QUEUE)


def test_another_cascade_with_the_same_names_fences_nobody(line: Line, command: Command) -> None:
    root, one = _pair(line)
    with closed(root.database):
        _done(command, one, "tag-dead", "root")
        one.database.execute("select pgq_node.drop_node(%s, 'one')", QUEUE)
        _done(command, one, "create-root", "one", one.database.dsn)
    with root.database.connect(autocommit=True) as conn:
        assert replaced_by(conn, QUEUE, "root") is None
    with one.database.connect(autocommit=True) as conn:
        assert replaced_by(conn, QUEUE, "one") is None


def test_paused_root_is_fenced_and_keeps_sequences_ahead(line: Line, command: Command) -> None:
    root, one = _pair(line)
    root.database.execute("create sequence s")
    _done(command, root, "add-seq", "s")
    root.database.execute("update pgq_node.local_state set paused = true")
    root.database.execute("select setval('s', 50000)")
    done = line.here(root, "worker", "--once")
    assert "worker is paused" in done.err, done
    assert root.database.value("select last_value from londiste.get_seq_list(%s)", QUEUE) > 50000
    with closed(root.database):
        _done(command, one, *TAKE)
    _returns(line, root, below="one")


def test_mark_of_a_failed_root_stays_while_its_successor_may_be_silent(
    line: Line, command: Command
) -> None:
    root, one = _pair(line)
    with closed(root.database):
        two = _replaced_twice(line, command, one)
        with closed(one.database):
            refused = command(two, "tag-alive", "root")
            assert refused.code == 6, refused
            assert "one does not answer, and may have replaced root" in refused.err
    with closed(one.database):
        # It answers as a root now.
        assert command(two, "tag-alive", "root").code == 6
    refused = command(two, "tag-alive", "root")
    assert refused.code == 3 and "londiste resurrect --node root" in refused.err, refused
    # Cleared by another program: the gravestone is left.
    for node in (one, two):
        node.database.execute("select pgq_node.register_location(%s, 'root', null, false)", QUEUE)
    _returns(line, root, below="two")


def test_root_that_has_moved_is_not_fenced_by_a_branch_that_has_missed_it(
    three: tuple[Node, Node, Node],
) -> None:
    root, one, _ = three
    one.db.execute("update pgq_node.node_location set dead = true where node_name = 'root'")
    root.db.execute("update pgq_node.node_location set node_location = node_location || ' '")
    with root.connect(autocommit=True) as conn:
        assert replaced_by(conn, "q", "root") is None


def _root(name: str, **facts: bool) -> Report:
    return Report(name, **facts)


def _below(name: str, provider: str, **facts: bool) -> Report:
    return Report(name, provider, **facts)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([], None),
        ([_root("one")], None),
        ([_root("one", dead=True)], Successor("one", False)),
        ([_root("one", listed=False)], None),
        ([_root("one", listed=False, dropped=True)], Successor("one", False)),
        # Nodes below the root, while it was thought to have failed.
        ([_below("one", "root", dead=True), _below("two", "one", dead=True)], None),
        # Its provider is silent: it may read from the root.
        ([_below("two", "one", dead=True)], None),
        ([_below("two", "one", keeps=True)], Successor("one", True)),
        ([_below("two", "new", dead=True)], Successor("new", False)),
        # What it has missed: the present root, or an old one, knows it alive.
        ([_root("one"), _below("two", "one", dead=True)], None),
        ([_root("one", listed=False), _below("two", "one", dead=True)], Successor("one", False)),
        ([_root("one"), _below("two", "one", keeps=True)], Successor("one", True)),
        ([_below("one", "two", keeps=True), _below("two", "one", dead=True)], None),
    ],
)
def test_successor_by_what_others_say(answers: list[Report], expected: Successor | None) -> None:
    found = {one.name: one for one in answers}
    assert successor("root", {"root", "one", "two"}, found) == expected
