"""Commands with a wrong name of a table or node suggest the right one."""

from __future__ import annotations

import pytest

from tests.fixtures.cascade import CommandLine, Node, Nodes

TABLES = (
    ["add-table", "ordrs"],
    ["remove-table", "ordrs"],
    ["change-form", "ordrs", "row"],
    ["change-handler", "ordrs", "--handler", "nop"],
    ["triggers", "ordrs"],
    ["fkeys", "ordrs"],
    ["wait-sync", "ordrs"],
    ["copy", "status", "ordrs"],
    ["remove-seq", "ordrs"],
)
BELOW = (
    ["add-table", "ordrs"],
    ["change-policy", "ordrs", "keep_local"],
    ["resync", "ordrs"],
    ["compare", "ordrs"],
    ["columns", "ordrs"],
)
NODES = (
    ["switchover", "--to", "leav"],
    ["takeover", "leav"],
    ["drop-node", "leav"],
    ["tag-dead", "leav"],
    ["rename-node", "leav", "x"],
    ["change-provider", "--provider", "leav", "--node", "leaf"],
    ["pause", "--node", "leav"],
    ["node-info", "--node", "leav"],
)


@pytest.fixture
def pair(nodes_of: Nodes, londiste: CommandLine) -> tuple[Node, Node]:
    root = nodes_of.root()
    root.db.execute("create table orders (id int primary key); create sequence orders_seq")
    leaf = nodes_of.below(root, "leaf")
    leaf.db.execute("create table orders (id int primary key)")
    assert londiste(root.db, "add-table", "orders").code == 0
    assert londiste(root.db, "add-seq", "orders_seq").code == 0
    assert londiste(leaf.db, "add-table", "orders").code == 0
    return root, leaf


def test_the_nearest_name_is_suggested(pair: tuple[Node, Node], londiste: CommandLine) -> None:
    root, leaf = pair
    calls = [(root, one) for one in (*TABLES, *NODES)] + [(leaf, one) for one in BELOW]
    wrong = []
    for node, call in calls:
        answer = londiste(node.db, *call, job=node.worker)
        meant = "leaf" if call in NODES else "public.orders"
        if answer.code != 2 or f"hint: did you mean {meant}" not in answer.err:
            wrong.append((call, answer))
    assert not wrong, wrong
