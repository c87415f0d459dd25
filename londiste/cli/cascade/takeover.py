"""``londiste takeover``: a branch in the place of another node, lost or not."""

from __future__ import annotations

import click

from londiste.cascade.switching import failover, takeover_live
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cli import options, output
from londiste.cli.cascade.common import (
    all_option,
    block_option,
    cluster_state,
    finish,
    output_options,
    rollback_option,
    timeout_option,
)
from londiste.cli.cascade.switchover import roll_back, switch_over
from londiste.cli.plan_output import sites
from londiste.errors import BadOption, StateError
from londiste.orchestration.connections import Connections
from londiste.replication.failover import readiness, reroute
from londiste.settings import NodeSettings

_force = click.option(
    "--force",
    is_flag=True,
    help="Although the new root does not have everything, or other rows of tables come to a node:"
    " those are copied again.",
)


@click.command()
@options.pass_context
@click.argument("old", metavar="NODE")
@click.option("--node", "new", metavar="NAME", help="Who takes over; this node if not given.")
@all_option
@click.option("--dead", is_flag=True, help="NODE is lost and does not come back by itself.")
@click.option("--dead-root", is_flag=True, help="The same, and NODE was the root.")
@click.option("--dead-branch", is_flag=True, help="The same, and NODE was not.")
@click.option("--accept-loss", is_flag=True, help="Although a leaf has more than any branch.")
@timeout_option
@block_option
@_force
@rollback_option
@output_options
def takeover(
    context: options.Context,
    old: str,
    new: str | None,
    move_all: bool,
    dead: bool,
    dead_root: bool,
    dead_branch: bool,
    accept_loss: bool,
    timeout: float,
    block: float,
    force: bool,
    rollback: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Put a branch in the place of another node.

    A live root: the same as switchover.  A live branch or leaf: it reads from the new node.  A
    node that is lost (--dead): the new node takes over its subscribers, and if it was the root
    becomes the root, with everything that some live node has.
    """
    settings = context.settings(NodeSettings)
    if dead_root and dead_branch:
        raise BadOption("--dead-root and --dead-branch exclude each other", hint="give one of them")
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings)
        name = new or scene.topology.local
        gone = dead or dead_root or dead_branch
        scene.place(old)
        undo = failover.rollback(scene, old, name) if rollback else None
        if undo is not None:
            finish(undo, where, explain, as_json, f"undone: node {old} keeps its place", "")
            return
        if gone and scene.answers(old):
            failover.refuse_live(scene, old, name)
        if gone:
            if dead_root or (not dead_branch and failover.surely_root(where, scene, old)):
                _check_successor(where, scene, name, old, force)
                steps = failover.takeover_root(
                    where,
                    scene,
                    old,
                    name,
                    accept_loss=accept_loss,
                    timeout=timeout,
                    warn=output.warning,
                    partial=reroute.partial(where, scene, name, old),
                )
            else:
                steps = failover.takeover_branch(
                    where,
                    scene,
                    old,
                    name,
                    timeout=timeout,
                    warn=output.warning,
                    guard=reroute.guard(where, scene, force=force, warn=output.warning),
                )
        elif rollback:
            roll_back(where, scene, name, explain, as_json)
            return
        elif _is_root(scene, old, name):
            switch_over(where, scene, name, move_all, timeout, block, force, explain, as_json)
            return
        else:
            steps = takeover_live.takeover(
                where,
                scene,
                old,
                name,
                move_all=move_all,
                timeout=timeout,
                warn=output.warning,
                guard=reroute.guard(where, scene, force=force, warn=output.warning),
            )
        finish(
            steps,
            where,
            explain,
            as_json,
            f"node {name} has the place of {old}",
            f"node {name} has the place of {old} already, nothing to do",
        )


def _check_successor(
    where: Connections, scene: ClusterState, new: str, lost_root: str, force: bool
) -> None:
    """Also of a takeover that was interrupted: tables may have been removed from the node since."""
    noted = scene.operations.get(new)
    begun = noted is not None and (noted.kind, noted.node) == (OperationKind.TAKEOVER, lost_root)
    if new in scene.topology.roots or (noted is not None and not begun):
        return
    try:
        readiness.check(where, scene, new, lost_root, force=force, warn=output.warning)
    except StateError as error:
        if begun:
            error.say_more(
                "the takeover is under way",
                hint=f"{error.hint}; or undo it: londiste takeover {lost_root} --node {new} --dead"
                " --rollback",
            )
        raise


def _is_root(scene: ClusterState, old: str, new: str) -> bool:
    noted = scene.operations.get(new) or scene.operations.get(old)
    switching = noted is not None and (noted.kind, noted.new) == ("switchover", new)
    return switching or old in scene.topology.roots
