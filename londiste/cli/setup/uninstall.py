"""``londiste uninstall``: the SQL is removed from a database."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.setup.common import connection
from londiste.install import remove


@click.command()
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@options.database
@options.explain
@click.option("--force", is_flag=True, help="Although consumers, nodes or positions are lost.")
@options.json_output
@options.pass_context
def uninstall(
    ctx: options.Context,
    components: Sequence[str],
    db: str | None,
    explain: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Remove the SQL from a database.

    Schemas with all queues and events in them, and the triggers that write to them.  Roles stay.
    """
    with connection(ctx, db) as conn:
        if explain:
            steps = remove.plan(conn, components)
            for line in remove.blockers(conn, steps):
                output.message(f"{line}: needs --force")
        else:
            steps = remove.uninstall(conn, components, force=force)
    if as_json or explain:
        output.steps(steps, json_wanted=as_json)
    elif not steps:
        output.message("nothing of londiste is installed here")
    for step in steps if not (as_json or explain) else []:
        output.message(f"done: {step.describe()}")
