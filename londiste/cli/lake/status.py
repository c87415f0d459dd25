"""``londiste lake status`` and ``files``."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.lake.common import lake_options, settings_of
from londiste.errors import StateError
from londiste.lake import status as statuses
from londiste.lake.compare import chosen
from londiste.lake.versions import Store


@click.command()
@lake_options
@click.option("--versions", "all_versions", is_flag=True, help="List the versions that are there.")
@options.json_output
@options.pass_context
def status(ctx: options.Context, /, all_versions: bool, as_json: bool, **given: Any) -> None:
    """Show the tables of a lake: up to which tick, how far behind the queue, how large."""
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


@click.command()
@click.argument("table")
@lake_options
@click.option("--tick", type=int, metavar="TICK", help="Of the last version up to this tick.")
@options.json_output
@options.pass_context
def files(
    ctx: options.Context, /, table: str, tick: int | None, as_json: bool, **given: Any
) -> None:
    """List the files that a table of the lake is made of, for any program that reads Parquet.

    They stay for lake_retention, whatever happens to the table meanwhile.
    """
    settings = settings_of(ctx, given)
    (name,) = chosen(settings, [table])
    store = Store.of(settings.lake_path, name)
    version = store.newest() if tick is None else store.at(tick)
    if version is None or version.position is None:
        raise StateError(f"table {name} is not in the lake yet", hint="londiste lake once")
    paths = store.paths(version.files)
    if as_json:
        output.as_json({"tick": version.tick, "version": version.number, "files": paths})
        return
    for path in paths:
        click.echo(path)
