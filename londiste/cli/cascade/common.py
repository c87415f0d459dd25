"""What the commands that change a cascade share: options, its state, and how they end."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import click

from londiste.cascade.switching import operation_log
from londiste.cascade.switching.cluster_state import ClusterState, look
from londiste.cascade.switching.steps.notes import AtNode, Begin
from londiste.cli import options, output
from londiste.cli.plan_output import execute_plan
from londiste.errors import TransientError
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.settings import NodeSettings

timeout_option = click.option(
    "--timeout",
    default=60.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for each wait.",
)
#: In this time a new root has to have everything, while nobody can write.
block_option = click.option(
    "--block",
    default=10.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds for which nobody may be able to write; then everything is undone.",
)
all_option = click.option(
    "--all", "move_all", is_flag=True, help="The other subscribers of the old node move, too."
)
rollback_option = click.option(
    "--rollback", is_flag=True, help="Undo a change that was begun and not finished."
)


def output_options(function: Any) -> Any:
    """``--explain`` and ``--json``."""
    for decorate in (options.json_output, options.explain):
        function = decorate(function)
    return function


def cluster_state(where: Connections, settings: NodeSettings) -> ClusterState:
    """The nodes as the node of the settings knows them, and as they answer."""
    return look(where, settings.db, settings.queue_name, settings.remote_extra_connstr)


def finish(
    steps: Sequence[Step], where: Connections, explain: bool, as_json: bool, done: str, nothing: str
) -> None:
    """Explains the steps, or does them and says ``done``, or ``nothing`` if none was left."""
    if not explain:
        one_at_a_time(where, steps)
    count = execute_plan(steps, where, explain=explain, json_wanted=as_json)
    if not explain:
        output.message(done if count else nothing)


def one_at_a_time(where: Connections, steps: Sequence[Step]) -> None:
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


def tell_silent(scene: ClusterState, about: Sequence[str], what: str) -> None:
    """Nodes that do not answer are passed over, and must not be forgotten."""
    for name, view in scene.topology.views.items():
        if view.info is None and not view.member.dead and name not in about:
            output.warning(
                f"node {name} does not answer and {what}: give the command again when it is back"
            )
