"""``londiste status``: the tree of nodes, once or again and again."""

from __future__ import annotations

import dataclasses
import os
import sys
from datetime import datetime

import click

from londiste.cli import options, output
from londiste.cli.live_view import again_and_again
from londiste.errors import LondisteError
from londiste.monitor import status as monitor
from londiste.monitor import tree_view
from londiste.monitor.status import Status
from londiste.settings import WorkerSettings


@click.command()
@options.pass_context
@click.option("--compact", is_flag=True, help="One line per node.")
@click.option(
    "--watch",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=2.0,
    metavar="[SECONDS]",
    help="Again and again, every 2 seconds; q or Ctrl-C ends it.",
)
@options.json_output
def status(context: options.Context, compact: bool, watch: float | None, as_json: bool) -> None:
    """Show the tree of nodes with tables, lag and watermarks, and what is under way.

    Tables: in step / on the way / not kept there. A node that does not answer is shown as dead.
    Watermarks: up to which tick the node and those below it have finished, and all nodes; who keeps
    old events is told when it lasts for more than ten minutes.
    Large batches: from how many events on a job of the engine carries a batch, and which way the
    last one of each node went.
    With --watch: on a terminal in place, elsewhere one after the other; with --json one document
    per line and look.
    """
    settings = context.settings(WorkerSettings)

    def collect() -> Status:
        return dataclasses.replace(
            monitor.collect(settings.db, settings.queue_name, extra=settings.remote_extra_connstr),
            large_from=settings.parallel_apply_min_events,
            engine=settings.engine,
        )

    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def draw(found: Status) -> list[str]:
        def paint(text: str) -> str:
            return click.style(text, fg="red") if colour else text

        return (tree_view.compact if compact else tree_view.tree)(found, paint)

    if watch is None:
        found = collect()
        if as_json:
            output.as_json(found)
        else:
            click.echo("\n".join(draw(found)))
        return

    def look() -> list[str]:
        try:
            return draw(collect())
        except LondisteError as error:
            return [f"error: {error.message}"]

    if as_json:
        again_and_again(watch, lambda: output.as_json(collect()))
    else:
        again_and_again(watch, lambda: [f"{datetime.now():%Y-%m-%d %H:%M:%S}", *look()])
