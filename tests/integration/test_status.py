"""Status asks every node, and shows also those that do not answer."""

from __future__ import annotations

import psycopg

from londiste.cascade import nodes
from londiste.cascade.types import NodeType
from londiste.db.names import TableName
from londiste.monitor import status
from londiste.replication import tables
from tests.fix_cascade import QUEUE, CommandLine, Nodes


def test_every_node_is_shown_with_its_tables_and_position(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    root.db.execute("create table a (id int primary key); create table b (id int primary key)")
    londiste(root.db, "add-table", "--all")
    londiste(leaf.db, "add-table", "a", "--create", "--expect-sync")
    londiste(leaf.db, "add-table", "b", "--create")
    with leaf.connect() as conn:
        tables.global_add_table(conn, QUEUE, TableName("public", "c"))
        nodes.set_consumer_error(conn, QUEUE, leaf.worker, "first line\nsecond line")
    tick = root.tick()
    root.db.execute("update pgq.tick set tick_time = now() - interval '90 s' where tick_id = 1")
    found = status.collect(leaf.dsn, QUEUE)
    assert found.local == "leaf"
    top, below = found.node("root"), found.node("leaf")
    assert (str(top.tables), str(below.tables)) == ("2/0/0", "1/1/1")
    assert (top.tick, below.tick) == (tick, 1)
    assert top.lag is not None
    assert top.lag < 60
    assert below.lag is not None
    assert 90 <= below.lag < 150
    assert below.errors == ((leaf.worker, "first line"),)
    shown = londiste(root.db, "status")
    assert shown.code == 0
    assert "Queue: q   Local node: root" in shown.out
    assert "  +--: leaf (leaf)" in shown.out
    assert "Tables: 1/1/1" in shown.out
    assert "NOT UPTODATE" in shown.out
    assert f"ERR: {leaf.worker}: first line" in shown.out
    assert len(londiste(root.db, "status", "--compact").out.splitlines()) == 2
    names = [node["name"] for node in londiste(root.db, "status", "--json").json["nodes"]]
    assert names == ["leaf", "root"]


def test_tables_that_are_no_longer_captured_are_shown(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for name in "abcde":
        root.db.execute(f"create table {name} (id int primary key)")
    londiste(root.db, "add-table", "a", "b", "c", "d")
    londiste(root.db, "add-table", "e", "--no-triggers")
    assert status.collect(leaf.dsn, QUEUE).node("root").errors == ()
    root.db.execute("drop table a; create table a (id int primary key)")
    root.db.execute("alter table b rename to bb")
    root.db.execute("alter table c disable trigger user")
    end = ": its changes are not replicated"
    assert status.collect(leaf.dsn, QUEUE).node("root").errors == (
        ("capture", f"table public.a has lost its capture trigger{end}"),
        ("capture", f"table public.b is gone, or has another name{end}"),
        ("capture", f"table public.c has its capture trigger disabled{end}"),
    )
    assert "ERR: capture: table public.a has lost" in londiste(leaf.db, "status").out
    # removed and added again, all is well
    for command in ("remove-table", "add-table"):
        assert londiste(root.db, command, "a").code == 0
    assert len(status.collect(root.dsn, QUEUE).node("root").errors) == 2


def test_lag_does_not_depend_on_the_servers_interval_style(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for style in ("iso_8601", "sql_standard", "postgres_verbose"):
        for node in (root, leaf):
            node.db.execute(f"alter database {node.db.name} set IntervalStyle = '{style}'")
        found = status.collect(root.dsn, QUEUE)
        assert all(n.lag is not None and 0 <= n.lag < 60 for n in found.nodes)


def test_a_node_that_does_not_answer_is_shown_as_dead(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    root.tick()
    with root.connect() as conn:
        nodes.register_location(conn, QUEUE, "branch", "host=/nowhere dbname=gone")
    found = status.collect(root.dsn, QUEUE)
    assert found.node("branch").type == "dead"
    assert found.node("branch").unreachable
    assert found.node("leaf").tick == 1
    answer = londiste(root.db, "status")
    assert answer.code == 0
    assert "branch (dead)" in answer.out
    assert "leaf (leaf)" in answer.out
    # Without the root nobody's lag is known, and the rest is shown all the same.
    with leaf.connect() as conn:
        nodes.register_location(conn, QUEUE, "root", "host=/nowhere dbname=gone")
    shown = londiste(leaf.db, "status")
    assert "root (dead)" in shown.out
    assert "Lag: ?" in shown.out


def test_a_location_that_leads_to_another_node_is_an_error_of_that_node(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    with psycopg.connect(root.dsn, autocommit=True) as conn:
        conn.execute("update pgq_node.node_location set node_location = %s", [leaf.dsn])
    found = status.collect(root.dsn, QUEUE)
    assert found.node("leaf").tick == 1
    # The local node is asked by the connection string of the settings.
    assert found.node("root").tick is not None
    with leaf.connect() as conn:
        nodes.register_location(conn, QUEUE, "root", leaf.dsn)
    assert "lives node leaf" in status.collect(leaf.dsn, QUEUE).node("root").unreachable
