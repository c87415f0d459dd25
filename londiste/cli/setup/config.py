"""``londiste config``: prints an annotated configuration file."""

from __future__ import annotations

import click

from londiste import settings
from londiste.settings.cascade_keys import template

KINDS: dict[str, type[settings.Settings]] = {
    "worker": settings.WorkerSettings,
    "ticker": settings.TickerSettings,
    "consumer": settings.ConsumerSettings,
}

#: The one file of a whole cascade.
CASCADE = "cascade"


@click.command()
@click.argument("kind", type=click.Choice([*KINDS, CASCADE]), default="worker")
def config(kind: str) -> None:
    """Print an annotated configuration file for a worker, a ticker, a consumer or a cascade."""
    click.echo(template() if kind == CASCADE else settings.annotated(KINDS[kind]))
