"""Row filters and lists of columns that cannot be right are refused before anything is done."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import CommandLine, Node, Nodes

COLUMNS = "(id int primary key, region text, n numeric, doc jsonb, at timestamptz)"
SCHEMA = f"create table t {COLUMNS}; create table u {COLUMNS}"


@pytest.fixture
def root(nodes_of: Nodes, londiste: CommandLine) -> Node:
    node = nodes_of.root()
    node.db.execute(SCHEMA)
    assert londiste(node.db, "add-table", "t").code == 0
    return node


@pytest.fixture
def leaf(root: Node, nodes_of: Nodes) -> Node:
    node = nodes_of.below(root, "leaf")
    node.db.execute(SCHEMA)
    return node


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("region = ", "syntax error"),
        ("region", "must be type boolean"),
        ("true) or (true", "syntax error"),
        ("true -- all", "syntax error"),
        ("true; drop table t", "syntax error"),
        ("nope = 1", "does not exist"),
        ("at > now()", "IMMUTABLE"),
        ("n > (select 1)", "subquery"),
        ("count(*) > 1", "aggregate"),
        ("n = $1", "no parameter"),
        ("t.n = 1", "missing FROM-clause"),
    ],
)
def test_what_is_no_condition_is_refused(
    leaf: Node, londiste: CommandLine, where: str, words: str
) -> None:
    done = londiste(leaf.db, "add-table", "t", "--where", where)
    assert done.code == 2, str(done)
    assert words.lower() in done.err.lower()
    assert "hint:" in done.err
    assert "Traceback" not in done.err
    assert leaf.db.value("select count(*) from londiste.table_info where local") == 0


def test_filters_that_do_not_fit_are_refused_with_a_way_out(
    root: Node, leaf: Node, nodes_of: Nodes, londiste: CommandLine
) -> None:
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    branch.db.execute(SCHEMA)
    for node, args, words in (
        (root, ("--where", "n = 1"), "cannot exclude rows"),
        (branch, ("--where", "nope = 1"), "does not exist"),
        (leaf, ("--columns", "n"), "primary key"),
        (leaf, ("--columns", "id,nope"), "no such column"),
        (leaf, ("--skip-columns", "region", "--where", "region = 'eu'"), "reads column region"),
        (leaf, ("--columns", "id", "--skip-columns", "n"), "--columns excludes"),
        (leaf, ("--handler", "shart"), "unknown handler shart"),
        (leaf, ("--handler", "nop", "--handler-arg", "x=1"), "no option x"),
    ):
        done = londiste(node.db, "add-table", "t", *args)
        assert done.code == 2, str(done)
        assert words in done.err
        assert "hint:" in done.err
    assert londiste(root.db, "add-table", "u", "--trigger-arg", "ignore=nope doc").code == 0
    done = londiste(leaf.db, "add-table", "u", "--where", "n = 1")
    assert done.code == 2
    assert "--skip-columns doc" in done.err
    assert (
        londiste(leaf.db, "add-table", "u", "--where", "n = 1", "--skip-columns", "doc").code == 0
    )
