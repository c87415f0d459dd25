"""``londiste lake vacuum``: deletes old versions and their files."""

from __future__ import annotations

from typing import Any, TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.lake.common import lake_options, of_each, settings_of
from londiste.lake import source
from londiste.lake.table import LakeTable


class Vacuumed(TypedDict):
    """A table, and the numbers of deleted versions and files."""

    table: str
    versions: int
    files: int


TABLES = Rows("tables", Vacuumed)


@click.command()
@lake_options
@options.json_output(TABLES)
@options.pass_context
def vacuum(ctx: options.Context, /, as_json: bool, **given: Any) -> None:
    """Delete files that were replaced before lake_retention, and those of killed attempts.

    The process that maintains a lake does this automatically.  The retention is in whole hours.
    """
    settings = settings_of(ctx, given)
    rows: list[Vacuumed] = []
    wanted = source.tables(settings)
    try:
        for table, (versions, files) in of_each(settings, wanted, LakeTable.vacuum):
            rows.append({"table": str(table), "versions": versions, "files": files})
    finally:
        output.show(TABLES, rows, json_wanted=as_json)
