"""``queue batch``: shows an open batch."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.queue.common import open_batch, opened


@click.command()
@click.argument("batch_id", type=int, metavar="BATCH")
@options.database
@options.json_output
@options.pass_context
def batch(ctx: options.Context, batch_id: int, db: str | None, as_json: bool) -> None:
    """Show an open batch: consumer, ticks and maximum number of events."""
    with opened(ctx, db) as conn:
        found = open_batch(conn, batch_id)
    answer = {
        "batch": found.id,
        "queue": found.queue,
        "consumer": found.consumer,
        "prev_tick": found.prev_tick_id,
        "tick": found.tick_id,
        "from": found.prev_tick_time,
        "to": found.tick_time,
        "events": found.size_estimate,
    }
    output.show(list(answer), [answer], json_wanted=as_json)
