"""A root with three tables, a leaf below it, and a cascade that runs scripts."""

from __future__ import annotations

import pytest

from tests.fixtures.cascade import Node, Nodes
from tests.fixtures.scripts import tree  # noqa: F401 -- fixture
from tests.support.servers.kept_nodes import kept_nodes


@pytest.fixture
@kept_nodes
def root(nodes_of: Nodes) -> Node:
    node = nodes_of.root()
    node.db.execute(
        """
        create table one (id int primary key, v text);
        create table two (id int primary key);
        create schema "S x";
        create table "S x"."T.y" (a int, b int, primary key (b, a));
        """
    )
    return node


@pytest.fixture
def leaf(root: Node, nodes_of: Nodes) -> Node:
    return nodes_of.below(root, "leaf")
