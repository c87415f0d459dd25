"""``queue tick`` and ``ticks``: creates a tick, and lists the newest ones."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypedDict

import click

from londiste.cli import options, output
from londiste.cli.daemons.tick import tick as tick
from londiste.cli.documents import Rows
from londiste.cli.queue.common import opened
from londiste.db.queries import fetch
from londiste.pgq import admin


class KnownTick(TypedDict):
    """A tick.

    event_seq -- the highest event id so far.
    events -- their number at most since the tick before it.
    snapshot -- transactions that it sees.
    """

    tick: int
    time: datetime
    event_seq: int
    events: int | None
    snapshot: str


TICKS = Rows("ticks", KnownTick)


@click.command()
@click.argument("name", metavar="QUEUE")
@click.option("--count", metavar="N", default=20, show_default=True, help="Maximum rows to print.")
@options.database
@options.json_output(TICKS)
@options.pass_context
def ticks(ctx: options.Context, name: str, count: int, db: str | None, as_json: bool) -> None:
    """List the newest ticks of a queue; events is the maximum number before each tick."""
    with opened(ctx, db) as conn:
        admin.find_queue(conn, name)
        rows: list[Any] = fetch(conn, "queue_ticks", queue=name, count=count)
    output.show(
        TICKS,
        rows,
        json_wanted=as_json,
        empty="no tick yet: londiste queue tick QUEUE",
    )
