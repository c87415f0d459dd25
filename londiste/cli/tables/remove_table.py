"""``londiste remove-table``: tables are not replicated any more."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options
from londiste.cli.plan_output import execute_plan, sites
from londiste.cli.tables.common import all_of_them, already, table_names
from londiste.replication.commands import remove_table as removing
from londiste.replication.worker import auto_add
from londiste.settings import NodeSettings


@click.command("remove-table")
@options.pass_context
@table_names
@all_of_them
@click.option("--force", is_flag=True, help="Pass over names that nobody knows.")
@options.explain
@options.json_output
def remove_table(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    force: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Stop replicating tables: on the root everywhere, elsewhere on this node.

    Their rows stay, except those of a copy that is under way.
    """
    settings = context.settings(NodeSettings)
    with sites(settings) as where:
        plan = removing.plan(
            where,
            settings.db,
            settings.queue_name,
            names,
            every=every,
            force=force,
            followed=lambda name: auto_add.follows(settings, name),
        )
        already(plan, "removed")
        execute_plan(plan.steps, where, explain=explain, json_wanted=as_json)
