"""``move-node``: a node whose database has another name is reached again by all others."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import psycopg

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import closed
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line, LineNode

MADE = "create table a (id int primary key)"
ROWS = "select id from a order by id"
LOCATION = "select node_location from pgq_node.node_location where node_name = 'root'"


def _cascade(line: Line) -> tuple[LineNode, LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=MADE)
    branch = line.node("branch", NodeType.BRANCH, root, schema=MADE)
    leaf = line.node("leaf", NodeType.LEAF, branch, schema=MADE)
    for node in (root, branch, leaf):
        line.add(node, "public.a")
        _pass(line, branch, leaf)
    return root, branch, leaf


def _pass(line: Line, *nodes: LineNode) -> None:
    line.tick()
    for node in nodes:
        line.once(node)


def _rename(line: Line, node: LineNode) -> None:
    """The database gets another name, and the node's own settings have it."""
    database = node.database
    database.close()
    with psycopg.connect(database.cluster.dsn(), autocommit=True) as conn:
        conn.execute(f"alter database {database.name} rename to {database.name}_moved".encode())
    database.name += "_moved"
    database._session = None
    line.configure(node)


def test_all_nodes_find_a_root_with_another_address(line: Line) -> None:
    root, branch, leaf = _cascade(line)
    _rename(line, root)
    root.database.execute("insert into a values (1)")
    line.tick()
    assert line.here(branch, "worker", "--once").code != 0
    found = line.here(leaf, "check", "--all-nodes")
    assert "move-node root CONNECTION" in found.out + found.err, str(found)
    # It reads from there, but whether that is in order is not known.
    same = line.here(branch, "change-provider", "--provider", "root")
    assert same.code == 6 and "londiste move-node root CONNECTION" in same.err, str(same)
    with closed(leaf.database):
        shown = line.here(branch, "move-node", "root", root.database.dsn, "--dry-run")
        assert shown.code == 0 and "node leaf does not answer" in shown.err, str(shown)
        moved = line.here(branch, "move-node", "root", root.database.dsn)
        assert moved.code == 6, str(moved)
        assert "node leaf did not answer" in moved.err
    assert leaf.database.value(LOCATION) != root.database.dsn
    # With the settings of any node; what is done is left alone.
    again = shlex.split(moved.err.partition("with their settings: londiste ")[2])
    assert again == ["move-node", "root", root.database.dsn]
    done = line.here(leaf, *again)
    assert done.code == 0, str(done)
    assert "nothing to do" in line.here(root, *again).err
    for node in (root, branch, leaf):
        assert node.database.value(LOCATION) == root.database.dsn
    for node in (branch, leaf):
        line.once(node)
        assert node.database.execute(ROWS) == [(1,)]


def test_a_string_that_leads_elsewhere_is_refused(
    line: Line, new_database: Callable[..., Database]
) -> None:
    root, _branch, leaf = _cascade(line)
    for dsn, reason in (
        (leaf.database.dsn, "node leaf of queue line, not node root"),
        (new_database(pgq=True).dsn, "no node of queue line, not node root"),
        (f"{root.database.dsn} password=x", "holds a password"),
    ):
        refused = line.here(leaf, "move-node", "root", dsn)
        assert refused.code == 2 and reason in refused.err, str(refused)
    assert line.here(leaf, "move-node", "roof", root.database.dsn).code == 2
    copy = f"{root.database.name}_copy"
    root.database.clone(copy)
    try:
        refused = line.here(leaf, "move-node", "root", root.database.cluster.dsn(copy))
    finally:
        root.database.cluster.drop_database(copy)
    assert refused.code == 3 and "still answers at its old location" in refused.err, str(refused)
    for node in (root, leaf):
        assert node.database.value(LOCATION) == root.database.dsn
