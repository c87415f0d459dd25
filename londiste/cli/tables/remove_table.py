"""``londiste remove-table``: stops the replication of tables."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options
from londiste.cli.plan_output import changing_sites, execute_plan
from londiste.cli.tables.common import all_of_them, already, ignore_missing, table_names
from londiste.replication.commands import remove_table as removing
from londiste.replication.worker import auto_add
from londiste.settings import NodeSettings


@click.command("remove-table")
@options.pass_context
@table_names
@all_of_them
@ignore_missing
@options.changes
def remove_table(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    ignore_missing: bool,
    how: options.Execution,
) -> None:
    """Stop replicating tables: on the root for all nodes, elsewhere for this node.

    The rows stay, except those of a copy in progress.
    """
    settings = context.settings(NodeSettings)
    with changing_sites(settings) as where:
        plan = removing.plan(
            where,
            settings.db,
            settings.queue_name,
            names,
            every=every,
            force=ignore_missing,
            followed=lambda name: auto_add.follows(settings, name),
        )
        already(plan, "removed")
        execute_plan(plan.steps, where, how)
