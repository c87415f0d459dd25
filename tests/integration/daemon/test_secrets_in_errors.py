"""A connection string given instead of a node's name: its password is in no message."""

from __future__ import annotations

import pytest

from tests.fixtures.cascade import CommandLine, Node, Nodes

SECRET = "SECRETPW"
STRINGS = (
    f"host=127.0.0.1 dbname=x password={SECRET}",
    f"host=127.0.0.1 password='{SECRET} it'",
    f"postgresql://me:{SECRET}@127.0.0.1/x",
)
COMMANDS = (
    ("change-provider", "--provider", "{}"),
    ("change-provider", "--provider={}"),
    ("switchover", "--to", "{}"),
    ("drop-node", "{}"),
    ("rename-node", "root", "{}"),
    ("rename-node", "{}", "other"),
    ("tag-dead", "{}"),
    ("takeover", "{}", "--node", "root"),
    ("takeover", "root", "--node", "{}"),
    ("--node", "{}", "status"),
    ("members", "{}"),
)


@pytest.fixture
def root(nodes_of: Nodes) -> Node:
    return nodes_of.root()


@pytest.mark.parametrize("string", STRINGS, ids=("words", "quoted", "uri"))
def test_no_message_shows_the_password(root: Node, londiste: CommandLine, string: str) -> None:
    for words in COMMANDS:
        answer = londiste(root.db, *(word.format(string) for word in words))
        assert answer.code != 0, words
        assert "error: " in answer.err
        assert SECRET not in answer.err + answer.out, words
