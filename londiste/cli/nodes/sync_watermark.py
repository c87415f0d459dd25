"""``londiste sync-watermark``: sets a branch to keep the watermark of a group of nodes."""

from __future__ import annotations

from typing import TypedDict

import click

from londiste.cascade import watermark
from londiste.cascade.switching.cluster_state import look
from londiste.cli import options, output
from londiste.cli.documents import Done, Rows, Steps
from londiste.cli.plan_output import execute_plan, sites
from londiste.errors import BadOption
from londiste.settings import NodeSettings


class Grouped(TypedDict):
    """A node of the group."""

    node: str


GROUP = Rows("nodes", Grouped)


@click.command("sync-watermark")
@options.pass_context
@click.argument("names", nargs=-1, metavar="[NODE...]")
@click.option("--node", metavar="NAME", help="The branch (default: this node).")
@click.option("--off", is_flag=True, help="Remove the group; the root's watermark applies again.")
@options.explain
@options.json_output(GROUP, Steps, Done)
def sync_watermark(
    context: options.Context,
    names: tuple[str, ...],
    node: str | None,
    off: bool,
    explain: bool,
    as_json: bool,
) -> None:
    """Set a branch to keep the events that a group of nodes below it still needs.

    NODE: the nodes of the group. The branch reports only its own position to its provider, and
    computes the watermark of the group itself. The root then need not keep events for the group.
    Without NODE and --off: shows the group.
    """
    if off and names:
        raise BadOption("nodes and --off exclude each other", hint="give nodes, or --off")
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = look(where, settings.db, settings.queue_name, settings.remote_extra_connstr)
        name = node or scene.topology.local
        if not names and not off:
            group = watermark.group_of(scene.info(name))
            output.show(GROUP, [Grouped(node=other) for other in group], json_wanted=as_json)
            return
        steps = watermark.plan(scene, name, names)
        count = execute_plan(steps, where, options.Execution(explain, as_json))
    if not explain and not count:
        output.message(f"node {name}: already set, nothing to do")
