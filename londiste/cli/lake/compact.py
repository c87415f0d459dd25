"""``londiste lake resync``, ``compact`` and ``vacuum``."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.lake.common import lake_options, settings_of
from londiste.lake import source
from londiste.lake.compare import chosen
from londiste.lake.table import LakeTable


@click.command()
@click.argument("tables", nargs=-1, required=True, metavar="TABLE...")
@lake_options
@options.explain
@options.pass_context
def resync(ctx: options.Context, /, tables: tuple[str, ...], explain: bool, **given: Any) -> None:
    """Read the rows of tables anew; changes go on behind them.

    A state is replaced.  A history gets new versions of the rows that differ.  Stop the process
    that keeps the lake first.
    """
    settings = settings_of(ctx, given)
    wanted = chosen(settings, tables)
    if explain:
        output.lines([f"read all rows of table {table}, publish them" for table in wanted])
        return
    for table in wanted:
        with closing(LakeTable(settings, table)) as kept:
            version = kept.resync()
        output.message(f"table {table}: {version.rows} rows, version {version.number}")


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


@click.command()
@lake_options
@options.json_output
@options.pass_context
def vacuum(ctx: options.Context, /, as_json: bool, **given: Any) -> None:
    """Forget versions older than lake_retention, and the files that only they have.

    The process that keeps a lake does it by itself.
    """
    settings = settings_of(ctx, given)
    rows = []
    for table in source.tables(settings):
        with closing(LakeTable(settings, table)) as kept:
            versions, files = kept.vacuum()
        rows.append({"table": str(table), "versions": versions, "files": files})
    output.show(["table", "versions", "files"], rows, json_wanted=as_json)
