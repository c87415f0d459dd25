"""Coverage of a node's tables by the audit, as one figure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from londiste.replication.coverage import TableCoverage, summed

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WHOLE = TableCoverage("public.a", 2, 2, 2, 9_900, 9_900, 0, NOW)


def test_what_is_not_complete_is_never_shown_as_complete() -> None:
    assert str(summed([WHOLE])) == "100 % of rows verified in the last 24 h, 1 of 1 tables"
    # An empty table.
    begun = TableCoverage("public.b", 1, 0, 0, 0, 0, 0, None)
    found = summed([WHOLE, begun])
    assert (found.verified, found.complete, found.tables, found.oldest) == (0.9999, 1, 2, None)
    assert str(found) == "99 % of rows verified in the last 24 h, 1 of 2 tables"
    assert summed([begun]).verified == 0.0
    # A table that is not split into ranges yet has none that could be missing.
    assert summed([WHOLE, replace(begun, ranges=0)]).verified == 0.9999


def test_a_table_of_unknown_size_counts_as_one_of_mean_size() -> None:
    unknown = TableCoverage("public.b", 1, 0, 0, None, 0, 0, None)
    assert summed([WHOLE, unknown]).verified == 0.5
    assert summed([WHOLE, WHOLE, unknown, unknown]).verified == 0.5
    assert summed([unknown]).verified == 0.0


def test_rows_count_and_not_tables() -> None:
    older = replace(
        WHOLE, table_name="public.b", recent=1, rows=100, recent_rows=20, differing=1_234,
        oldest=NOW - timedelta(days=2),
    )  # fmt: skip
    found = summed([WHOLE, older])
    assert (found.verified, found.complete, found.oldest) == (0.992, 1, older.oldest)
    assert str(found).endswith("1 of 2 tables; 1,234 rows differ")
