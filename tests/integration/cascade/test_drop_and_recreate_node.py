"""A dropped node leaves no trace, and its name can be used again."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line

SCHEMA = "create table t (id int8 primary key, v text)"


@pytest.mark.slow
def test_a_node_is_created_again_under_the_name_of_one_that_was_dropped(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    # Another node keeps the watermark in front of the message.
    line.node("other", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "t")
    line.tick()
    line.once(leaf)
    assert line.here(root, "drop-node", "leaf").code == 0
    line.tick()
    again = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(again, "t")
    root.database.execute("insert into t values (1, 'a')")
    tick = line.tick()
    line.once(again)
    assert line.error(again) is None
    assert line.position(again) >= tick
    assert again.database.execute("select * from t") == [(1, "a")]
    assert "leaf" in line.here(root, "members").out


def test_consumers_of_copies_go_with_the_node(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA)
    line.node("leaf2", NodeType.LEAF, branch, schema=SCHEMA)
    copies = ("leaf_worker.copy.public.t", "leaf_worker.copy.group:1", "leaf2_worker.copy.public.t")
    for node in (root, branch):
        for name in copies:
            node.database.execute("select pgq.register_consumer(%s, %s)", QUEUE, name)
    assert line.here(root, "drop-node", "leaf").code == 0
    for node in (root, branch):
        left = node.database.execute(
            "select consumer_name from pgq.get_consumer_info() where consumer_name like '%.copy.%'"
        )
        assert left == [("leaf2_worker.copy.public.t",)]


def test_consumers_of_copies_go_with_a_node_of_which_the_provider_hears_later(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA)
    branch.database.execute("select pgq.register_consumer(%s, 'leaf_worker.copy.public.t')", QUEUE)
    root.database.execute("select pgq_node.unregister_location(%s, 'leaf')", QUEUE)
    line.tick()
    line.once(branch)
    left = branch.database.execute(
        "select consumer_name from pgq.get_consumer_info() where consumer_name like 'leaf%'"
    )
    assert left == []


def test_a_provider_that_hears_late_of_the_drop_keeps_the_new_node_of_that_name(
    line: Line,
) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA)
    line.add(root, "t")
    line.add(branch, "t")
    line.tick()
    line.once(branch)
    assert line.here(root, "drop-node", "leaf").code == 0
    again = line.node("leaf", NodeType.LEAF, branch, schema=SCHEMA)
    line.add(again, "t")
    root.database.execute("insert into t values (1, 'a')")
    tick = line.tick()
    line.once(branch)
    line.once(again)
    assert line.position(again) >= tick
    assert line.error(again) is None
    assert again.database.execute("select * from t") == [(1, "a")]
    # The same node, dropped for good while its provider does not hear it.
    root.database.execute("select pgq_node.unregister_location(%s, 'leaf')", QUEUE)
    line.tick()
    line.once(branch)
    left = branch.database.execute(
        "select consumer_name from pgq.get_consumer_info() where consumer_name like '%leaf%'"
    )
    assert left == []
