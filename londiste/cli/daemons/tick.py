"""``londiste tick``, also ``londiste queue tick``: creates a tick."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.db.connection import session
from londiste.pgq import queues
from londiste.settings import DatabaseSettings


class MadeTick(TypedDict):
    """A queue, and its new tick."""

    queue: str
    tick: int | None


TICKS = Rows("ticks", MadeTick)


@click.command()
@click.argument("names", nargs=-1, metavar="[QUEUE]...")
@options.database
@options.json_output(TICKS)
@options.pass_context
def tick(ctx: options.Context, names: Sequence[str], db: str | None, as_json: bool) -> None:
    """Create a tick now.

    In the named queues, or in every queue without an external ticker.
    """
    settings = ctx.settings(DatabaseSettings, db=db)
    made: list[MadeTick] = []
    with session(settings.db, name="londiste tick", autocommit=True, synchronous=True) as conn:
        wanted = names or [
            queue.queue_name
            for queue in queues.get_queue_info(conn)
            if not queue.queue_external_ticker and not queue.queue_ticker_paused
        ]
        for name in wanted:
            made.append(MadeTick(queue=name, tick=queues.create_tick(conn, name)))
    output.show(TICKS, made, json_wanted=as_json)
