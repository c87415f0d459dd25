"""``londiste lake status``: shows position, lag and size of the tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.lake.common import lake_options, settings_of
from londiste.lake import status as statuses


class Version(TypedDict):
    """An available version of a table (`--versions`).

    version -- its number.
    changes -- since the version before it.
    made -- when.
    """

    table: str
    version: int
    what: str
    tick: int
    changes: int
    rows: int
    files: int
    bytes: int
    made: datetime


TABLES = Rows("tables", statuses.TableStatus)
VERSIONS = Rows("versions", Version)


@click.command()
@lake_options
@click.option("--versions", "all_versions", is_flag=True, help="List the available versions.")
@options.json_output(TABLES, VERSIONS)
@options.pass_context
def status(ctx: options.Context, /, all_versions: bool, as_json: bool, **given: Any) -> None:
    """Show the tables of a lake: last tick, lag and size."""
    settings = settings_of(ctx, given)
    if not all_versions:
        output.show(TABLES, statuses.look(settings), json_wanted=as_json)
        return
    rows: list[Version] = [
        {
            "table": str(v.table),
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
    output.show(VERSIONS, rows, json_wanted=as_json)
