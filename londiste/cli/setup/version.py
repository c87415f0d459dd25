"""``londiste version``: prints the version."""

from __future__ import annotations

import click

from londiste import __version__


@click.command()
def version() -> None:
    """Print the version of Londiste."""
    click.echo(f"londiste, version {__version__}")
