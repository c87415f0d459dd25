"""``queue list``: lists the queues of a database."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.queue.common import opened
from londiste.pgq import queues
from londiste.pgq.types import QueueInfo


class ListedQueue(TypedDict):
    """A queue.

    consumers -- their number.
    ticker_lag -- seconds since the last tick.
    ev_new -- events since the last tick.
    """

    queue: str
    consumers: int
    last_tick: int | None
    ticker_lag: timedelta | None
    ev_per_sec: float | None
    ev_new: int | None


QUEUES = Rows("queues", ListedQueue)


@click.command("list")
@options.database
@options.json_output(QUEUES)
@options.pass_context
def list_(ctx: options.Context, db: str | None, as_json: bool) -> None:
    """List the queues of the database."""
    with opened(ctx, db) as conn:
        consumers = [each.queue_name for each in queues.get_consumer_info(conn)]
        rows = [_row(q, consumers.count(q.queue_name)) for q in queues.get_queue_info(conn)]
    output.show(
        QUEUES,
        rows,
        json_wanted=as_json,
        empty="no queue: londiste queue create QUEUE",
    )


def _row(queue: QueueInfo, consumers: int) -> ListedQueue:
    """A line of the list of queues."""
    return {
        "queue": queue.queue_name,
        "consumers": consumers,
        "last_tick": queue.last_tick_id,
        "ticker_lag": queue.ticker_lag,
        "ev_per_sec": None if queue.ev_per_sec is None else round(queue.ev_per_sec, 1),
        "ev_new": queue.ev_new,
    }
