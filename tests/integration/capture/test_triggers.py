"""``londiste triggers`` lists triggers of replicated tables and repairs capture triggers."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.fixtures.cascade import CommandLine, Node, Nodes

SCHEMA = """
create table t (id int primary key, v text);
create function note() returns trigger language plpgsql as 'begin return new; end';
create trigger plain before insert on t for each row execute function note();
create trigger each after insert on t for each row execute function note();
alter table t enable always trigger each;
"""


@pytest.fixture
def pair(nodes_of: Nodes, londiste: CommandLine) -> tuple[Node, Node]:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")
    for node in (root, leaf):
        node.db.execute(SCHEMA)
    assert londiste(root.db, "add-table", "t", "--trigger-arg", "ignore=v").code == 0
    assert londiste(leaf.db, "add-table", "t", "--expect-sync").code == 0
    return root, leaf


def shown(node: Node, londiste: CommandLine) -> list[dict[str, Any]]:
    answer = londiste(node.db, "triggers", "--json")
    assert answer.code == 0, answer.err
    rows: list[dict[str, Any]] = answer.json["triggers"]
    return rows


def states(node: Node, londiste: CommandLine) -> set[str]:
    return {row["state"] for row in shown(node, londiste)}


def test_triggers_are_shown_with_when_they_fire(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, leaf = pair
    for node, kind in ((root, "capture"), (leaf, "deny")):
        rows = shown(node, londiste)
        assert {row["kind"] for row in rows} == {"user", kind}
        users = {row["trigger"]: (row["fires"], row["on_apply"]) for row in rows
                 if row["kind"] == "user"}  # fmt: skip
        assert users == {"plain": ("application", False), "each": ("always", True)}
        assert states(node, londiste) == {"ok"}
        assert londiste(node.db, "triggers", "--restore", "--dry-run").out == "nothing to do\n"


def test_a_capture_that_is_disabled_is_made_again_and_the_gap_is_said(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, _ = pair
    root.db.execute("alter table t disable trigger user")
    assert "lost" in states(root, londiste)
    answer = londiste(root.db, "triggers", "--restore")
    assert answer.code == 0, answer.err
    assert "londiste resync public.t" in answer.err
    assert states(root, londiste) == {"ok"}
    # Its options are those of before, and what the user disabled stays so.
    root.db.execute("insert into t values (1, 'secret')")
    root.tick()
    events = "select ev_data from pgq.event_template where ev_extra1 = 'public.t'"
    told = root.db.execute(events)
    assert len(told) == 1
    assert "secret" not in str(told)
    assert root.db.value("select tgenabled from pg_trigger where tgname = 'plain'") == "D"


def test_a_stale_capture_is_made_anew(pair: tuple[Node, Node], londiste: CommandLine) -> None:
    root, _ = pair
    root.db.execute("alter table t add w int")
    assert "stale" in states(root, londiste)
    answer = londiste(root.db, "triggers", "--restore")
    assert answer.code == 0, answer.err
    assert "resync" not in answer.err
    assert states(root, londiste) == {"ok"}


def test_a_leaf_that_no_longer_refuses_writes_is_named_and_mended(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    _, leaf = pair
    names = [row["trigger"] for row in shown(leaf, londiste) if row["kind"] == "deny"]
    for name in names:
        leaf.db.execute(f'drop trigger "{name}" on t')
    assert "missing" in states(leaf, londiste)
    # It may have been added so.
    assert londiste(leaf.db, "triggers", "--restore", "--dry-run").out == "nothing to do\n"
    assert londiste(leaf.db, "triggers", "t", "--restore").code == 0
    with pytest.raises(psycopg.Error):
        leaf.db.execute("insert into t values (1, 'x')")
    assert londiste(leaf.db, "triggers", "nope").code == 2
