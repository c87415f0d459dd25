"""Options of the commands that change a cascade, its state, and their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from londiste.cascade.switching.cluster_lock import lock
from londiste.cascade.switching.cluster_state import ClusterState, look
from londiste.cascade.switching.steps.notes import one_at_a_time
from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.settings import NodeSettings

timeout_option = options.seconds("--timeout", "Maximum seconds for each wait.")
#: In this time, without writes, a new root must apply everything.
block_option = options.seconds(
    "--block",
    "Maximum seconds without writes; the switchover is rolled back after that.",
    default=10.0,
)
all_option = click.option(
    "--all", "move_all", is_flag=True, help="Switch the other subscribers of the old node, too."
)
nocheck_option = click.option(
    "--nocheck",
    is_flag=True,
    help="Skip the check that the stored location of the new provider leads to it.",
)
rollback_option = click.option("--rollback", is_flag=True, help="Undo an unfinished change.")


def cluster_state(
    where: Connections, settings: NodeSettings, *, explain: bool, nocheck: bool = False
) -> ClusterState:
    """The nodes as the node of the settings knows them, and as they answer.

    They are locked for the command, unless it only explains.  Raises NodeBusy.

    nocheck -- the node may become a provider although its stored location does not answer.
    """
    extra = settings.remote_extra_connstr
    seen = look(where, settings.db, settings.queue_name, extra)
    if nocheck:
        seen = replace(seen, astray=None)
    return seen if explain else lock(where, seen, extra)


def finish(
    steps: Sequence[Step], where: Connections, how: options.Execution, done: str, nothing: str
) -> None:
    """Prints or executes the steps, then prints ``done``, or ``nothing`` if none was left."""
    if not how.explain:
        one_at_a_time(where, steps)
    count = execute_plan(steps, where, how)
    if not how.explain:
        output.message(done if count else nothing)


def tell_silent(scene: ClusterState, about: Sequence[str], what: str, hint: str) -> None:
    """Warns about nodes that do not answer; hint -- what to do for them."""
    for name, view in scene.topology.views.items():
        if view.info is None and not view.member.dead and name not in about:
            output.warning(f"node {name} does not answer and {what}: {hint}")
