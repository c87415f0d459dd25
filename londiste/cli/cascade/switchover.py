"""``londiste switchover``: makes another node the root."""

from __future__ import annotations

import click

from londiste.cascade.switching import change_provider as moving
from londiste.cascade.switching import switchover, switchover_records
from londiste.cascade.switching.cluster_state import ClusterState
from londiste.cascade.switching.steps.notes import one_at_a_time
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
from londiste.cli.plan_output import execute_plan, reported, sites
from londiste.db.names import argument
from londiste.errors import StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication.failover import readiness
from londiste.replication.failover.switchover_sequences import carry
from londiste.settings import NodeSettings

_allow_data_loss = options.flag(
    "--allow-data-loss", "Proceed even if the new root misses events or tables.", earlier="--force"
)


@click.command("switchover")
@options.pass_context
@click.option("--to", "new", metavar="NODE", help="The new root (default: this node).")
@all_option
@timeout_option
@block_option
@_allow_data_loss
@nocheck_option
@rollback_option
@options.changes
def switchover_(
    context: options.Context,
    new: str | None,
    move_all: bool,
    timeout: float,
    block: float,
    allow_data_loss: bool,
    nocheck: bool,
    rollback: bool,
    how: options.Execution,
) -> None:
    """Make another node the root; the old root becomes a branch below it.

    The old root refuses writes after its last tick, and the new root takes writes when it has that
    tick: usually within a second.  Repeat an interrupted command to finish it.  --rollback undoes
    it until the new root takes writes.
    """
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings, explain=how.explain, nocheck=nocheck)
        name = new or scene.topology.local
        if rollback:
            roll_back(where, scene, name, how)
            return
        switch_over(where, scene, name, move_all, timeout, block, allow_data_loss, how)


def roll_back(where: Connections, scene: ClusterState, new: str, how: options.Execution) -> None:
    noted = switchover_records.noted_switchover(scene, new)
    other = None if noted is None else switchover_records.overtaken(scene, noted)
    steps = switchover_records.rollback(scene, new)
    if noted is None or other is None:
        finish(steps, where, how, "rolled back: the old root takes events again", "")
        return
    finish(steps, where, how, f"the switchover to {new} is over: node {other} is the root", "")
    if not how.explain and noted.node in scene.topology.roots:
        output.next_step(f"londiste resurrect --node {argument(noted.node)}")


def switch_over(
    where: Connections,
    scene: ClusterState,
    new: str,
    move_all: bool,
    timeout: float,
    block: float,
    allow_data_loss: bool,
    how: options.Execution,
) -> None:
    away = switchover_records.begun_away_from(scene, new)
    if away is not None:
        # The old root is wanted as root, so the switchover away from it is rolled back.
        switchover_records.refuse_overtaken(scene, away)
        output.message(f"{away.describe()} is not finished")
        roll_back(where, scene, away.new, how)
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
        if not how.explain:
            one_at_a_time(where, left)
        execute_plan(left, where, how)
        output.message(f"node {new} is already the root, nothing {'else ' if left else ''}to do")
        return
    if switch.closing:
        # Also after an interruption: tables may have been removed from the node since.
        try:
            readiness.check(
                where, scene, new, switch.old, force=allow_data_loss, warn=output.warning
            )
        except StateError as error:
            if switch.begun:
                error.say_more(
                    "the switchover is under way and may block all writes",
                    hint=f"{error.hint}; or roll back: londiste switchover --to {argument(new)}"
                    " --rollback",
                )
            raise
    if how.explain:
        execute_plan(switch.steps(), where, how)
        return
    one_at_a_time(where, switch.steps())
    with reported(how.as_json) as report:
        switchover.execute(switch, where, report)
    output.message(f"node {new} is the root")
