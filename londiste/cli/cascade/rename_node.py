"""``londiste rename-node``: renames a node on all nodes."""

from __future__ import annotations

import click

from londiste.cascade.switching import rename_node as renaming
from londiste.cli import options
from londiste.cli.cascade.common import cluster_state, finish
from londiste.cli.plan_output import sites
from londiste.settings import NodeSettings


@click.command("rename-node")
@options.pass_context
@click.argument("old")
@click.argument("new")
@options.changes
def rename_node(context: options.Context, old: str, new: str, how: options.Execution) -> None:
    """Rename a node on all nodes."""
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings, explain=how.explain)
        steps = renaming.rename(where, scene, old, new)
        finish(
            steps,
            where,
            how,
            f"node {old} renamed to {new}",
            f"the node is already called {new}, nothing to do",
        )
