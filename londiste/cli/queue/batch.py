"""``queue batch``: shows an open batch."""

from __future__ import annotations

from datetime import datetime
from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.queue.common import open_batch, opened

#: from, to -- times of its ticks.  events -- at most.
OpenBatch = TypedDict(
    "OpenBatch",
    {
        "batch": int,
        "queue": str,
        "consumer": str,
        "prev_tick": int,
        "tick": int,
        "from": datetime,
        "to": datetime,
        "events": int,
    },
)
OpenBatch.__doc__ = """An open batch.

from, to -- times of its ticks.
events -- their number at most.
"""


@click.command()
@click.argument("batch_id", type=int, metavar="BATCH")
@options.database
@options.json_output(OpenBatch)
@options.pass_context
def batch(ctx: options.Context, batch_id: int, db: str | None, as_json: bool) -> None:
    """Show an open batch: consumer, ticks and approximate number of events."""
    with opened(ctx, db) as conn:
        found = open_batch(conn, batch_id)
    answer: OpenBatch = {
        "batch": found.id,
        "queue": found.queue,
        "consumer": found.consumer,
        "prev_tick": found.prev_tick_id,
        "tick": found.tick_id,
        "from": found.prev_tick_time,
        "to": found.tick_time,
        "events": found.size_estimate,
    }
    if as_json:
        output.as_json(answer)
    else:
        output.table(list(answer), [list(answer.values())])
