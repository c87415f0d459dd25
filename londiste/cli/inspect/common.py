"""Output of the results of a comparison."""

from __future__ import annotations

from typing import Any

from londiste.cli import output
from londiste.compare import result as found


def announce(result: found.TableResult) -> None:
    """Prints the result of a table to stderr as soon as it is available."""
    for difference in result.differences:
        output.message(found.as_text(result.pairing, difference))
    if result.more:
        output.message(f"{result.table}: more rows differ; --limit sets the maximum")
    if result.healed:
        output.message(f"{result.table}: {result.healed} rows differed, and were equal later")
    if not result.equal and not result.differences:
        output.message(
            f"{result.table}: differs: {result.rows_root} rows on the root,"
            f" {result.rows_node} rows on this node"
        )
    if result.ranges_known:
        output.message(
            f"{result.table}: {result.ranges_known} of {result.ranges} ranges were already known"
            " to be equal"
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
