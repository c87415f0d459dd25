"""``londiste takeover``: replaces a node by a branch, in a failover or planned."""

from __future__ import annotations

from collections.abc import Callable

import click

from londiste.cascade.switching import failover, takeover_live
from londiste.cascade.switching.cluster_state import ClusterState, without_end
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cli import options, output
from londiste.cli.cascade.common import (
    all_option,
    block_option,
    cluster_state,
    finish,
    nocheck_option,
    rollback_option,
    timeout_option,
)
from londiste.cli.cascade.switchover import roll_back, switch_over
from londiste.cli.plan_output import sites
from londiste.db.names import argument
from londiste.errors import BadOption, StateError
from londiste.orchestration.connections import Connections
from londiste.replication.failover import readiness, reroute
from londiste.replication.failover.switchover_sequences import catch_up
from londiste.settings import NodeSettings, cascade_file


def _renamed(*now: str) -> Callable[[click.Context, click.Parameter, bool], bool]:
    """The callback of a hidden flag that does only a part of what the options ``now`` do."""

    def notice(ctx: click.Context, parameter: click.Parameter, value: bool) -> bool:
        if value:
            output.message(f"option {parameter.opts[0]} is now called {' or '.join(now)}")
        return value

    return notice


_allow_data_loss = click.option(
    "--allow-data-loss",
    is_flag=True,
    help="Proceed even if the new root misses events or tables, or a leaf is ahead of all"
    " branches.",
)
_allow_resync = click.option(
    "--allow-resync",
    is_flag=True,
    help="Proceed even if a node gets another row filter; affected tables are copied again.",
)
#: It has never accepted that a leaf is ahead.
_force = click.option(
    "--force",
    is_flag=True,
    hidden=True,
    callback=_renamed("--allow-data-loss", "--allow-resync"),
)
#: It has never accepted that tables are missing.
_accept_loss = click.option(
    "--accept-loss", is_flag=True, hidden=True, callback=_renamed("--allow-data-loss")
)


@click.command()
@options.pass_context
@click.argument("old", metavar="NODE")
@click.option(
    "--node", "new", metavar="NAME", help="The branch that takes over (default: this node)."
)
@all_option
@click.option(
    "--failover",
    "dead",
    is_flag=True,
    cls=options.Renamed,
    londiste3=("--dead",),
    help="Failover: NODE is down and is fenced if it returns.",
)
@click.option("--dead-root", is_flag=True, hidden=True)
@click.option("--dead-branch", is_flag=True, hidden=True)
@_allow_data_loss
@_allow_resync
@timeout_option
@block_option
@_force
@_accept_loss
@nocheck_option
@rollback_option
@options.changes
def takeover(
    context: options.Context,
    old: str,
    new: str | None,
    move_all: bool,
    dead: bool,
    dead_root: bool,
    dead_branch: bool,
    allow_data_loss: bool,
    allow_resync: bool,
    timeout: float,
    block: float,
    force: bool,
    accept_loss: bool,
    nocheck: bool,
    rollback: bool,
    how: options.Execution,
) -> None:
    """Replace a node by a branch: failover, or planned.

    A live root: the same as switchover.  A live branch or leaf: it reads from the new node.  A
    failed node (--failover): the new node takes over its subscribers.  If the failed node was the
    root, the new node becomes the root and first reads the events that other nodes have.
    """
    if dead_root and dead_branch:
        raise BadOption(
            "--dead-root and --dead-branch exclude each other", hint="give one of the two options"
        )
    if new is None and context.node is None:
        more = " --failover" if dead or dead_root or dead_branch else ""
        _require_successor(context, old, more + (" --rollback" if rollback else ""))
    settings = context.settings(NodeSettings)
    incomplete, resync = allow_data_loss or force, allow_resync or force
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings, explain=how.explain, nocheck=nocheck)
        name = new or scene.topology.local
        nothing = f"node {name} has already replaced {old}, nothing to do"
        gone = dead or dead_root or dead_branch
        scene.place(old)
        undo = failover.rollback(where, scene, old, name) if rollback else None
        if undo is not None:
            finish(undo, where, how, f"rolled back: node {old} keeps its position", "")
            return
        if gone and scene.answers(old):
            failover.refuse_live(scene, old, name)
        if gone:
            if dead_root or (not dead_branch and failover.surely_root(where, scene, old)):
                _check_successor(where, scene, name, old, incomplete)
                steps = failover.takeover_root(
                    where,
                    scene,
                    old,
                    name,
                    accept_loss=allow_data_loss or accept_loss,
                    timeout=timeout,
                    warn=output.warning,
                    partial=reroute.partial(where, scene, name, old),
                    prepare=lambda root: catch_up(scene.queue, root),
                )
            else:
                steps = failover.takeover_branch(
                    where,
                    scene,
                    old,
                    name,
                    timeout=timeout,
                    warn=output.warning,
                    guard=reroute.guard(where, scene, force=resync, warn=output.warning),
                )
        elif rollback:
            roll_back(where, scene, name, how)
            return
        elif _is_root(scene, old, name):
            switch_over(where, scene, name, move_all, timeout, block, incomplete, how)
            return
        else:
            nothing = takeover_live.done_already(scene, old, name)
            steps = takeover_live.takeover(
                where,
                scene,
                old,
                name,
                move_all=move_all,
                timeout=timeout,
                warn=output.warning,
                guard=reroute.guard(where, scene, force=resync, warn=output.warning),
            )
        finish(
            steps,
            where,
            how,
            f"node {name} has replaced {old}",
            nothing,
        )


def _require_successor(context: options.Context, old: str, more: str) -> None:
    """Raises BadOption if the file has several nodes: which of them takes over is not named.

    more -- the other options of the call.
    """
    file = None if context.config is None else cascade_file.read(context.config)
    if file is None or len(file.nodes) == 1:
        return
    others = [node for node in file.nodes.values() if node.name != old]
    able = [node.name for node in others if node.role == "branch"] or [n.name for n in others]
    choice = f", one of {', '.join(able)}" if len(able) > 1 else ""
    raise BadOption(
        f"{file.path}: the branch that takes over is not named",
        hint=f"give it{choice}: londiste takeover {argument(old)} --node {argument(able[0])}{more}",
    )


def _check_successor(
    where: Connections, scene: ClusterState, new: str, lost_root: str, incomplete: bool
) -> None:
    """Checks the new root, also after an interruption: tables may have been removed since."""
    noted = scene.operations.get(new)
    if noted is not None and noted == without_end(scene, new):
        noted = None
    begun = noted is not None and (noted.kind, noted.node) == (OperationKind.TAKEOVER, lost_root)
    if new in scene.topology.roots or (noted is not None and not begun):
        return
    try:
        readiness.check(where, scene, new, lost_root, force=incomplete, warn=output.warning)
    except StateError as error:
        if begun:
            error.say_more(
                "the takeover is under way",
                hint=f"{error.hint}; or roll back: londiste takeover {argument(lost_root)}"
                f" --node {argument(new)} --failover --rollback",
            )
        raise


def _is_root(scene: ClusterState, old: str, new: str) -> bool:
    noted = scene.operations.get(new) or scene.operations.get(old)
    switching = noted is not None and (noted.kind, noted.new) == ("switchover", new)
    return switching or old in scene.topology.roots
