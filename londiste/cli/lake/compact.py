"""``londiste lake compact``: small files of tables are joined."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.lake.common import lake_options, settings_of
from londiste.lake.compare import chosen
from londiste.lake.table import LakeTable


@click.command()
@click.argument("tables", nargs=-1, metavar="[TABLE...]")
@lake_options
@options.json_output
@options.pass_context
def compact(ctx: options.Context, /, tables: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Join files that are smaller than lake_compact_size, of some tables or of all.

    Shows how many files of a table were joined, and to how many.  The rows stay what they are.
    The process that keeps a lake joins files by itself, when there are lake_compact_files of about
    one size; stop it first.
    """
    settings = settings_of(ctx, given)
    rows = []
    for table in chosen(settings, tables):
        with closing(LakeTable(settings, table)) as kept:
            before, after = kept.compact()
        rows.append({"table": str(table), "before": before, "after": after})
    output.show(["table", "before", "after"], rows, json_wanted=as_json)
