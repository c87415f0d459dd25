"""Changes of a cascade in which a node has the SQL of Londiste 3."""

from __future__ import annotations

import re

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.original import Original

TABLE = "create table t (id int primary key, v text)"


@pytest.fixture
def cascade(original: Original) -> Original:
    """Our root with two branches of ours, and a leaf of theirs below the root."""
    return made(original, "root")


def made(original: Original, above: str, kind: str = "leaf") -> Original:
    """The same with the node of theirs below another node, or of another kind."""
    nodes = {
        name: original.node(name, ours=name != "theirs")
        for name in ("root", "one", "two", "theirs")
    }
    for database in nodes.values():
        database.execute(TABLE)
    original.ours("root", "create-root", "root", nodes["root"].dsn)
    original.ours("root", "add-table", "t", "--trigger", "logutriga")
    for name in ("one", "two"):
        original.ours(
            name, "create-branch", name, nodes[name].dsn, f"--provider={nodes['root'].dsn}"
        )
        original.ours(name, "add-table", "t", "--expect-sync")
    original.theirs(
        "theirs", f"create-{kind}", "theirs", nodes["theirs"].dsn, f"--provider={nodes[above].dsn}"
    )
    original.theirs("theirs", "add-table", "t", "--expect-sync")
    original.tick()
    for name in ("root", "one", "two"):
        original.work(name, ours=True)
    original.work("theirs")
    return original


def test_nodes_of_ours_change_beside_one_of_theirs(cascade: Original) -> None:
    nodes = cascade.databases
    cascade.ours("root", "change-provider", "--node", "two", "--provider", "one")
    cascade.ours("root", "switchover", "--to", "one")
    cascade.ours("two", "pause")
    cascade.ours("two", "resume")
    nodes["one"].execute("insert into t values (1, 'a')")
    cascade.wait_equal("one", "theirs", "t")
    cascade.ours("one", "drop-node", "two")
    nodes["one"].execute("insert into t values (2, 'b')")
    cascade.wait_equal("one", "theirs", "t")
    cascade.ours("one", "execute", "--sql", "create table made ()", "--name", "made.sql")
    assert "no response" not in cascade.ours("one", "execute", "status")
    cascade.ours("theirs", "pause")
    cascade.ours("theirs", "resume")
    cascade.ours("one", "drop-node", "theirs")


def test_a_change_in_which_a_node_of_theirs_takes_part_is_refused_at_once(
    cascade: Original,
) -> None:
    before = cascade.ours("root", "members")
    said = cascade.ours("root", "change-provider", "--node", "theirs", "--provider", "one", fails=3)
    assert "SQL of Londiste 3" in said
    assert "londiste install --adopt" in said
    assert cascade.ours("root", "members") == before


def test_a_branch_is_taken_over_beside_a_node_of_theirs(cascade: Original) -> None:
    nodes = cascade.databases
    cascade.ours("root", "change-provider", "--node", "two", "--provider", "one")
    cascade.ours("root", "takeover", "one", "--node", "two")
    nodes["root"].execute("insert into t values (1, 'a')")
    cascade.wait_equal("root", "one", "t")
    cascade.wait_equal("root", "theirs", "t")
    cascade.stop("two")
    closed(nodes["two"], closed=True)
    cascade.ours("root", "takeover", "two", "--failover", "--node", "one", "--allow-resync")
    nodes["root"].execute("insert into t values (2, 'b')")
    cascade.wait_equal("root", "one", "t")
    cascade.wait_equal("root", "theirs", "t")


def test_a_takeover_that_moves_a_node_of_theirs_is_refused_until_it_is_adopted(
    cascade: Original,
) -> None:
    nodes = cascade.databases
    nodes["root"].execute("insert into t values (1, 'a')")
    for name in ("one", "two", "theirs"):
        cascade.wait_equal("root", name, "t")
    before = cascade.ours("root", "members")
    planned = (
        ["takeover", "theirs", "--node", "one"],
        ["takeover", "root", "--node", "one", "--all"],
        ["switchover", "--to", "one", "--all"],
    )
    for command in planned:
        _refused(cascade.ours("root", *command, fails=3))
        assert cascade.ours("root", "members") == before
    cascade.stop("root")
    closed(nodes["root"], closed=True)
    before = cascade.ours("one", "members")
    lost = ["takeover", "root", "--failover", "--node", "one"]
    _refused(cascade.ours("one", *lost, fails=3))
    assert cascade.ours("one", "members") == before
    # As the hint has it; the worker is still theirs.
    cascade.ours("theirs", "install", "--adopt")
    cascade.ours("one", *lost)
    nodes["one"].execute("insert into t values (2, 'b')")
    for name in ("two", "theirs"):
        cascade.wait_equal("one", name, "t")


def test_a_root_is_lost_and_comes_back_beside_a_node_of_theirs(original: Original) -> None:
    cascade = made(original, "one")
    nodes = cascade.databases
    nodes["root"].execute("insert into t values (1, 'a')")
    for name in ("one", "two", "theirs"):
        cascade.wait_equal("root", name, "t")
    cascade.stop("root")
    closed(nodes["root"], closed=True)
    cascade.ours("one", "takeover", "root", "--failover", "--node", "one")
    nodes["one"].execute("insert into t values (2, 'b')")
    for name in ("two", "theirs"):
        cascade.wait_equal("one", name, "t")
    closed(nodes["root"], closed=False)
    nodes["root"].execute("insert into t values (3, 'lost')")
    cascade.ours("one", "resurrect", "--node", "root", "--undo")
    cascade.work("root", ours=True)
    nodes["one"].execute("insert into t values (4, 'd')")
    for name in ("root", "two", "theirs"):
        cascade.wait_equal("one", name, "t")
    assert nodes["theirs"].value("select count(*) from pgq_node.node_location where dead") == 0


def test_no_worker_of_ours_is_sent_to_a_branch_of_theirs(original: Original) -> None:
    cascade = made(original, "root", "branch")
    nodes = cascade.databases
    nodes["root"].execute("insert into t values (1, 'a')")
    for name in ("one", "two", "theirs"):
        cascade.wait_equal("root", name, "t")
    before = cascade.ours("root", "members")
    planned = (
        (["change-provider", "--node", "one", "--provider", "theirs"], 4),
        (["takeover", "one", "--node", "theirs"], 4),
        (["switchover", "--to", "theirs"], 3),
    )
    for command, code in planned:
        _refused(cascade.ours("root", *command, fails=code))
        assert cascade.ours("root", "members") == before
    # It has more than the branches of ours when the root is lost.
    for name in ("one", "two"):
        cascade.stop(name)
    nodes["root"].execute("insert into t values (2, 'b')")
    cascade.wait_equal("root", "theirs", "t")
    cascade.stop("root")
    closed(nodes["root"], closed=True)
    before = cascade.ours("one", "members")
    for new, code in (("theirs", 3), ("one", 4)):
        _refused(cascade.ours("one", "takeover", "root", "--failover", "--node", new, fails=code))
        assert cascade.ours("one", "members") == before
    cascade.ours("theirs", "install", "--adopt")
    for name in ("one", "two"):
        cascade.work(name, ours=True)
    cascade.ours("one", "takeover", "root", "--failover", "--node", "one")
    for name in ("two", "theirs"):
        cascade.wait_equal("one", name, "t")
    assert nodes["one"].value("select count(*) from t") == 2


def _refused(said: str) -> None:
    assert re.search("node theirs has the (SQL|schemas) of Londiste 3", said)
    assert re.search("nothing (has been|was) changed", said)
    assert "londiste install --adopt" in said


def closed(database: Database, *, closed: bool) -> None:
    """The database answers nobody, or everybody again."""
    with psycopg.connect(database.cluster.dsn("postgres"), autocommit=True) as conn:
        conn.execute(f'alter database "{database.name}" with allow_connections {not closed}')
        if closed:
            conn.execute(
                "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s",
                [database.name],
            )
