"""Commands that change a cascade which lives: providers, the root, nodes that go."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import click

from londiste.cascade.switching import change_provider as moving
from londiste.cascade.switching import drop_node as leaving
from londiste.cascade.switching import (
    failover,
    move_consumer,
    operation_log,
    switchover,
    takeover_live,
)
from londiste.cascade.switching.cluster_state import ClusterState, look
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cascade.switching.steps.notes import AtNode, Begin
from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan, reported
from londiste.cli.sites import sites
from londiste.errors import BadOption, StateError, TransientError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication.failover import readiness, reroute
from londiste.replication.failover.switchover_sequences import carry
from londiste.settings import NodeSettings

_TIMEOUT = 60.0
#: Seconds in which a new root has to have everything, while nobody can write.
_BLOCK = 10.0

_timeout = click.option(
    "--timeout",
    default=_TIMEOUT,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for each wait.",
)
_block = click.option(
    "--block",
    default=_BLOCK,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for which nobody may be able to write; then everything is undone.",
)
_all = click.option(
    "--all", "move_all", is_flag=True, help="The other subscribers of the old node move, too."
)
_rollback = click.option(
    "--rollback", is_flag=True, help="Undo a change that was begun and not finished."
)


_force = click.option(
    "--force", is_flag=True, help="Although the new root does not have everything."
)
_force_move = click.option(
    "--force",
    is_flag=True,
    help="Although other rows of tables come from there: they are copied again.",
)
_force_both = click.option(
    "--force",
    is_flag=True,
    help="Although the new root does not have everything, or other rows of tables come to a node:"
    " those are copied again.",
)


def _common(function: Any) -> Any:
    for decorate in (options.json_output, options.explain):
        function = decorate(function)
    return function


def _scene(where: Connections, settings: NodeSettings) -> ClusterState:
    return look(where, settings.db, settings.queue_name, settings.remote_extra_connstr)


def _finish(
    steps: Sequence[Step], where: Connections, explain: bool, as_json: bool, done: str, nothing: str
) -> None:
    if not explain:
        _alone(where, steps)
    count = execute_plan(steps, where, explain=explain, json_wanted=as_json)
    if not explain:
        output.message(done if count else nothing)


def _alone(where: Connections, steps: Sequence[Step]) -> None:
    """One command at a time at each node that takes part; a node that is gone is in nobody's way.

    In the order of their names, so that of two commands one comes through.
    """
    for step in steps:
        if isinstance(step, Begin):
            operation_log.require_notes(where.at(step.at.dsn), step.at.name)
    places = {(s.at.name, s.at.dsn, s.queue) for s in steps if isinstance(s, AtNode)}
    for name, dsn, queue in sorted(places):
        with contextlib.suppress(TransientError):
            where.alone(dsn, name, queue)


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


@click.command("change-provider")
@options.pass_context
@click.option("--provider", required=True, metavar="NODE", help="The node to read from.")
@click.option("--node", metavar="NAME", help="Another node of the queue.")
@click.option("--consumer", metavar="NAME", help="Not its worker, but this cascaded consumer.")
@_timeout
@_force_move
@_rollback
@_common
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
        scene = _scene(where, settings)
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
            _finish(
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
            _finish(steps, where, explain, as_json, f"node {name} reads from where it did", "")
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
        _finish(
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


@click.command("switchover")
@options.pass_context
@click.option("--to", "new", metavar="NODE", help="The new root; this node if not given.")
@_all
@_timeout
@_block
@_force
@_rollback
@_common
def switchover_(
    context: options.Context,
    new: str | None,
    move_all: bool,
    timeout: float,
    block: float,
    force: bool,
    rollback: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Make another node the root; the old root becomes a branch below it.

    Writes are refused on the old root from its last tick on, and taken on the new one once it has
    that tick: usually within a second.  Interrupted, the same command finishes what it began;
    --rollback undoes it as long as the new root is not made.
    """
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = _scene(where, settings)
        name = new or scene.topology.local
        if rollback:
            _roll_back(where, scene, name, explain, as_json)
            return
        _switch_over(where, scene, name, move_all, timeout, block, force, explain, as_json)


def _roll_back(
    where: Connections, scene: ClusterState, new: str, explain: bool, as_json: bool
) -> None:
    steps = switchover.rollback(where, scene, new)
    _finish(steps, where, explain, as_json, "undone: the old root takes events again", "")


def _switch_over(
    where: Connections,
    scene: ClusterState,
    new: str,
    move_all: bool,
    timeout: float,
    block: float,
    force: bool,
    explain: bool,
    as_json: bool,
) -> None:
    away = switchover.begun_away_from(scene, new)
    if away is not None:
        # Who wants the old root to be the root wants the other one not to be.
        output.message(f"{away.describe()} is not finished")
        _roll_back(where, scene, away.new, explain, as_json)
        return
    switch = switchover.prepare(
        where,
        scene,
        new,
        move_all=move_all,
        carry=lambda old, target: carry(scene.queue, old, target),
        timeout=timeout,
        block=block,
        warn=output.warning,
    )
    if switch is None:
        left: list[Step] = []
        if move_all:
            left = moving.left_over(where, scene, moving.moved(scene, new), new, output.warning)
        if not explain:
            _alone(where, left)
        execute_plan(left, where, explain=explain, json_wanted=as_json)
        output.message(f"node {new} is the root already, nothing {'else ' if left else ''}to do")
        return
    if switch.closing:
        # Also of one that was interrupted: tables may have been removed from the node since.
        try:
            readiness.check(where, scene, new, switch.old, force=force, warn=output.warning)
        except StateError as error:
            if switch.begun:
                error.say_more(
                    "the switchover is under way, and nobody may be able to write",
                    hint=f"{error.hint}; or undo it: londiste switchover --to {new} --rollback",
                )
            raise
    if explain:
        execute_plan(switch.steps(), where, explain=True, json_wanted=as_json)
        return
    _alone(where, switch.steps())
    with reported(as_json) as report:
        switchover.execute(switch, where, report)
    output.message(f"node {new} is the root")


@click.command()
@options.pass_context
@click.argument("old", metavar="NODE")
@click.option("--node", "new", metavar="NAME", help="Who takes over; this node if not given.")
@_all
@click.option("--dead", is_flag=True, help="NODE is lost and does not come back by itself.")
@click.option("--dead-root", is_flag=True, help="The same, and NODE was the root.")
@click.option("--dead-branch", is_flag=True, help="The same, and NODE was not.")
@click.option("--accept-loss", is_flag=True, help="Although a leaf has more than any branch.")
@_timeout
@_block
@_force_both
@_rollback
@_common
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
        scene = _scene(where, settings)
        name = new or scene.topology.local
        gone = dead or dead_root or dead_branch
        scene.place(old)
        undo = failover.rollback(scene, old, name) if rollback else None
        if undo is not None:
            _finish(undo, where, explain, as_json, f"undone: node {old} keeps its place", "")
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
            _roll_back(where, scene, name, explain, as_json)
            return
        elif _is_root(scene, old, name):
            _switch_over(where, scene, name, move_all, timeout, block, force, explain, as_json)
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
        _finish(
            steps,
            where,
            explain,
            as_json,
            f"node {name} has the place of {old}",
            f"node {name} has the place of {old} already, nothing to do",
        )


def _is_root(scene: ClusterState, old: str, new: str) -> bool:
    noted = scene.operations.get(new) or scene.operations.get(old)
    switching = noted is not None and (noted.kind, noted.new) == ("switchover", new)
    return switching or old in scene.topology.roots


@click.command("drop-node")
@options.pass_context
@click.argument("name")
@click.option(
    "--force",
    is_flag=True,
    help="Although it or a reader of it does not answer, or consumers and sinks lose positions.",
)
@_common
def drop_node(
    context: options.Context, name: str, force: bool, explain: bool, as_json: bool
) -> None:
    """Take a node out of the cascade. Its tables keep their rows."""
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = _scene(where, settings)
        steps = leaving.drop(where, scene, name, force=force)
        _tell_silent(scene, (name,), "goes on to know the node")
        _finish(steps, where, explain, as_json, f"node {name} is dropped", f"no node {name}")


@click.command("tag-dead")
@options.pass_context
@click.argument("names", nargs=-1, required=True, metavar="NODE...")
@_common
def tag_dead(
    context: options.Context, names: tuple[str, ...], explain: bool, as_json: bool
) -> None:
    """Tell all nodes that others are lost, so that nobody waits for them."""
    _tag(context, names, explain, as_json, dead=True)


@click.command("tag-alive")
@options.pass_context
@click.argument("names", nargs=-1, required=True, metavar="NODE...")
@_common
def tag_alive(
    context: options.Context, names: tuple[str, ...], explain: bool, as_json: bool
) -> None:
    """Take tag-dead back."""
    _tag(context, names, explain, as_json, dead=False)


def _tag(
    context: options.Context, names: Sequence[str], explain: bool, as_json: bool, *, dead: bool
) -> None:
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = _scene(where, settings)
        steps = leaving.tag(where, scene, list(names), dead=dead)
        _tell_silent(scene, names, "does not hear of it")
        word = "dead" if dead else "alive"
        named = ", ".join(names)
        _finish(steps, where, explain, as_json, f"{named}: {word}", f"{named}: {word} already")


def _tell_silent(scene: ClusterState, about: Sequence[str], what: str) -> None:
    """Nodes that do not answer are passed over, and must not be forgotten."""
    for name, view in scene.topology.views.items():
        if view.info is None and not view.member.dead and name not in about:
            output.warning(
                f"node {name} does not answer and {what}: give the command again when it is back"
            )


@click.command("rename-node")
@options.pass_context
@click.argument("old")
@click.argument("new")
@_common
def rename_node(context: options.Context, old: str, new: str, explain: bool, as_json: bool) -> None:
    """Give a node another name, on all nodes."""
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        steps = leaving.rename(where, _scene(where, settings), old, new)
        _finish(steps, where, explain, as_json, f"node {old} is {new} now", f"it is {new} already")
