"""``londiste uninstall``: removes the SQL from a database."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cascade import copied_database
from londiste.cli import options, output
from londiste.cli.documents import Steps
from londiste.cli.setup.common import connection
from londiste.install import remove


@click.command()
@click.argument("components", nargs=-1, metavar="[COMPONENT]...")
@options.database
@options.explain
@options.flag(
    "--allow-data-loss",
    "Proceed even if consumers, nodes, positions or foreign keys are lost.",
    earlier="--force",
)
@options.json_output(Steps)
@options.pass_context
def uninstall(
    ctx: options.Context,
    components: Sequence[str],
    db: str | None,
    explain: bool,
    allow_data_loss: bool,
    as_json: bool,
) -> None:
    """Remove the SQL from a database.

    Drops the schemas with all queues and events, and the triggers that call their functions.  Roles
    stay.
    """
    with connection(ctx, db) as conn:
        if explain:
            steps = remove.plan(conn, components)
            for line in remove.blockers(conn, steps):
                output.message(f"{line}: requires --allow-data-loss")
        else:
            steps = remove.uninstall(
                conn,
                components,
                force=allow_data_loss,
                copied=lambda queue: copied_database.uninstall_hint(conn, queue),
            )
    if as_json or explain:
        output.steps(steps, json_wanted=as_json)
    elif not steps:
        output.message("Londiste is not installed, nothing to do")
    for step in steps if not (as_json or explain) else []:
        output.message(f"done: {step.describe()}")
