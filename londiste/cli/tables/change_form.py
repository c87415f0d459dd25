"""``londiste change-form``, also ``change-capture``: sets the capture mode or trigger of tables."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options
from londiste.cli.plan_output import execute_plan, sites
from londiste.cli.tables.common import already
from londiste.replication.commands import change_form as forms
from londiste.replication.model import TRIGGERS
from londiste.settings import NodeSettings


@click.command("change-form")
@options.pass_context
@click.argument("names", nargs=-1, metavar="[TABLE...] [row|statement|auto]")
@click.option(
    "--trigger",
    type=click.Choice(tuple(TRIGGERS)),
    help="Set the trigger instead of the capture mode, one transaction per table.",
)
@click.option("--all", "every", is_flag=True, help="Change every captured table (with --trigger).")
@options.flag(
    "--ignore-old-workers",
    "Proceed even if a worker of Londiste 3 may still read the queue.",
    earlier="--force",
)
@options.changes
def change_form(
    context: options.Context,
    names: Sequence[str],
    trigger: str | None,
    every: bool,
    ignore_old_workers: bool,
    how: options.Execution,
) -> None:
    """Set the capture mode of tables on the root, or their trigger. Alias: change-capture.

    row: one event per row, cheapest where statements change few rows. statement: the rows of a
    statement in packed events, cheapest for bulk changes. auto: chosen by rule; londiste tables -v
    shows the mode and the reason. TABLE may contain * and ?. With --trigger: replaces the trigger
    and keeps its arguments and operations.
    """
    settings = context.settings(NodeSettings)
    with sites(settings) as where:
        if trigger is not None:
            plan = forms.plan_trigger(
                where,
                settings.db,
                settings.queue_name,
                names,
                trigger,
                every=every,
                force=ignore_old_workers,
            )
            already(plan, f"captured by {trigger}")
        else:
            if every:
                names = ["*.*", *names]
            plan = forms.plan(
                where, settings.db, settings.queue_name, names[:-1], names[-1] if names else ""
            )
            already(plan, f"captured in mode {names[-1]}")
        execute_plan(plan.steps, where, how)
