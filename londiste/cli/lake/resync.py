"""``londiste lake resync``: reads the rows of tables again."""

from __future__ import annotations

from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.lake.common import lake_options, of_each, settings_of
from londiste.lake.compare import chosen
from londiste.lake.table import LakeTable


@click.command()
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...")
@lake_options
@options.explain
@options.pass_context
def resync(ctx: options.Context, /, tables: tuple[str, ...], explain: bool, **given: Any) -> None:
    """Read the rows of tables again; later changes follow.

    A state is replaced.  A history gets new versions of the differing rows.  Stop the process that
    maintains the lake first.
    """
    settings = settings_of(ctx, given)
    wanted = chosen(settings, tables)
    if explain:
        output.lines([f"read all rows of table {table}, publish them" for table in wanted])
        return
    for table, version in of_each(settings, wanted, LakeTable.resync):
        output.message(f"table {table}: {version.rows} rows, version {version.number}")
