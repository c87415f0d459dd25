"""``londiste status``: shows the tree of nodes, once or repeatedly."""

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
@click.option("--compact", is_flag=True, help="Print one line per node.")
@click.option(
    "--watch",
    type=click.FloatRange(min=0.1),
    is_flag=False,
    flag_value=2.0,
    metavar="[SECONDS]",
    help="Refresh every 2 seconds (q or Ctrl-C to quit).",
)
@options.json_output
def status(context: options.Context, compact: bool, watch: float | None, as_json: bool) -> None:
    """Show the tree of nodes with tables, lag, watermarks and changes under way.

    Tables: in sync / being copied / not replicated on the node. A node that does not answer is
    shown as dead. Daemons that do not run are named, and an event that stops the worker. Lag: idle,
    or the ticks, events and seconds that are missing. Watermarks: the last tick that the node and
    the nodes below it have finished, and that all nodes have finished. A node that prevents queue
    rotation for more than ten minutes is named. Large batches: the threshold for parallel apply,
    and how the last large batch of each node was applied. With --watch: refreshed in place on a
    terminal, printed repeatedly elsewhere; with --json one document per line and refresh.
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
