"""Row changes of a captured partitioned table that cause no event are errors in status."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = """
    create table m (id int, at int, primary key (id, at)) partition by range (at);
    create table m1 partition of m for values from (0) to (10);
"""
CHANGES = "select partition, wrong from londiste.partition_changes('line')"


@pytest.fixture
@kept_nodes
def root(line: Line) -> LineNode:
    node = line.node("root", NodeType.ROOT, schema=SCHEMA)
    line.add(node, "public.m")
    node.database.execute("insert into m values (1, 1)")
    maintain(node)
    return node


def maintain(root: LineNode) -> None:
    root.database.execute("select londiste.periodic_maintenance()")


def test_what_is_told_by_events_is_no_error(line: Line, root: LineNode) -> None:
    # By itself each statement, as a user does it.
    for statement in (
        "create table m2 partition of m for values from (10) to (20)",
        "insert into m values (2, 12)",
        "create table empty (like m including all)",
        "alter table m attach partition empty for values from (20) to (30)",
        "insert into m values (3, 22)",
        "create table gone partition of m for values from (30) to (40)",
    ):
        root.database.execute(statement)
    maintain(root)
    root.database.execute("alter table m detach partition gone")
    maintain(root)
    root.database.execute("drop table m2")
    maintain(root)
    assert root.database.execute(CHANGES) == []
    assert "ERR" not in line.here(root, "status").out


def test_a_partition_that_is_attached_or_detached_with_rows_is_an_error_until_it_is_settled(
    line: Line, root: LineNode
) -> None:
    for statement in (
        "create table full_one (like m including all)",
        "insert into full_one values (5, 15)",
        "alter table m attach partition full_one for values from (10) to (20)",
    ):
        root.database.execute(statement)
    root.database.execute("alter table m detach partition m1")
    for _ in range(2):
        maintain(root)
    attached = ("public.full_one", "was attached with rows, which subscribers did not get")
    detached = ("public.m1", "was detached with rows, which stay on subscribers")
    assert sorted(root.database.execute(CHANGES)) == [attached, detached]
    shown = line.here(root, "status").out
    assert (
        "ERR: partition: table public.m: partition public.full_one was attached with rows" in shown
    )
    assert (
        "partition public.m1 was detached with rows" in shown
        and "londiste resync public.m" in shown
    )
    checked = line.here(root, "check")
    assert checked.code == 2 and "partition public.m1 was detached" in checked.out
    settled = root.database.value("select londiste.settle_partitions(%s, 'public.m')", QUEUE)
    assert settled == 2
    maintain(root)
    assert root.database.execute(CHANGES) == []
    assert "ERR" not in line.here(root, "status").out


def test_a_partition_that_is_emptied_before_maintenance_is_an_error(
    line: Line, root: LineNode
) -> None:
    for statement in (
        "create table m2 partition of m for values from (10) to (20)",
        "insert into m values (2, 12)",
        "truncate m2",
    ):
        root.database.execute(statement)
    maintain(root)
    [(partition, wrong)] = root.database.execute(CHANGES)
    assert (
        partition == "public.m2"
        and "emptied or rewritten before its TRUNCATE was captured" in wrong
    )
    # From now on it is told.
    assert root.database.value("select londiste.settle_partitions(%s, 'public.m')", QUEUE) == 1
    root.database.execute("insert into m values (3, 13)")
    root.database.execute("truncate m2")
    maintain(root)
    assert root.database.execute(CHANGES) == []
