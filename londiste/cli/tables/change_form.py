"""``londiste change-form``: what captures the changes of tables."""

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
    help="Change the trigger instead of the form, one transaction a table.",
)
@click.option("--all", "every", is_flag=True, help="Change every captured table (with --trigger).")
@click.option("--force", is_flag=True, help="Proceed even if a worker of Londiste 3 may be left.")
@options.explain
@options.json_output
def change_form(
    context: options.Context,
    names: Sequence[str],
    trigger: str | None,
    every: bool,
    force: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Capture tables of the root in another form, or by another trigger.

    row: an event for every row, cheapest where statements touch few rows. statement: the rows of
    a statement together, cheapest for bulk changes. auto: chosen by rule; londiste tables -v shows
    what and why. TABLE may hold * and ?. With --trigger: tables get another trigger, with the
    arguments and operations of the one they have.
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
                force=force,
            )
            already(plan, f"captured by {trigger}")
        else:
            if every:
                names = ["*.*", *names]
            plan = forms.plan(
                where, settings.db, settings.queue_name, names[:-1], names[-1] if names else ""
            )
            already(plan, f"captured in the form {names[-1]}")
        execute_plan(plan.steps, where, explain=explain, json_wanted=as_json)
