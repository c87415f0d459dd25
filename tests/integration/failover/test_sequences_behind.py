"""A sequence of a subscriber that is behind the published value: found, and moved."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import CommandLine, Node, Nodes, silent
from tests.fixtures.line import Command, Line

MADE = """
    create table t (id serial primary key);
    create sequence down increment -1;
    create sequence round maxvalue 60000 cycle;
    create sequence here;
"""
NAMES = ("t_id_seq", "down", "round", "here")
SET_BACK = """
    select setval('t_id_seq', 1), setval('down', -1), setval('round', 7);
    drop sequence here;
    create sequence here;
"""


def _behind(node: Node, londiste: CommandLine) -> dict[str, str]:
    """The findings of this kind: what is wrong, and what helps."""
    answer = londiste(node.db, "check", "--json").json["findings"]
    return {one["what"]: one["do"] for one in answer if one["kind"] == "sequence-behind"}


def _values(node: Node) -> list[int]:
    return [node.db.value(f"select last_value from {name}") for name in NAMES]


@pytest.fixture
def branch(nodes_of: Nodes, londiste: CommandLine) -> tuple[Node, Node]:
    """A root and a branch that replicate the sequences; those of the branch were set back."""
    root = nodes_of.root()
    below = nodes_of.below(root, "one", NodeType.BRANCH)
    for node in (root, below):
        node.db.execute(MADE)
        done = londiste(node.db, "add-seq", *NAMES)
        assert done.code == 0, done.err
    assert _values(below) == [30001, -30001, 30001, 30001]
    assert _behind(below, londiste) == {}
    below.db.execute(SET_BACK)
    return root, below


def test_a_sequence_that_is_behind_is_found_and_its_hint_moves_it(
    branch: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, one = branch
    found = _behind(one, londiste)
    assert set(found) == {
        f"node one: sequence public.{name} is behind the published value {value}"
        for name, value in (("t_id_seq", 30001), ("down", -30001), ("here", 30001))
    }
    assert _behind(root, londiste) == {}
    shown = "sequence-behind: sequence public.here is behind the published value: londiste check"
    assert shown in londiste(one.db, "status").out
    listed = londiste(one.db, "seqs")
    assert "sequence public.here is behind the published value: londiste check" in listed.err
    rows = londiste(one.db, "seqs", "--json").json["sequences"]
    assert {row["sequence"]: row["node_value"] for row in rows} == {
        "public.t_id_seq": 1,
        "public.down": -1,
        "public.round": 7,
        "public.here": None,
    }
    # Moved further than the published value: the hint never moves back.
    one.db.execute("select setval('t_id_seq', 40000)")
    for statement in found.values():
        one.db.execute(statement.partition(": ")[2])
    assert _values(one) == [40000, -30001, 7, 30001]
    assert _behind(one, londiste) == {}


def test_sequences_are_moved_before_a_failover_makes_a_branch_the_root(
    branch: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, one = branch
    with silent(root):
        done = londiste(one.db, "takeover", "root", "--failover", "--timeout", "0")
        assert done.code == 0, done.err
    assert "one: move sequences to their published values" in done.err
    assert one.db.value("select node_type from pgq_node.node_info") == "root"
    assert _values(one) == [30001, -30001, 7, 30001]
    assert one.db.value("select nextval('here')") == 30002


def test_a_worker_moves_sequences_at_its_start(line: Line, command: Command) -> None:
    root = line.node("root", NodeType.ROOT, schema=MADE)
    one = line.node("one", NodeType.LEAF, root, schema=MADE)
    for node in (root, one):
        assert command(node, "add-seq", "here").code == 0
    one.database.execute("drop sequence here; create sequence here")
    done = line.run(one, "worker", "--once")
    assert done.code == 0, str(done)
    assert "moved sequence public.here to its published value" in done.err
    assert one.database.value("select nextval('here')") == 30002
    assert "moved sequence" not in line.run(one, "worker", "--once").err


def test_the_old_root_of_a_switchover_is_not_behind(line: Line, command: Command) -> None:
    root = line.node("root", NodeType.ROOT, schema=MADE)
    one = line.node("one", NodeType.BRANCH, root, schema=MADE)
    for node in (root, one):
        assert command(node, "add-seq", "here", "down").code == 0
    root.database.execute("select nextval('here')")
    line.start(one)
    done = command(root, "switchover", "--to", "one")
    assert done.code == 0, done.err
    found = command(root, "check", "--json").json["findings"]
    assert [f["what"] for f in found if f["kind"] == "sequence-behind"] == []
    assert one.database.value("select nextval('here')") == 2
    assert one.database.value("select nextval('down')") == -1
