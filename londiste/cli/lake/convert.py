"""``londiste lake convert``: converts directories of earlier releases."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.lake import convert as converting


class Converted(TypedDict):
    """A directory, and the tick and files of the Delta table in it; null without one."""

    directory: str
    tick: int | None
    files: int


DIRECTORIES = Rows("directories", Converted)


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIRECTORY...", type=Path)
@options.json_output(DIRECTORIES)
@options.pass_context
def convert(_ctx: options.Context, /, directories: tuple[Path, ...], as_json: bool) -> None:
    """Convert directories of tables that an earlier release has written into Delta tables.

    For directories of a lake and of dispatch with target_path. Stop their process first. The files
    stay; only the newest version is kept. The command can be repeated at any time.
    """
    rows: list[Converted] = []
    chosen = [converting.table_directory(directory) for directory in directories]
    for directory, one in zip(directories, chosen, strict=True):
        version = converting.convert(one)
        tick = version.tick if version else None
        files = len(version.files) if version else 0
        rows.append({"directory": str(directory), "tick": tick, "files": files})
    output.show(DIRECTORIES, rows, json_wanted=as_json)
