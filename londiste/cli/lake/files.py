"""``londiste lake files``: lists the files of a table."""

from __future__ import annotations

from typing import Any, TypedDict

import click

from londiste.cli import options, output
from londiste.cli.lake.common import lake_options, settings_of
from londiste.errors import StateError
from londiste.lake.compare import chosen
from londiste.lake.store import Store


class Files(TypedDict):
    """The files of one version of a table.

    tick -- up to which it contains the changes.
    table_version -- its number.
    files -- paths or addresses.
    """

    tick: int
    table_version: int
    files: list[str]


@click.command()
@click.argument("table")
@lake_options
@click.option(
    "--tick", type=int, metavar="TICK", help="List the files of the last version up to this tick."
)
@options.json_output(Files)
@options.pass_context
def files(
    ctx: options.Context, /, table: str, tick: int | None, as_json: bool, **given: Any
) -> None:
    """List the files of a table of the lake, for any program that reads Parquet.

    The files are kept for lake_retention after they are replaced.
    """
    settings = settings_of(ctx, given)
    (name,) = chosen(settings, [table])
    store = Store.of(settings, name)
    version = store.newest() if tick is None else store.at(tick)
    if version is None:
        raise StateError(f"table {name} is not in the lake yet", hint="londiste lake once")
    paths = store.paths(version.files)
    if as_json:
        output.as_json(Files(tick=version.tick, table_version=version.number, files=paths))
        return
    output.exact("".join(f"{path}\n" for path in paths))
