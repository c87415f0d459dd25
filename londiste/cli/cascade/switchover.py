"""``londiste switchover``: another node becomes the root."""

from __future__ import annotations

import click

from londiste.cascade.switching import change_provider as moving
from londiste.cascade.switching import switchover
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cli import options, output
from londiste.cli.cascade.common import (
    all_option,
    block_option,
    cluster_state,
    finish,
    one_at_a_time,
    output_options,
    rollback_option,
    timeout_option,
)
from londiste.cli.plan_output import execute_plan, reported, sites
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication.failover import readiness
from londiste.replication.failover.switchover_sequences import carry
from londiste.settings import NodeSettings

_force = click.option(
    "--force", is_flag=True, help="Although the new root does not have everything."
)


@click.command("switchover")
@options.pass_context
@click.option("--to", "new", metavar="NODE", help="The new root; this node if not given.")
@all_option
@timeout_option
@block_option
@_force
@rollback_option
@output_options
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
        scene = cluster_state(where, settings)
        name = new or scene.topology.local
        if rollback:
            roll_back(where, scene, name, explain, as_json)
            return
        switch_over(where, scene, name, move_all, timeout, block, force, explain, as_json)


def roll_back(
    where: Connections, scene: ClusterState, new: str, explain: bool, as_json: bool
) -> None:
    steps = switchover.rollback(where, scene, new)
    finish(steps, where, explain, as_json, "undone: the old root takes events again", "")


def switch_over(
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
        roll_back(where, scene, away.new, explain, as_json)
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
            one_at_a_time(where, left)
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
    one_at_a_time(where, switch.steps())
    with reported(as_json) as report:
        switchover.execute(switch, where, report)
    output.message(f"node {new} is the root")
