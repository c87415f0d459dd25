"""A branch without captures: its own rows first, and nothing for the nodes below."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from londiste.db.names import TableName
from londiste.replication.failover import readiness
from londiste.replication.model import ReplicatedTable
from tests.fixtures.cascade import CommandLine, Node, Nodes

T = TableName("public", "fruit")
HERE = (
    "londiste compare public.fruit, and londiste resync public.fruit where it differs; then"
    " londiste triggers --restore public.fruit"
)


@pytest.fixture
def branch(nodes_of: Nodes, londiste: CommandLine) -> Node:
    root = nodes_of.root()
    node = nodes_of.below(root, "branch", NodeType.BRANCH)
    for one, words in ((root, ()), (node, ("--expect-sync",))):
        one.db.execute("create table fruit (id int primary key, name text)")
        assert londiste(one.db, "add-table", "fruit", *words).code == 0
    return node


def test_the_rows_of_a_branch_come_before_its_capture_and_nodes_below_need_nothing(
    branch: Node, londiste: CommandLine
) -> None:
    branch.db.execute("alter table fruit disable trigger user")
    (found,) = (
        one
        for one in londiste(branch.db, "check", "--json").json["findings"]
        if one["kind"] != "worker"
    )
    assert (found["kind"], found["severity"]) == ("branch-capture", "warning")
    assert found["do"] == HERE
    restored = londiste(branch.db, "triggers", "--restore", "public.fruit")
    assert restored.code == 0
    assert "on every node below" not in restored.err
    assert "londiste compare public.fruit" in restored.err
    again = londiste(branch.db, "check", "--json").json["findings"]
    assert [one["kind"] for one in again] == ["worker"]


def test_a_branch_that_becomes_the_root_compares_while_the_old_root_answers() -> None:
    mine = [ReplicatedTable(T, T, True, "ok", None, {}, None, None, None)]
    lost = {T: "has lost its capture trigger"}

    def mend(old: list[ReplicatedTable] | None) -> str:
        (one,) = readiness.findings("branch", old, mine, None, [], lost, {})
        return one.mend

    assert mend(mine) == HERE.removeprefix("londiste ")
    # The provider is lost: a copy would wait for it.
    assert mend(None) == "triggers --restore public.fruit"
