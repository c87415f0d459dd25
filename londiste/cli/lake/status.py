"""``londiste lake status``: shows position, lag and size of the tables."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.lake.common import lake_options, settings_of
from londiste.lake import status as statuses


@click.command()
@lake_options
@click.option("--versions", "all_versions", is_flag=True, help="List the available versions.")
@options.json_output
@options.pass_context
def status(ctx: options.Context, /, all_versions: bool, as_json: bool, **given: Any) -> None:
    """Show the tables of a lake: last tick, lag and size."""
    settings = settings_of(ctx, given)
    if all_versions:
        columns = ["table", "version", "what", "tick", "changes", "rows", "files", "bytes", "made"]
        rows: list[dict[str, Any]] = [
            {
                "table": v.table,
                "version": v.number,
                "what": v.what,
                "tick": v.tick,
                "changes": v.changes,
                "rows": v.rows,
                "files": len(v.files),
                "bytes": v.bytes,
                "made": v.made_at,
            }
            for v in statuses.versions(settings)
        ]
    else:
        columns = [field.name for field in dataclasses.fields(statuses.TableStatus)]
        rows = [dataclasses.asdict(found) for found in statuses.look(settings)]
    output.show(columns, rows, json_wanted=as_json)
