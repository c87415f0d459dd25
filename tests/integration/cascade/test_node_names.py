"""Names of nodes: new ones are one word of a command, others that exist continue to work."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from londiste.cascade.commands.node_name import check_name
from londiste.cascade.model import NodeType
from londiste.errors import BadOption
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.fixtures.cluster import Database

ODD = "My 'node'"


@pytest.mark.parametrize(
    "name",
    ["a", "dc1.db-2_x@here", "a+b:c=d", "Größe", "узел", "नोड", "節点2", ".a", "_", "x" * 63],
)
def test_a_word_is_a_name(name: str) -> None:
    check_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", ": is empty"),
        ("one two", ": contains ' '"),
        ("a,b", ": contains ','"),
        ("a/b", ": contains '/'"),
        ("o'b", ': contains "\'"'),
        ("a$b", ": contains '$'"),
        ("a*", ": contains '*'"),
        ("a\n", ": contains '\\n'"),
        ("a\u200bb", ": contains '\\u200b'"),
        ("a\udc80", ": contains '\\udc80'"),
        ("-x", ": begins with -"),
        ("é" * 32, " is 64 bytes long"),
    ],
)
def test_anything_else_is_refused(name: str, why: str) -> None:
    with pytest.raises(BadOption) as refused:
        check_name(name)
    assert refused.value.message.endswith(why)


def test_create_and_rename_refuse_such_names(
    nodes_of: Nodes, new_database: Callable[..., Database], londiste: CommandLine
) -> None:
    root = nodes_of.root()
    below = nodes_of.below(root, "below", NodeType.BRANCH)
    new = new_database(pgq=True)
    provider = f"--provider={root.dsn}"
    for argv in (
        ("create-root", "one two"),
        ("create-branch", provider, "--", "-x"),
        ("create-leaf", "one two", provider),
    ):
        refused = londiste(new, *argv)
        assert (refused.code, "error: node name " in refused.err) == (2, True), refused
        assert "hint: use letters, digits and _ . - @ + : =" in refused.err
    refused = londiste(root.db, "rename-node", "below", "one two")
    assert (refused.code, "error: node name 'one two': contains ' '" in refused.err) == (2, True)
    assert below.db.value("select node_name from pgq_node.node_info") == "below"


def test_a_node_that_has_such_a_name_continues_to_work(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    odd = Node(ODD, nodes_of.below(root, "odd", NodeType.BRANCH).db)
    two = nodes_of.below(root, "two", NodeType.BRANCH)
    for node in (root, odd, two):
        node.db.execute("select pgq_node.register_location('q', 'odd', %s, false)", odd.dsn)
        node.db.execute("select pgq_node.rename_node(%s, 'odd', %s)", QUEUE, ODD)
    again = londiste(odd.db, "create-branch", ODD, f"--provider={root.dsn}", job="w_odd")
    assert again.code == 0, again.err
    odd.db.execute(
        "select pgq_node.begin_operation"
        "('q', null, 'change-provider', %s, 'two', 'me', 'root', false)",
        ODD,
    )
    refused = londiste(root.db, "rename-node", "two", "zwei")
    pasted = refused.err.partition("hint: finish it: londiste ")[2].partition(";")[0]
    assert shlex.split(pasted) == ["change-provider", "--node", ODD, "--provider", "two"]
    odd.db.execute("update pgq_node.local_state set uptodate = true, paused = true")
    done = londiste(root.db, *shlex.split(pasted))
    assert done.code == 0, done.err
    assert londiste(root.db, "rename-node", ODD, "odd").code == 0
