"""``londiste change-policy``: sets the conflict resolution of tables."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan, sites
from londiste.replication.commands import change_policy as policies
from londiste.settings import NodeSettings


@click.command("change-policy")
@options.pass_context
@click.argument("names", nargs=-1, metavar="TABLE... {error|keep_local|apply_remote|skip_and_log}")
@options.changes
def change_policy(context: options.Context, names: Sequence[str], how: options.Execution) -> None:
    """Set the conflict resolution of tables: what the worker does with a conflicting event.

    error: stop at the event until an operator decides. keep_local: skip the event, keep the row of
    this node. skip_and_log: the same, and store the skipped row (londiste events conflicts --rows).
    apply_remote: apply the event, overwrite the row of this node. TABLE may contain * and ?.
    """
    settings = context.settings(NodeSettings)
    with sites(settings) as where:
        plan = policies.plan(
            where, settings.db, settings.queue_name, names[:-1], names[-1] if names else ""
        )
        for name in plan.already:
            output.message(f"{name}: already set, nothing to do")
        execute_plan(plan.steps, where, how)
