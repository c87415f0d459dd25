"""``londiste compare``."""

from __future__ import annotations

from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.errors import EXIT_DIFFERENT
from londiste.compare import run
from londiste.compare.checksum import TableResult
from londiste.settings import WorkerSettings


@click.command()
@options.pass_context
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--timeout", default=60.0, show_default=True, help="Seconds to wait for the worker.")
@click.option("--engine", type=click.Choice(["spark", "local"]), help="Override the setting.")
@options.json_output
def compare(
    context: options.Context,
    tables: tuple[str, ...],
    timeout: float,
    engine: str | None,
    as_json: bool,
) -> int:
    """Compare tables with the root's at one tick, while replication runs.

    Every replicated table without TABLE; * and ? match several.  Takes no lock on any table.
    The exit code is 3 when a table differs.
    """
    settings = context.settings(WorkerSettings, engine=engine)
    found = run.compare_tables(
        settings, tables, timeout=timeout, progress=output.message, done=_announce
    )
    if as_json:
        output.as_json(
            {"equal": found.equal, "tick": found.tick_id, "tables": [_row(r) for r in found.tables]}
        )
    else:
        output.table(
            ["table", "equal", "rows on root", "rows here"],
            [[r.table, r.equal, r.root.rows, r.node.rows] for r in found.tables],
        )
    return 0 if found.equal else EXIT_DIFFERENT


def _announce(result: TableResult) -> None:
    if not result.equal:
        output.message(
            f"{result.table}: differs: {result.root.rows} rows on the root,"
            f" {result.node.rows} rows here"
            + ("" if result.root.rows != result.node.rows else ", other values")
        )


def _row(result: TableResult) -> dict[str, Any]:
    return {
        "table": result.table,
        "equal": result.equal,
        "rows_root": result.root.rows,
        "rows_here": result.node.rows,
        "skipped_columns": list(result.skipped_columns),
    }
