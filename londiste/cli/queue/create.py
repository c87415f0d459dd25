"""``queue create`` and ``drop``: queues with their events."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import opened
from londiste.pgq import admin
from londiste.pgq import config as parameters
from londiste.pgq.admin import QueueChange

_some = click.argument("names", nargs=-1, required=True, metavar="QUEUE...")


@click.command()
@_some
@click.option(
    "--set", "assigned", multiple=True, metavar="KEY=VALUE", help="A parameter; may be repeated."
)
@options.database
@options.explain
@options.json_output
@options.pass_context
def create(
    ctx: options.Context,
    names: Sequence[str],
    assigned: Sequence[str],
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Create queues: all of them or none.

    A queue that is there stays as it is.
    """
    values = parameters.assignments(list(assigned))
    with opened(ctx, db) as conn:
        changes: list[QueueChange] = []
        for name in dict.fromkeys(names):
            found = admin.creating(conn, name, values)
            changes += found
            if not found:
                output.message(f"queue {name} is there")
        execute_changes(conn, changes, explain=explain, json_wanted=as_json)


@click.command()
@_some
@click.option("--force", is_flag=True, help="Although consumers or a node are lost.")
@options.database
@options.explain
@options.json_output
@options.pass_context
def drop(
    ctx: options.Context,
    names: Sequence[str],
    force: bool,
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Drop queues with their events: all of them or none.

    One that has consumers, or belongs to a node, needs --force; what is lost is said.
    """
    with opened(ctx, db) as conn:
        changes = admin.dropping(conn, names, force=force or explain)
        for name in names:
            for line in admin.losses(conn, name):
                output.warning(f"{line}: " + ("needs --force" if explain else "lost"))
        execute_changes(conn, changes, explain=explain, json_wanted=as_json)
