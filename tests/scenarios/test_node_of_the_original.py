"""Changes of a cascade in which a node has the SQL of Londiste 3."""

from __future__ import annotations

import pytest

from tests.fix_original import Original

TABLE = "create table t (id int primary key, v text)"


@pytest.fixture
def cascade(original: Original) -> Original:
    """Our root with two branches of ours, and a leaf of theirs below the root."""
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
        "theirs", "create-leaf", "theirs", nodes["theirs"].dsn, f"--provider={nodes['root'].dsn}"
    )
    original.theirs("theirs", "add-table", "t", "--expect-sync")
    original.tick()
    for name in ("root", "one", "two"):
        original.work(name, ours=True)
    original.work("theirs")
    return original


@pytest.mark.timeout(600)
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
    assert "no answer" not in cascade.ours("one", "execute", "status")
    cascade.ours("theirs", "pause")
    cascade.ours("theirs", "resume")
    cascade.ours("one", "drop-node", "theirs")


@pytest.mark.timeout(600)
def test_a_change_in_which_a_node_of_theirs_takes_part_is_refused_at_once(
    cascade: Original,
) -> None:
    before = cascade.ours("root", "members")
    said = cascade.ours("root", "change-provider", "--node", "theirs", "--provider", "one", fails=3)
    assert "SQL of Londiste 3" in said
    assert "londiste install --adopt" in said
    assert cascade.ours("root", "members") == before
