"""Before a root is closed its ticks wait for the branch that is to take its place."""

from __future__ import annotations

import threading

from londiste.cascade.model import NodeType
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.cascade.switching.steps.waits import drained
from londiste.orchestration.connections import Connections
from tests.fixtures.cascade import QUEUE, Node, Nodes
from tests.support.waiting import wait_for


def _drained(branch: Node, root: Node) -> bool:
    with Connections(name="test") as sites:
        return drained(
            sites, NodeAddress("branch", branch.dsn), NodeAddress("root", root.dsn), QUEUE
        )


def test_no_tick_is_made_and_writers_go_on_while_a_branch_comes_near(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    # Nobody works for the branch: it does not come near.
    root.tick()
    found: list[bool] = []
    waits = threading.Thread(target=lambda: found.append(_drained(branch, root)))
    waits.start()
    free = "select 1 from pgq.queue where queue_name = %s for no key update skip locked"
    wait_for(lambda: root.db.value(free, QUEUE) is None, what="the ticks to be held")
    root.db.execute("select pgq.insert_event(%s, 'x', 'y')", QUEUE)
    root.db.execute("select pgq.force_tick(%s)", QUEUE)
    made = root.db.value("select pgq.ticker()")
    assert waits.is_alive() and made == 0
    waits.join()
    assert found == [False]
    assert root.db.value("select pgq.ticker()") == 1


def test_a_branch_that_is_there_holds_nothing_up(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    assert _drained(branch, root)
    assert root.tick() > 0
