"""``londiste change-policy``: the policy for events that conflict with the rows here."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan, sites
from londiste.replication.commands import change_policy as policies
from londiste.settings import NodeSettings


@click.command("change-policy")
@options.pass_context
@click.argument("names", nargs=-1, metavar="TABLE... {halt|keep|overwrite|log}")
@options.explain
@options.json_output
def change_policy(
    context: options.Context, names: Sequence[str], explain: bool, as_json: bool
) -> None:
    """Say what becomes of events that do not fit the rows of tables of this node.

    halt: replication stops in front of them, until a person decides. keep: the rows here win. log:
    the same, and the rows of the events are kept (londiste events conflicts --rows). overwrite: the
    events win. TABLE may hold * and ?.
    """
    settings = context.settings(NodeSettings)
    with sites(settings) as where:
        plan = policies.plan(
            where, settings.db, settings.queue_name, names[:-1], names[-1] if names else ""
        )
        for name in plan.already:
            output.message(f"{name}: already processed, it has that policy")
        execute_plan(plan.steps, where, explain=explain, json_wanted=as_json)
