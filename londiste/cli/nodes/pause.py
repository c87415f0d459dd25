"""``londiste pause`` and ``resume``: pauses and resumes a node's worker."""

from __future__ import annotations

from typing import Any, TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands import pause as pausing
from londiste.cascade.switching import operation_log
from londiste.cli import options, output
from londiste.cli.documents import Steps
from londiste.cli.nodes.common import dsn_of
from londiste.cli.plan_output import changing_sites
from londiste.settings import NodeSettings


class Paused(TypedDict):
    """The consumer, and whether it is paused now."""

    node: str
    consumer: str
    paused: bool


_pausing = options.together(
    options.pass_context,
    click.option("--node", metavar="NAME", help="The node (default: this node)."),
    click.option(
        "--consumer",
        metavar="NAME",
        help="Cascaded consumer of the node, instead of its worker.",
    ),
    options.seconds(
        "--timeout", "Maximum seconds to wait for the worker's response (0 = do not wait)."
    ),
    options.explain,
    options.json_output(Paused, Steps),
)


@click.command()
@_pausing
def pause(context: options.Context, **given: Any) -> None:
    """Pause the worker of a node after its current batch.

    Waits until the worker reports that it is paused.
    """
    _set_paused(context, paused=True, **given)


@click.command()
@_pausing
def resume(context: options.Context, **given: Any) -> None:
    """Resume a paused worker."""
    _set_paused(context, paused=False, **given)


def _set_paused(
    context: options.Context,
    *,
    paused: bool,
    node: str | None,
    consumer: str | None,
    timeout: float,
    explain: bool,
    as_json: bool,
) -> None:
    settings = context.settings(NodeSettings)
    queue = settings.queue_name
    with changing_sites(settings, bounded=True) as where:
        conn = where.at(dsn_of(where, settings, node))
        info = nodes.get_node_info(conn, queue)
        who = consumer or info.worker
        word = "pause" if paused else "resume"
        if explain:
            lines = [f"{info.name}: {word} {who}, wait up to {timeout:g} s for its response"]
            output.lines(lines, json_wanted=as_json)
            return
        if not paused and who == info.worker:
            operation_log.refuse_resume(conn, queue, info.name)
        changed = pausing.set_paused(conn, queue, who, paused, timeout=timeout)
        state = "paused" if paused else "resumed"
        if as_json:
            output.as_json(Paused(node=info.name, consumer=who, paused=paused))
        output.message(f"{who} of node {info.name} is {'' if changed else 'already '}{state}")
