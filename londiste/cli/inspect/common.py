"""How results of a comparison are printed."""

from __future__ import annotations

from typing import Any

from londiste.cli import output
from londiste.compare import result as found


def announce(result: found.TableResult) -> None:
    """What is known of a table, on stderr, as soon as it is known."""
    for difference in result.differences:
        output.message(found.as_text(result.pairing, difference))
    if result.more:
        output.message(f"{result.table}: more rows differ; --limit says how many are looked for")
    if result.healed:
        output.message(f"{result.table}: {result.healed} rows differed, and were equal later")
    if not result.equal and not result.differences:
        output.message(
            f"{result.table}: differs: {result.rows_root} rows on the root,"
            f" {result.rows_node} rows here"
        )
    if result.ranges_known:
        output.message(
            f"{result.table}: {result.ranges_known} of {result.ranges} ranges were known as equal"
        )


def row(result: found.TableResult) -> dict[str, Any]:
    """A table of ``--json``."""
    return {
        "table": result.table,
        "equal": result.equal,
        "rows_root": result.rows_root,
        "rows_here": result.rows_node,
        **result.counts(),
        "more": result.more,
        "rows": [found.as_json(result.pairing, d) for d in result.differences],
        "skipped_columns": list(result.skipped_columns),
        "ranges": result.ranges,
        "ranges_known": result.ranges_known,
    }
