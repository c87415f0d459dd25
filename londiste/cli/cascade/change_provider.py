"""``londiste change-provider``: a node, or a consumer of it, reads from another node."""

from __future__ import annotations

import click

from londiste.cascade.switching import change_provider as moving
from londiste.cascade.switching import failover, move_consumer
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cli import options, output
from londiste.cli.cascade.common import (
    cluster_state,
    finish,
    output_options,
    rollback_option,
    timeout_option,
)
from londiste.cli.plan_output import sites
from londiste.errors import BadOption
from londiste.orchestration.connections import Connections
from londiste.replication.failover import reroute
from londiste.settings import NodeSettings

_force = click.option(
    "--force",
    is_flag=True,
    help="Although other rows of tables come from there: they are copied again.",
)


@click.command("change-provider")
@options.pass_context
@click.option("--provider", required=True, metavar="NODE", help="The node to read from.")
@click.option("--node", metavar="NAME", help="Another node of the queue.")
@click.option("--consumer", metavar="NAME", help="Not its worker, but this cascaded consumer.")
@timeout_option
@_force
@rollback_option
@output_options
def change_provider(
    context: options.Context,
    provider: str,
    node: str | None,
    consumer: str | None,
    timeout: float,
    force: bool,
    rollback: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Let a node read from another one.

    Its worker stands still for a moment and goes on where it stood.  Interrupted, the same command
    finishes what it began.  Where a branch holds only a part of a table, or masked values, the node
    would get something else from now on: that is refused without --force.
    """
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings)
        name = node or scene.topology.local
        if consumer is not None:
            if rollback or force:
                raise BadOption(
                    "--consumer goes with neither --rollback nor --force",
                    hint="the same command with another provider moves it back",
                )
            steps = move_consumer.change_provider(
                where, scene, name, consumer, provider, timeout=timeout, warn=output.warning
            )
            finish(
                steps,
                where,
                explain,
                as_json,
                f"consumer {consumer} of node {name} reads from {provider}",
                f"consumer {consumer} reads from {provider} already, nothing to do",
            )
            return
        if rollback:
            guard = reroute.guard(where, scene, force=True, warn=output.warning)
            steps = moving.rollback(
                where, scene, name, timeout=timeout, warn=output.warning, guard=guard
            )
            finish(steps, where, explain, as_json, f"node {name} reads from where it did", "")
            return
        steps = moving.change_provider(
            where,
            scene,
            name,
            provider,
            timeout=timeout,
            warn=output.warning,
            guard=_guard(where, scene, name, force),
        )
        finish(
            steps,
            where,
            explain,
            as_json,
            f"node {name} reads from {provider}",
            f"node {name} reads from {provider} already, nothing to do",
        )


def _guard(where: Connections, scene: ClusterState, name: str, force: bool) -> moving.Guard:
    """What is against another provider of a node, whose old one may be a root that is lost."""
    old = scene.info(name).provider
    silent = not scene.answers(old)
    gone = old if silent and failover.was_root(where, scene, old) else None
    return reroute.guard(where, scene, force=force, warn=output.warning, lost_root=gone)
