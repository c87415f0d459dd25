"""``londiste drop-node``: removes a node from the cascade."""

from __future__ import annotations

import click

from londiste.cascade.switching import drop_node as dropping
from londiste.cli import options
from londiste.cli.cascade.common import cluster_state, finish, tell_silent
from londiste.cli.plan_output import sites
from londiste.db.names import argument
from londiste.settings import NodeSettings


@click.command("drop-node")
@options.pass_context
@click.argument("name")
@options.flag(
    "--ignore-unreachable",
    "Proceed even if the node or one of its subscribers does not answer.",
    earlier="--force",
)
@options.flag(
    "--drop-consumers",
    "Drop the consumers and sinks of the node's queue with their positions.",
    earlier="--force",
)
@options.changes
def drop_node(
    context: options.Context,
    name: str,
    ignore_unreachable: bool,
    drop_consumers: bool,
    how: options.Execution,
) -> None:
    """Remove a node from the cascade. Its tables keep their rows.

    Tables that are being copied get their indexes and keys back, without the rows of the copy.
    """
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings, explain=how.explain)
        steps = dropping.drop(
            where, scene, name, force=ignore_unreachable, drop_consumers=drop_consumers
        )
        # A node that is dropped knows the others no more, and those that answer do not know it.
        there = f"when it answers, run there: londiste drop-node {argument(name)}"
        tell_silent(scene, (name,), "keeps the node in its list", there)
        finish(steps, where, how, f"node {name} dropped", f"no node {name}, nothing to do")
