"""``londiste debug``: internals for tests and developers."""

from __future__ import annotations

from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.daemon import crash


class CrashPoint(TypedDict):
    """A crash point."""

    point: str
    where: str


POINTS = Rows("points", CrashPoint)


@click.group()
def debug() -> None:
    """Show internals for tests and developers."""


@debug.command("crash-points")
@options.json_output(POINTS)
def crash_points(as_json: bool) -> None:
    """List the crash points, where LONDISTE_CRASH=point[:n] kills a process."""
    rows = [CrashPoint(point=name, where=text) for name, text in crash.POINTS.items()]
    output.show(POINTS, rows, json_wanted=as_json)
