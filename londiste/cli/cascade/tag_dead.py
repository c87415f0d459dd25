"""``londiste tag-dead`` and ``tag-alive``: marks nodes as failed, or clears the mark."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cascade.switching import failed_mark
from londiste.cli import options
from londiste.cli.cascade.common import cluster_state, finish, tell_silent
from londiste.cli.plan_output import sites
from londiste.settings import NodeSettings


@click.command("tag-dead")
@options.pass_context
@click.argument("names", nargs=-1, required=True, metavar="NODE...")
@options.changes
def tag_dead(context: options.Context, names: tuple[str, ...], how: options.Execution) -> None:
    """Mark nodes as failed on all nodes, so that no node waits for them."""
    _tag(context, names, how, dead=True)


@click.command("tag-alive")
@options.pass_context
@click.argument("names", nargs=-1, required=True, metavar="NODE...")
@options.changes
def tag_alive(context: options.Context, names: tuple[str, ...], how: options.Execution) -> None:
    """Clear the failed mark of nodes."""
    _tag(context, names, how, dead=False)


def _tag(
    context: options.Context, names: Sequence[str], how: options.Execution, *, dead: bool
) -> None:
    settings = context.settings(NodeSettings)
    with sites(settings, bounded=True) as where:
        scene = cluster_state(where, settings, explain=how.explain)
        steps = failed_mark.tag(where, scene, list(names), dead=dead)
        again = "repeat the command when it answers"
        tell_silent(scene, names, "does not get the mark", again)
        word = "dead" if dead else "alive"
        named = ", ".join(names)
        finish(steps, where, how, f"{named}: {word}", f"{named}: already {word}")
