"""``londiste debug``: internals for tests and developers."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.daemon import crash


@click.group()
def debug() -> None:
    """Show internals for tests and developers."""


@debug.command("crash-points")
@options.json_output
def crash_points(as_json: bool) -> None:
    """List the crash points, where LONDISTE_CRASH=point[:n] kills a process."""
    rows = [{"point": name, "where": text} for name, text in crash.POINTS.items()]
    output.show(["point", "where"], rows, json_wanted=as_json)
