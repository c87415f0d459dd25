"""A partition that is detached on a subscriber is found on all nodes that look."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.copy import setup
from londiste.db.names import TableName
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes, silent
from tests.support.suite.slow import first

DDL = """
    create table m (id int primary key) partition by range (id);
    create table m1 partition of m for values from (0) to (10);
    create table m2 partition of m for values from (10) to (20) partition by range (id);
    create table m3 partition of m2 for values from (10) to (20);
"""
ATTACH = "alter table m attach partition m1 for values from (0) to (10)"
DETACH = "alter table m detach partition m1"


@pytest.fixture(params=first([NodeType.BRANCH, NodeType.LEAF]), ids=str)
def below(nodes_of: Nodes, londiste: CommandLine, request: pytest.FixtureRequest) -> Node:
    root = nodes_of.root()
    node = nodes_of.below(root, "below", request.param)
    for one, words in ((root, ()), (node, ("--expect-sync",))):
        one.db.execute(DDL)
        assert londiste(one.db, "add-table", "m", *words).code == 0
    return node


def found(node: Node, londiste: CommandLine, *command: str) -> list[dict[str, Any]]:
    findings = londiste(node.db, *command, "--json").json["findings"]
    return [one for one in findings if one["kind"] == "partition-detached"]


def detached(node: Node) -> list[str]:
    rows = node.db.execute("select partition from londiste.detached_partitions(%s)", QUEUE)
    return [name for (name,) in rows]


def maintain(node: Node) -> None:
    node.db.execute("select londiste.periodic_maintenance()")


def test_a_detached_partition_is_critical_until_it_is_back(
    nodes_of: Nodes, below: Node, londiste: CommandLine
) -> None:
    looks = (("check",), ("status", "--check"))
    for look in looks:
        assert found(below, londiste, *look) == []
    below.db.execute(DETACH)
    for _ in range(2):
        for look in looks:
            [one] = found(below, londiste, *look)
            assert one["severity"] == "critical"
            assert "table public.m has lost its partition public.m1" in one["what"]
        [one] = found(nodes_of.nodes["root"], londiste, "check", "--all-nodes")
        # It is kept, too.
        maintain(below)
    below.db.execute(ATTACH)
    maintain(below)
    assert detached(below) == []


def test_one_that_is_accepted_dropped_or_detached_by_a_script_is_none(below: Node) -> None:
    below.db.execute("alter table m detach partition m2")
    assert detached(below) == ["public.m3"]
    below.db.execute("select londiste.accept_rewrite(%s, 'public.m')", QUEUE)
    assert detached(below) == []
    below.db.execute(DETACH)
    assert detached(below) == ["public.m1"]
    below.db.execute("drop table m1")
    assert detached(below) == []
    # One that is added later is known from the next maintenance on.
    below.db.execute("create table m4 partition of m for values from (20) to (30)")
    maintain(below)
    with below.connect() as conn, conn.transaction():
        args = (QUEUE, "one.sql", "alter table m detach partition m4", False)
        conn.execute("select londiste.execute_start(%s, %s, %s, %s)", args)
        conn.execute("alter table public.m detach partition public.m4")
        conn.execute("select londiste.execute_finish(%s, 'one.sql')", [QUEUE])
    assert detached(below) == []


def test_partitions_of_an_older_release_are_known_from_the_first_maintenance_on(
    below: Node,
) -> None:
    below.db.execute("update londiste.table_version set partitions = null")
    maintain(below)
    below.db.execute(DETACH)
    assert detached(below) == ["public.m1"]


def test_the_root_has_its_own_finding(nodes_of: Nodes, below: Node) -> None:
    root = nodes_of.nodes["root"]
    root.db.execute(DETACH)
    assert detached(root) == []


@pytest.mark.parametrize("below", [NodeType.BRANCH], indirect=True)
def test_a_branch_without_the_partition_does_not_become_the_root_unasked(
    nodes_of: Nodes, below: Node, londiste: CommandLine
) -> None:
    below.db.execute(DETACH)
    root = nodes_of.nodes["root"]
    commands = (
        ("switchover", "--to", "below", "--dry-run"),
        ("takeover", "root", "--failover", "--dry-run"),
    )
    for command in commands:
        with contextlib.ExitStack() as stack:
            if command[0] == "takeover":
                stack.enter_context(silent(root))
            refused = londiste(below.db, *command)
        assert refused.code == 3
        assert "table public.m of below has lost its partition public.m1" in refused.err
        assert "londiste resync public.m" in refused.err
    sides: Any = SimpleNamespace(provider=below.connect(), queue=QUEUE)
    with sides.provider:
        assert setup.lost_captures(sides) == {TableName("public", "m")}


@pytest.mark.parametrize("below", [NodeType.LEAF], indirect=True)
def test_another_copy_is_refused_before_the_rows_are_gone(
    nodes_of: Nodes, below: Node, londiste: CommandLine
) -> None:
    rows = "set session_replication_role = replica; insert into m values (1), (11)"
    for node in (nodes_of.nodes["root"], below):
        node.db.execute(rows)
    below.db.execute(DETACH)
    below.db.execute("drop table m2")
    refused = londiste(below.db, "resync", "m")
    assert refused.code == 3, refused.err
    assert "no partition on this node takes the rows of public.m1, public.m2 of" in refused.err
    told = refused.err.partition("in the database of this node: ")[2]
    statements, _, then = told.rpartition("; ")
    assert then.strip() == "then repeat the command"
    assert statements.startswith('alter table "public"."m" attach partition "public"."m1"')
    state = "select merge_state from londiste.table_info"
    assert below.db.execute(state) == [("ok",)]
    below.db.execute(statements)
    assert londiste(below.db, "resync", "m").code == 0
    assert below.db.execute(state) == [(None,)]
    assert below.db.execute("select count(*) from pg_partition_tree('m')") == [(4,)]
