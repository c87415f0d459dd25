"""Tables below the root that are gone or were replaced are found before an event fails."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.copy import setup
from londiste.db.names import TableName
from londiste.errors import StateError
from londiste.replication.failover import readiness
from londiste.replication.model import ReplicatedTable
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.support.suite.slow import first

DDL = "create table fruit (id int primary key, name text)"
SWAPPED = f"alter table fruit rename to fruit_old; {DDL}"


@pytest.fixture(params=first([NodeType.BRANCH, NodeType.LEAF]), ids=str)
def below(nodes_of: Nodes, londiste: CommandLine, request: pytest.FixtureRequest) -> Node:
    root = nodes_of.root()
    node = nodes_of.below(root, "below", request.param)
    for one, words in ((root, ()), (node, ("--expect-sync",))):
        one.db.execute(DDL)
        assert londiste(one.db, "add-table", "fruit", *words).code == 0
    return node


def found(node: Node, londiste: CommandLine, *command: str) -> dict[str, dict[str, str]]:
    answer = londiste(node.db, *command, "--json").json
    return {
        one["kind"]: one
        for one in answer["findings"]
        if one["kind"] not in {"worker", "ticker", "lag", "unreachable"}
    }


def everywhere(node: Node, londiste: CommandLine) -> dict[str, str]:
    """Kinds and severities of status --check, of which check has all."""
    status = found(node, londiste, "status", "--check")
    check = found(node, londiste, "check")
    for kind, one in status.items():
        # A renamed table has one name in status, and another one in check.
        assert check["renamed" if kind == "capture" else kind]["severity"] == one["severity"]
    return {kind: one["severity"] for kind, one in status.items()}


def test_another_table_of_the_name_is_critical_until_it_was_compared(
    below: Node, londiste: CommandLine
) -> None:
    assert everywhere(below, londiste) == {}
    below.db.execute(SWAPPED)
    assert everywhere(below, londiste)["table-replaced"] == "critical"
    do = found(below, londiste, "check")["table-replaced"]["do"]
    assert do.startswith(
        "londiste compare public.fruit, and londiste resync public.fruit where it differs"
    )
    assert londiste(below.db, "status", "--check").code == 2
    below.db.execute(do.rpartition("equal: ")[2])
    assert "table-replaced" not in everywhere(below, londiste)


def test_a_table_that_is_gone_is_critical(below: Node, londiste: CommandLine) -> None:
    below.db.execute("alter table fruit rename to old; create view fruit as select * from old")
    # It is known by what it was.
    assert everywhere(below, londiste) == {"capture": "critical"}
    below.db.execute("drop view fruit; drop table old")
    assert everywhere(below, londiste) == {"missing": "critical"}


def test_a_branch_that_lost_a_capture_is_a_warning(below: Node, londiste: CommandLine) -> None:
    below.db.execute("alter table fruit disable trigger user")
    is_branch = below.db.value("select node_type from pgq_node.node_info") == "branch"
    assert everywhere(below, londiste) == ({"branch-capture": "warning"} if is_branch else {})


def test_rows_that_are_missing_block_a_promotion() -> None:
    name = TableName("public", "fruit")
    mine = [ReplicatedTable(name, name, True, "ok")]
    (blocker,) = readiness.findings("branch", mine, mine, None, [], {}, {}, {name: "was replaced"})
    assert blocker.mend == "resync public.fruit"
    assert "rows are missing" in blocker.problem


@pytest.mark.parametrize(
    ("answers", "mend"),
    [
        (True, "compare public.fruit, and londiste resync public.fruit where it differs"),
        (False, "check"),
    ],
)
def test_rows_that_may_differ_block_a_promotion(answers: bool, mend: str) -> None:
    name = TableName("public", "fruit")
    mine = [ReplicatedTable(name, name, True, "ok")]
    (blocker,) = readiness.findings(
        "branch", mine if answers else None, mine, None, [], {}, {}, rewritten=[name]
    )
    assert blocker.mend == mend
    assert "was changed on this node without events: its rows may differ" in blocker.problem


def test_a_branch_with_a_rewritten_table_is_not_promoted(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    for one, words in ((root, ()), (branch, ("--expect-sync",))):
        one.db.execute(DDL)
        assert londiste(one.db, "add-table", "fruit", *words).code == 0
    branch.db.execute("alter table fruit add rewritten int default 7")
    done = londiste(branch.db, "switchover", "--dry-run")
    assert done.code == 3 and "table public.fruit of branch was changed" in done.err, str(done)
    assert "londiste compare public.fruit, and londiste resync public.fruit where" in done.err
    branch.db.execute("select londiste.accept_rewrite(%s, 'public.fruit')", QUEUE)
    assert "rewritten" not in londiste(branch.db, "switchover", "--dry-run").err


def test_a_copy_waits_until_the_provider_has_its_own_rows(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    for one, words in ((root, ()), (branch, ("--expect-sync",))):
        one.db.execute(DDL)
        assert londiste(one.db, "add-table", "fruit", *words).code == 0
    branch.db.execute(SWAPPED)
    assert londiste(branch.db, "triggers", "--restore", "fruit").code == 0
    name = TableName("public", "fruit")
    with branch.connect() as conn:
        sides: Any = SimpleNamespace(provider=conn, queue=QUEUE, name=name)
        with pytest.raises(StateError, match="is not the table that was copied") as caught:
            setup.require_captured(sides, name)
        assert "londiste resync public.fruit" in caught.value.hint
        assert setup.lost_captures(sides) == {name}
        conn.execute("select londiste.accept_rewrite(%s, 'public.fruit')", [QUEUE])
        setup.require_captured(sides, name)
