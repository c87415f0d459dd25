"""``queue install``: the SQL of queues alone."""

from __future__ import annotations

import click

from londiste.cli import options
from londiste.cli.setup.install import install as _install
from londiste.install import source


@click.command()
@options.database
@click.option("--dry-run", "--explain", "dry_run", is_flag=True, help="Print the plan only.")
@options.json_output
@click.pass_context
def install(click_context: click.Context, db: str | None, dry_run: bool, as_json: bool) -> None:
    """Bring the SQL of the queue into a database, or up to date.

    Without the parts that replication needs; londiste install has all of them.
    """
    click_context.invoke(
        _install,
        components=tuple(source.of_queues(source.load())),
        db=db,
        dry_run=dry_run,
        as_sql=False,
        after=False,
        as_json=as_json,
    )
