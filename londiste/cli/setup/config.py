"""``londiste config``: prints an annotated configuration file."""

from __future__ import annotations

import click

from londiste import settings

KINDS: dict[str, type[settings.Settings]] = {
    "worker": settings.WorkerSettings,
    "ticker": settings.TickerSettings,
    "consumer": settings.ConsumerSettings,
}


@click.command()
@click.argument("kind", type=click.Choice(list(KINDS)), default="worker")
def config(kind: str) -> None:
    """Print an annotated configuration file for a worker, a ticker or a consumer."""
    click.echo(settings.annotated(KINDS[kind]))
