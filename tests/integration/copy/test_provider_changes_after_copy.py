"""A node switches its provider while changes since the copy of a table are replayed."""

from __future__ import annotations

import pytest

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.replication import sqlapi as tables
from londiste.replication.tablesync.handover import Handover
from tests.fixtures.cascade import QUEUE, Nodes
from tests.fixtures.line import Line
from tests.support.suite.slow import first


@pytest.mark.parametrize("tables", first([["a", "b", "c"], ["a"]]), ids=["together", "alone"])
def test_a_table_is_copied_again_when_its_node_reads_from_elsewhere(
    line: Line, tables: list[str]
) -> None:
    schema = ";".join(f"create table {name} (id int8 primary key, v text)" for name in tables)
    root = line.node("root", NodeType.ROOT, schema=schema)
    branch = line.node("branch", NodeType.BRANCH, root, schema=schema)
    for name in tables:
        root.database.execute(f"insert into {name} select i, 'old' from generate_series(1, 300) i")
        line.add(root, f"public.{name}")
        line.add(branch, f"public.{name}")
    line.start(branch)

    def states(name: str) -> set[str | None]:
        found = line.nodes[name].database.execute("select merge_state from londiste.table_info")
        return {state for (state,) in found}

    number = 0

    def write() -> None:
        nonlocal number
        number += 1
        for name in tables:
            root.database.execute(f"update {name} set v = %s where id %% 10 = 1", f"new {number}")
        line.tick()

    def all_are(node: str, state: str) -> bool:
        write()
        return states(node) == {state}

    line.wait(lambda: all_are("branch", "ok"), "the branch's tables", 60)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=schema)
    assert line.here(leaf, "add-table", *tables).code == 0
    # Its copy never gets beyond this, and is begun again and again.
    line.start(leaf, LONDISTE_CRASH="copy.mid-catch-up")
    line.wait(lambda: all_are("leaf", "catching-up"), "tables that catch up", 60)
    moved = line.here(leaf, "change-provider", "--node", "leaf", "--provider", "root")
    assert moved.code == 0, str(moved)
    assert leaf.worker is not None
    leaf.worker.stop()
    line.start(leaf)
    line.wait(lambda: all_are("leaf", "ok"), "tables that are in step", 90)
    assert "copy starts over" in line.processes.report()
    line.wait_position(leaf, line.tick())
    for name in tables:
        rows = f"select id, v from {name} order by id"
        assert leaf.database.execute(rows) == root.database.execute(rows)
    left = "select consumer_name from pgq.get_consumer_info() where consumer_name like '%%.copy.%%'"
    line.wait(lambda: not branch.database.execute(left), "no consumer of a copy at the branch")


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("state", first(["catching-up", "wanna-sync:1", "do-sync:1"]))
def test_a_table_from_a_lost_node_is_not_handed_over(
    nodes_of: Nodes, state: str, lost: bool
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        node.db.execute("create table t (id int4 primary key)")
        node.db.execute("select londiste.global_add_table('q', 'public.t')")
        node.db.execute("select londiste.local_add_table('q', 'public.t')")
    leaf.db.execute("update londiste.table_info set merge_state = %s", state)
    leaf.db.execute("select pgq_node.register_location('q', 'other', 'host=nowhere', %s)", lost)
    with leaf.connect(autocommit=True) as here, root.connect(autocommit=True) as there:
        worker = nodes.get_worker_state(here, QUEUE).worker
        nodes.register_consumer(here, QUEUE, f"{worker}.copy.public.t", "other", 1)
        handover = Handover(there, here, QUEUE, parallel=1)
        outlook = handover.step(1, tables.get_table_list(here, QUEUE))
    now = "in-copy" if lost else {"wanna-sync:1": "do-sync:1"}.get(state, state)
    assert [t.state for t in outlook.tables] == [now]
    assert leaf.db.value("select merge_state from londiste.table_info") == now
