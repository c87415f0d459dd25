"""A filter of a branch begins and ends only while no node below replicates the table."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import CommandLine, Nodes

SCHEMA = "create table t (id int primary key, mail text)"
OK = "update londiste.table_info set merge_state = 'ok'"
MASK = ("--handler", "obfuscate", "--handler-arg", 'rules={"id": "keep"}')


def test_a_filter_for_nodes_below_is_neither_removed_nor_added_under_them(
    nodes_of: Nodes, londiste: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONDISTE_OBFUSCATOR_KEY", "k3y-of-test")
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    for node in (root, branch, leaf):
        node.db.execute(SCHEMA)
    assert londiste(root.db, "add-table", "t").code == 0
    for filtered in (("--where", "id > 5"), ("--skip-columns", "mail"), MASK):
        added = londiste(branch.db, "add-table", "t", *filtered)
        assert added.code == 0, added.err
        branch.db.execute(OK)
        assert londiste(leaf.db, "add-table", "t").code == 0
        refused = londiste(branch.db, "remove-table", "t")
        assert refused.code == 3, refused.err
        assert "table public.t is replicated on node leaf, below the branch branch" in refused.err
        assert branch.db.value("select count(*) from londiste.table_info where local") == 1
        assert londiste(leaf.db, "remove-table", "t").code == 0
        assert londiste(branch.db, "remove-table", "t").code == 0
    # The rows of the leaf came past the branch.
    assert londiste(leaf.db, "add-table", "t", "--expect-sync").code == 0
    refused = londiste(branch.db, "add-table", "t", "--where", "id > 5")
    assert refused.code == 3 and "would keep rows that the branch excludes" in refused.err
    # Without a filter nothing changes for it.
    assert londiste(branch.db, "add-table", "t").code == 0
    assert londiste(branch.db, "remove-table", "t").code == 0
