"""Which findings stop ``replicate``, and which tables it leaves out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from londiste.cascade.commands.endpoint import Endpoint
from londiste.db.names import TableName
from londiste.db.structure.types import Lack
from londiste.monitor.doctor.facts import ColumnFacts, DatabaseFacts, MoreFacts, Table
from londiste.monitor.doctor.situation import Situation
from londiste.replicate import save
from londiste.replicate.databases import ReplicateSettings, Replication
from londiste.replicate.setup import Selection, Share
from londiste.replicate.verdict import Verdict, judge, together

A, B, C = NAMES = [TableName("public", name) for name in "abc"]
TABLES = tuple(
    Table(name, bytes=400, columns=(ColumnFacts("id", "bigint", key=1),)) for name in NAMES
)
FACTS = DatabaseFacts(tables=TABLES, more=MoreFacts(free_bytes=10_000))
LACK = Lack("collation", "s.c", "table public.c needs it", "create it", tables=frozenset([C]))


def situation(target: dict[str, Any] | None = None, **more: Any) -> Situation:
    """Two equal databases; target -- other fields of MoreFacts or of the target."""
    values = target or {}
    inner = {key: value for key, value in values.items() if hasattr(FACTS.more, key)}
    outer = {key: value for key, value in values.items() if key not in inner}
    return Situation(FACTS, replace(FACTS, **outer, more=replace(FACTS.more, **inner)), **more)


def narrow(*names: TableName) -> tuple[Table, ...]:
    """The tables of the target, these with a column that is too narrow."""
    short = (ColumnFacts("id", "integer", key=1),)
    return tuple(replace(t, columns=short) if t.name in names else t for t in TABLES)


def kinds(verdict: Verdict) -> tuple[list[str], list[str], dict[str, str]]:
    return (
        [one.kind for one in verdict.warnings],
        [one.kind for one in verdict.refusals],
        {name.name: one.kind for name, one in verdict.skipped.items()},
    )


@pytest.mark.parametrize(
    ("pair", "first", "later"),
    [
        (situation(), ([], [], {}), ([], [], {})),
        # A table that is replicated, then new ones.
        (situation({"tables": narrow(A)}), ([], ["structure"], {}), (["structure"], [], {})),
        (situation({"tables": narrow(B)}), ([], ["structure"], {}), ([], [], {"b": "structure"})),
        (
            situation({"with_rows": frozenset(NAMES), "replicated": frozenset([A])}),
            ([], ["rows"], {}),
            ([], [], {"b": "rows", "c": "rows"}),
        ),
        (
            situation({"tables": TABLES[:2]}, code=["function f"]),
            ([], ["code"], {}),
            ([], [], {"c": "code"}),
        ),
        # Of the two tables that the target lacks, one needs it.
        (
            situation({"tables": TABLES[:1]}, lacks=[LACK]),
            ([], ["object"], {}),
            ([], [], {"c": "object"}),
        ),
        # Each for itself would fit.
        (
            situation({"free_bytes": 500, "replicated": frozenset([A])}),
            ([], ["space"], {}),
            ([], [], {"b": "space", "c": "space"}),
        ),
        # What is about the databases.
        (situation({"standby": True}), ([], ["standby"], {}), ([], ["standby"], {})),
        (
            situation({"makes_schemas": False}),
            ([], ["create"], {}),
            (["create"], [], {"b": "create", "c": "create"}),
        ),
    ],
)
def test_a_set_up_that_works_is_refused_for_nothing_beside_it(
    pair: Situation, first: object, later: object
) -> None:
    assert kinds(judge(pair, NAMES, [])) == first
    # The warnings of what is said of new tables are not said of those that are not added.
    warnings, refusals, skipped = kinds(judge(pair, NAMES, [A]))
    assert ([one for one in warnings if one != "space"], refusals, skipped) == later
    # With no new table nothing is left out.
    assert judge(pair, [A], [A]).skipped == {}


def test_the_verdict_about_several_targets_says_each_thing_once() -> None:
    bad = judge(situation({"tables": narrow(A, B)}), NAMES, [A])
    good = judge(situation(), NAMES, [A])
    both = together([bad, good, bad])
    assert kinds(both) == (["structure"], [], {"b": "structure"})


def test_a_skipped_table_is_selected_by_the_saved_file_only() -> None:
    ends = (Endpoint(name, f"dbname={name}", f"dbname={name}", name) for name in "st")
    source, target = ends
    before = Share(
        Replication(ReplicateSettings(), "q", source, (target,)), Selection(("*",)), tuple(NAMES)
    )
    share = before.without([B])
    assert share.names == (A, C)
    assert share.selection.choose(NAMES, "here") == [A, C]
    texts = {save.text(one.replication, one.selection) for one in (before, share)}
    assert len(texts) == 1
