"""Page Drift: coverage of the continuous comparison, and rows that differ from the root's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from londiste.compare.audit import Coverage
from londiste.console.facts import Fact
from londiste.console.pages import common
from londiste.console.pages.common import Page, Request
from londiste.db.names import argument


@dataclass(frozen=True)
class CoverageRow:
    """A table that ``compare --continuous`` compares.

    ranges, compared -- ranges of the table, and those that have been compared.
    fraction -- compared ranges, 0 to 1.
    oldest -- time of the oldest of the newest comparisons.
    rows -- of the root, in the compared ranges.  differing -- rows that differ.
    kinds -- how they differ, with the number of recorded rows.
    repair -- the command that writes a plan for their repair.
    """

    node: str
    table: str
    ranges: int
    compared: int
    fraction: float
    oldest: datetime | None
    rows: int
    differing: int
    kinds: tuple[str, ...]
    keys: tuple[str, ...]
    repair: str | None


@dataclass(frozen=True, kw_only=True)
class DriftPage(Page):
    """Coverage by table, those that differ first; uncovered -- tables that are not compared."""

    tables: tuple[CoverageRow, ...] = ()
    uncovered: int = 0


def build(request: Request) -> DriftPage:
    """The values of the page."""
    head = common.head(request, "londiste compare --status", Fact.TABLES, Fact.AUDIT)
    rows: list[CoverageRow] = []
    uncovered = 0
    root = common.root(request)
    for name, facts in common.nodes(request):
        if name == root or facts.slow is None:
            continue
        rows += [_row(name, one) for one in facts.slow.audit]
        uncovered += len(facts.tables) - len(facts.slow.audit)
    rows.sort(key=lambda row: (-row.differing, row.fraction, row.node, row.table))
    return DriftPage(**head, tables=tuple(rows), uncovered=max(0, uncovered))


def _row(node: str, one: Coverage) -> CoverageRow:
    kinds = Counter(str(finding.get("kind")) for finding in one.findings)
    keys = [finding["key"] for finding in one.findings if "key" in finding]
    return CoverageRow(
        node=node,
        table=one.table,
        ranges=one.ranges,
        compared=one.compared,
        fraction=round(one.compared / one.ranges, 4) if one.ranges else 0.0,
        oldest=one.oldest,
        rows=one.rows,
        differing=one.differing,
        kinds=tuple(f"{kind}: {number}" for kind, number in kinds.items()),
        keys=tuple(str(key) for key in keys),
        repair=f"londiste repair {argument(one.table)}" if one.differing else None,
    )
