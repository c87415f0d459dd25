"""``londiste lake compact``: joins small files of tables."""

from __future__ import annotations

from typing import Any, TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.lake.common import lake_options, of_each, settings_of
from londiste.lake.compare import chosen
from londiste.lake.table import LakeTable


class Compacted(TypedDict):
    """A table, and the number of its files before and after."""

    table: str
    before: int
    after: int


TABLES = Rows("tables", Compacted)


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE...]")
@lake_options
@options.json_output(TABLES)
@options.pass_context
def compact(ctx: options.Context, /, tables: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Join files smaller than lake_compact_size, of some tables or of all.

    Prints the number of files before and after. Rows do not change. The process that maintains a
    lake joins files automatically, as soon as a part has lake_compact_files of them; stop it first.
    """
    settings = settings_of(ctx, given)
    rows: list[Compacted] = []
    wanted = chosen(settings, tables)
    try:
        for table, (before, after) in of_each(settings, wanted, LakeTable.compact):
            rows.append({"table": str(table), "before": before, "after": after})
    finally:
        output.show(TABLES, rows, json_wanted=as_json)
