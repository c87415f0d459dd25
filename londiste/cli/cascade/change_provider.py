"""``londiste change-provider``: switches a node, or a consumer of it, to another provider."""

from __future__ import annotations

import click

from londiste.cascade.switching import change_provider as moving
from londiste.cascade.switching import failover, move_consumer
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cli import options, output
from londiste.cli.cascade.common import (
    cluster_state,
    finish,
    nocheck_option,
    rollback_option,
    timeout_option,
)
from londiste.cli.plan_output import sites
from londiste.errors import BadOption
from londiste.orchestration.connections import Connections
from londiste.replication.failover import reroute
from londiste.settings import NodeSettings

_allow_resync = options.flag(
    "--allow-resync",
    "Proceed even if the new provider has a different row filter; affected tables are copied"
    " again.",
    earlier="--force",
)


@click.command("change-provider")
@options.pass_context
@click.option("--provider", required=True, metavar="NODE", help="The new provider.")
@click.option("--node", metavar="NAME", help="The node to switch (default: this node).")
@click.option(
    "--consumer", metavar="NAME", help="Switch this cascaded consumer instead of the node's worker."
)
@timeout_option
@_allow_resync
@nocheck_option
@rollback_option
@options.changes
def change_provider(
    context: options.Context,
    provider: str,
    node: str | None,
    consumer: str | None,
    timeout: float,
    allow_resync: bool,
    nocheck: bool,
    rollback: bool,
    how: options.Execution,
) -> None:
    """Switch a node to another provider.

    The node's worker pauses for a moment and continues at its position.  Repeat an interrupted
    command to finish it.  A provider that replicates tables partially or with masked values may
    change the rows that the node gets: that requires --allow-resync.
    """
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings, explain=how.explain, nocheck=nocheck)
        name = node or scene.topology.local
        if consumer is not None:
            if rollback or allow_resync:
                raise BadOption(
                    "--consumer excludes --rollback and --allow-resync",
                    hint="run the command with the former provider to move the consumer back",
                )
            steps = move_consumer.change_provider(
                where, scene, name, consumer, provider, timeout=timeout, warn=output.warning
            )
            finish(
                steps,
                where,
                how,
                f"consumer {consumer} of node {name} reads from {provider}",
                f"consumer {consumer} already reads from {provider}, nothing to do",
            )
            return
        if rollback:
            guard = reroute.guard(where, scene, force=True, warn=output.warning)
            steps = moving.rollback(
                where, scene, name, timeout=timeout, warn=output.warning, guard=guard
            )
            finish(steps, where, how, f"node {name} reads from its former provider", "")
            return
        steps = moving.change_provider(
            where,
            scene,
            name,
            provider,
            timeout=timeout,
            warn=output.warning,
            guard=_guard(where, scene, name, allow_resync),
        )
        finish(
            steps,
            where,
            how,
            f"node {name} reads from {provider}",
            f"node {name} already reads from {provider}, nothing to do",
        )


def _guard(where: Connections, scene: ClusterState, name: str, allow_resync: bool) -> moving.Guard:
    """Checks the new provider of a node, whose old provider may be a failed root."""
    old = scene.info(name).provider
    silent = not scene.answers(old)
    gone = old if silent and failover.was_root(where, scene, old) else None
    return reroute.guard(where, scene, force=allow_resync, warn=output.warning, lost_root=gone)
