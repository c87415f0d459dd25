"""Hints that create a node name it and its provider, or say where to write them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import londiste
from londiste.cascade.create_hint import again, create
from londiste.cascade.model import NodeType

#: A command without the node's name, or without its provider.
BARE = re.compile(r"(?:londiste|then|and|or) create-(?:branch|leaf)(?! (?:NAME|\{\}) --provider)")


def texts(path: Path) -> list[str]:
    """The strings of a module; ``{}`` for what is put in."""
    found = []
    nodes = list(ast.walk(ast.parse(path.read_text())))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            found.append(
                "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in node.values)
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def test_no_hint_leaves_out_the_name_or_the_provider() -> None:
    root = Path(londiste.__file__).parent
    assert {
        str(path.relative_to(root)): text
        for path in root.rglob("*.py")
        if "create-" in path.read_text()
        for text in texts(path)
        if BARE.search(text)
    } == {}


@pytest.mark.parametrize(
    ("made", "command"),
    [
        (create(NodeType.BRANCH), "londiste create-branch NAME --provider DSN"),
        (
            create(NodeType.LEAF, "l 1", "dbname=a host=b", provider="dbname=c", merge="all"),
            "londiste create-leaf 'l 1' 'dbname=a host=b' --provider dbname=c --merge all",
        ),
        (
            again(NodeType.LEAF, "leaf", provider="dbname=c"),
            "londiste drop-node leaf; then, with the settings of leaf:"
            " londiste create-leaf leaf --provider dbname=c",
        ),
    ],
)
def test_what_is_not_known_is_a_placeholder(made: str, command: str) -> None:
    assert made == command
