"""``queue install``: installs or upgrades the SQL of queues alone."""

from __future__ import annotations

import click

from londiste.cli import options
from londiste.cli.setup.install import Installed
from londiste.cli.setup.install import install as _install
from londiste.install import source


@click.command()
@options.database
@options.explain
@options.json_output(Installed)
@click.pass_context
def install(click_context: click.Context, db: str | None, explain: bool, as_json: bool) -> None:
    """Install or upgrade the SQL of queues in a database.

    Without the SQL of replication, which londiste install adds.
    """
    click_context.invoke(
        _install,
        components=tuple(source.of_queues(source.load())),
        db=db,
        explain=explain,
        as_sql=False,
        after=False,
        as_json=as_json,
    )
