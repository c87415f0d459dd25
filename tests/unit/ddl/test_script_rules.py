"""Columns that a script renames or replaces, and the rules of a node that name them."""

from __future__ import annotations

import pytest

from londiste.handlers.base import TableRules
from londiste.replication.ddl.agreement import lost_columns

BEFORE = {"id": 1, "email": 2, "nick": 3}
RENAMED = {"id": 1, "old": 2, "nick": 3}
READDED = {"id": 1, "old": 2, "nick": 3, "email": 4}
SWAPPED = {"id": 1, "nick": 2, "email": 3}
DROPPED = {"id": 1, "nick": 3}
REPLACED = {"id": 1, "nick": 3, "mail": 4}
AGAIN = {"id": 1, "nick": 3, "email": 4}
OTHER = {"id": 1, "email": 2, "alias": 3, "more": 4}

SKIP = TableRules(skip_columns=frozenset({"email"}))
BOTH = TableRules(skip_columns=frozenset({"email", "nick", "old"}))
ONLY = TableRules(columns=frozenset({"id", "email"}))
MASK = TableRules(columns=frozenset(BEFORE), changed=frozenset({"email"}))
MASKS = TableRules(columns=frozenset(BEFORE), changed=frozenset({"email", "nick"}))
WHERE = TableRules(where="email = 'x'")
SENT = TableRules(columns=frozenset({"id", "mail"}), renamed=(("mail", "email"),))

LOST = [
    (SKIP, RENAMED, ["email"], ["old"]),
    (SKIP, READDED, ["email"], ["old"]),
    (SKIP, SWAPPED, ["email", "nick"], ["email", "nick"]),
    (SKIP, REPLACED, ["email"], ["mail"]),
    (ONLY, RENAMED, ["email"], ["old"]),
    (ONLY, READDED, ["email"], ["old"]),
    (MASK, RENAMED, ["email"], ["old"]),
    (MASK, SWAPPED, ["email", "nick"], ["email", "nick"]),
    (MASKS, SWAPPED, ["email", "nick"], ["email", "nick"]),
    (WHERE, RENAMED, ["email"], ["old"]),
    (WHERE, READDED, ["email"], ["old"]),
    (WHERE, SWAPPED, ["email", "nick"], ["email", "nick"]),
    (SENT, SWAPPED, ["email", "nick"], ["email", "nick"]),
]
KEPT = [
    *((rules, BEFORE) for rules in (SKIP, BOTH, ONLY, MASK, MASKS, WHERE, SENT)),
    *((rules, DROPPED) for rules in (SKIP, BOTH, ONLY, MASK, MASKS, WHERE, SENT)),
    *((rules, AGAIN) for rules in (SKIP, BOTH, ONLY, MASK, MASKS, WHERE, SENT)),
    (BOTH, RENAMED),
    (BOTH, READDED),
    (BOTH, SWAPPED),
    (TableRules(columns=frozenset(BEFORE)), SWAPPED),
    (SKIP, OTHER),
    (WHERE, OTHER),
]


def condition(rules: TableRules) -> set[str]:
    return {"email"} if rules.where else set()


@pytest.mark.parametrize(("rules", "after", "gone", "taken"), LOST)
def test_a_value_that_a_rule_treats_in_another_way_is_found(
    rules: TableRules, after: dict[str, int], gone: list[str], taken: list[str]
) -> None:
    assert lost_columns(rules, condition(rules), BEFORE, after) == (gone, taken)


@pytest.mark.parametrize(("rules", "after"), KEPT)
def test_other_changes_of_columns_are_for_every_node(
    rules: TableRules, after: dict[str, int]
) -> None:
    assert lost_columns(rules, condition(rules), BEFORE, after) == ([], [])
