"""Output of the results of a comparison."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from londiste.changes.row_values import stored_error
from londiste.cli import output
from londiste.compare import result as found
from londiste.compare.column_pairing import to_store_columns
from londiste.compare.diff import DIFFERS, EXTRA, MISSING


def announce(result: found.TableResult) -> None:
    """Prints the result of a table to stderr as soon as it is available."""
    for difference in result.differences:
        output.message(found.as_text(result.pairing, difference))
    if result.more:
        output.message(f"{result.table}: more rows differ; --limit sets the maximum")
    if result.healed:
        output.message(f"{result.table}: {result.healed} rows differed, and were equal later")
    lacking = result.pairing.lacking
    if lacking:
        output.message(
            f"{result.table}: columns of the root that this node does not store were not compared:"
            f" {', '.join(lacking)}; {to_store_columns(result.pairing)}"
        )
    same = bool(lacking) and result.rows_root == result.rows_node
    if not result.equal and not result.differences and not same:
        output.message(
            f"{result.table}: differs: {result.rows_root} rows on the root,"
            f" {result.rows_node} rows on this node"
        )
    if result.ranges_known:
        output.message(
            f"{result.table}: {result.ranges_known} of {result.ranges} ranges were already known"
            " to be equal"
        )


class DifferingRow(TypedDict):
    """A row that differs; values are texts, as PostgreSQL writes them.

    kind -- missing, extra or differs.
    key -- null: the table has none.
    columns -- those that differ.
    row -- of a row that one side only has.
    """

    kind: str
    key: dict[str, str | None] | None
    columns: NotRequired[dict[str, DifferingValue]]
    row: NotRequired[dict[str, str | None]]


class DifferingValue(TypedDict):
    """A value on the root, and on this node."""

    root: str | None
    here: str | None


class FailedTable(TypedDict):
    """A table that could not be compared: not known whether it is equal."""

    table: str
    error: str


class ComparedTable(TypedDict):
    """A table.

    rows_root, rows_here -- rows on the root, and on this node.
    missing, extra, differs -- numbers of rows.
    more -- there are more than `--limit`.
    ranges, ranges_known -- parts of the table, and those known to be equal before.
    """

    table: str
    equal: bool
    rows_root: int
    rows_here: int
    missing: int
    extra: int
    differs: int
    more: bool
    rows: list[DifferingRow]
    skipped_columns: list[str]
    ranges: int
    ranges_known: int


def failures(result: found.Comparison) -> list[FailedTable]:
    """The tables of ``--json`` that could not be compared."""
    return [FailedTable(table=name, error=stored_error(why)) for name, why in result.failed.items()]


def row(result: found.TableResult) -> ComparedTable:
    """A table of ``--json``."""
    counts = result.counts()
    rows: list[Any] = [found.as_json(result.pairing, d) for d in result.differences]
    return {
        "table": result.table,
        "equal": result.equal,
        "rows_root": result.rows_root,
        "rows_here": result.rows_node,
        "missing": counts[MISSING],
        "extra": counts[EXTRA],
        "differs": counts[DIFFERS],
        "more": result.more,
        "rows": rows,
        "skipped_columns": list(result.skipped_columns),
        "ranges": result.ranges,
        "ranges_known": result.ranges_known,
    }
