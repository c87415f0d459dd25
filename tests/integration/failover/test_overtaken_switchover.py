"""An interrupted switchover whose nodes were unreachable while another node took over."""

from __future__ import annotations

from pathlib import Path

import pytest

from londiste.cascade.switching import switchover
from londiste.cascade.switching.cluster_state import look
from londiste.cascade.switching.steps.notes import Begin
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections
from tests.fixtures.cascade import QUEUE, CommandLine, Node, silent, takes_events
from tests.support.hints import plain
from tests.support.suite.slow import first

NOTES = "select operation from pgq_node.operation"
TYPE = "select node_type from pgq_node.node_info"
Three = tuple[Node, Node, Node]

FINISH = ("switchover", "--to", "one", "--timeout", "0", "--block", "0.1")
UNDO = ("switchover", "--to", "one", "--rollback")


def _closed(root: Node) -> None:
    """A switchover from root to one that is interrupted after the closing."""
    with Connections(name="test") as sites:
        scene = look(sites, root.dsn, QUEUE, "")
        switch = switchover.prepare(sites, scene, "one", timeout=0, block=1, warn=print)
        assert switch is not None
        plan.execute([s for s in switch.before if isinstance(s, Begin)], sites)
        plan.execute(switch.closing[:1], sites)


@pytest.fixture
def overtaken(three: Three, londiste: CommandLine) -> Three:
    """root -> one is interrupted, and two is the root."""
    root, one, two = three
    _closed(root)
    with silent(root, one):
        assert londiste(two.db, "tag-dead", "one").code == 0
        done = londiste(two.db, "takeover", "root", "--failover", "--timeout", "0")
        assert done.code == 0, done.err
    return three


def test_it_is_not_finished_beside_another_root(
    overtaken: Three, londiste: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _, one, two = overtaken
    shown = "node two is the root now; remove its records: londiste switchover --to one --rollback"
    assert shown in plain(" ".join(londiste(one.db, "status").out.split()))
    for argv in (FINISH, ("switchover", "--to", "root")):
        for node in overtaken:
            refused = londiste(node.db, *argv)
            assert refused.code == 3, refused
            assert "error: node two has become the root: the switchover from" in refused.err
            assert "hint: remove its records: londiste switchover --to one --rollback" in (
                refused.err
            )
    assert [takes_events(node.db, QUEUE) for node in overtaken] == [False, False, True]
    undone = londiste(one.db, *UNDO)
    assert undone.code == 0, undone.err
    assert undone.err.endswith(
        "the switchover to one is over: node two is the root\n"
        "next: londiste resurrect --node root\n"
    )
    assert [takes_events(node.db, QUEUE) for node in overtaken] == [False, False, True]
    assert [node.db.execute(NOTES) for node in overtaken] == [[], [], []]
    two.db.execute("select pgq.register_consumer('q', 'w_root')")
    taken = londiste(two.db, "resurrect", "--node", "root")
    assert taken.code == 2 and "consumer w_root is registered already" in taken.err, taken
    assert [node.db.execute(NOTES) for node in overtaken] == [[], [], []]
    two.db.execute("select pgq.unregister_consumer('q', 'w_root')")
    assert londiste(two.db, "resurrect", "--node", "root").code == 0
    assert londiste(two.db, "tag-alive", "one").code == 0
    one.db.execute("update pgq_node.local_state set uptodate = true, paused = true")
    moved = londiste(two.db, "change-provider", "--node", "one", "--provider", "two")
    assert moved.code == 0, moved.err
    assert [node.db.value(TYPE) for node in overtaken] == ["branch", "branch", "root"]


@pytest.mark.parametrize("away", first([0, 1]))
def test_its_record_is_removed_while_the_other_node_is_silent(
    overtaken: Three, londiste: CommandLine, away: int
) -> None:
    two = overtaken[2]
    with silent(overtaken[away]):
        undone = londiste(overtaken[1 - away].db, *UNDO)
        assert undone.code == 0, undone.err
        assert overtaken[1 - away].db.execute(NOTES) == []
    undone = londiste(overtaken[away].db, *UNDO)
    assert undone.code == 0, undone.err
    assert overtaken[away].db.execute(NOTES) == []
    assert [takes_events(node.db, QUEUE) for node in overtaken] == [False, False, True]
    assert two.db.value(TYPE) == "root"


def test_it_is_neither_finished_nor_undone_while_the_old_root_is_marked_as_failed(
    three: Three, londiste: CommandLine
) -> None:
    root, one, two = three
    _closed(root)
    one.db.execute("select pgq_node.register_location('q', 'root', null, true)")
    with silent(two):
        for argv in (FINISH, UNDO):
            refused = londiste(one.db, *argv)
            assert refused.code == 3, refused
            assert "error: node root is marked as failed, and another node may have" in refused.err
            assert "if no other node is the root: londiste tag-alive root" in refused.err
        assert not takes_events(root.db, QUEUE)
        # It may be the root now.
        assert londiste(one.db, "tag-alive", "root").code == 6
    assert londiste(one.db, "tag-alive", "root").code == 0
    assert londiste(one.db, *UNDO).code == 0
    assert [takes_events(node.db, QUEUE) for node in three] == [True, False, False]
