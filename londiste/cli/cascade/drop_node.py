"""``londiste drop-node``: a node leaves the cascade."""

from __future__ import annotations

import click

from londiste.cascade.switching import drop_node as dropping
from londiste.cli import options
from londiste.cli.cascade.common import cluster_state, finish, output_options, tell_silent
from londiste.cli.plan_output import sites
from londiste.settings import NodeSettings


@click.command("drop-node")
@options.pass_context
@click.argument("name")
@click.option(
    "--force",
    is_flag=True,
    help="Although it or a reader of it does not answer, or consumers and sinks lose positions.",
)
@output_options
def drop_node(
    context: options.Context, name: str, force: bool, explain: bool, as_json: bool
) -> None:
    """Take a node out of the cascade. Its tables keep their rows."""
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings)
        steps = dropping.drop(where, scene, name, force=force)
        tell_silent(scene, (name,), "goes on to know the node")
        finish(steps, where, explain, as_json, f"node {name} is dropped", f"no node {name}")
