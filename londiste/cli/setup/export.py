"""``londiste export``: prints the file of a cascade that exists."""

from __future__ import annotations

import click

from londiste.cascadefile.export import text
from londiste.cascadefile.state import existing
from londiste.cli import options
from londiste.cli.plan_output import sites
from londiste.settings import NodeSettings


@click.command()
@options.pass_context
def export(context: options.Context) -> None:
    """Print the file of a cascade that exists.

    Asks all nodes of the queue of the settings, which may be those of a single node. The file
    contains nodes, tables and rules; add the settings of workers and the ticker.
    """
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        found = existing(
            where, settings.db, settings.queue_name, extra=settings.remote_extra_connstr
        )
    click.echo(text(found), nl=False)
