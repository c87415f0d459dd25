"""``londiste resync``: copies tables again."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options
from londiste.cli.plan_output import changing_sites, execute_plan
from londiste.cli.tables.common import (
    all_of_them,
    already,
    copy_node_of,
    copy_node_option,
    find_copy_node_option,
    table_names,
    timeout_option,
    wait_option,
    wait_until_synced,
)
from londiste.replication.commands import resync as resyncing
from londiste.replication.model import COPY_MODES
from londiste.settings import NodeSettings


@click.command()
@options.pass_context
@table_names
@all_of_them
@click.option(
    "--copy-mode",
    type=click.Choice(COPY_MODES),
    help="New copy mode: one snapshot, resumable, or chosen by rule (auto).",
)
@find_copy_node_option
@copy_node_option
@wait_option
@timeout_option
@options.changes
def resync(
    context: options.Context,
    names: Sequence[str],
    every: bool,
    copy_mode: str | None,
    find_copy_node: bool,
    copy_node: str | None,
    wait_sync: bool,
    timeout: float | None,
    how: options.Execution,
) -> None:
    """Copy tables again while replication continues."""
    settings = context.settings(NodeSettings)
    with changing_sites(settings) as where:
        plan = resyncing.plan(
            where,
            settings.db,
            settings.queue_name,
            names,
            every=every,
            copy_mode=copy_mode or "",
            copy_node=copy_node_of(find_copy_node, copy_node),
        )
        already(plan, "waiting for its copy")
        execute_plan(plan.steps, where, how)
        if wait_sync and not how.explain:
            wait_until_synced(where.at(settings.db), settings, timeout)
