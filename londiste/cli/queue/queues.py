"""Queues themselves: create, list."""

from __future__ import annotations

from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.db.connection import session
from londiste.errors import BadOption
from londiste.pgq import queues
from londiste.settings import DatabaseSettings

_some = click.argument("names", nargs=-1, required=True, metavar="QUEUE...")


@click.command()
@_some
@options.database
@options.json_output
@options.pass_context
def create(ctx: options.Context, names: Sequence[str], db: str | None, as_json: bool) -> None:
    """Create queues: all of them or none.

    A queue that is there stays as it is.
    """
    for name in names:
        if not name.strip():
            raise BadOption("a queue needs a name", hint="londiste queue create QUEUE")
    settings = ctx.settings(DatabaseSettings, db=db)
    made: list[dict[str, object]] = []
    with session(settings.db, name="londiste queue", synchronous=True) as conn:
        for name in names:
            made.append({"queue": name, "created": bool(queues.create_queue(conn, name))})
        conn.commit()
    if as_json:
        output.as_json(made)
    for row in [] if as_json else made:
        output.message(f"queue {row['queue']} " + ("created" if row["created"] else "was there"))


@click.command("list")
@options.database
@options.json_output
@options.pass_context
def list_(ctx: options.Context, db: str | None, as_json: bool) -> None:
    """List the queues of the database."""
    settings = ctx.settings(DatabaseSettings, db=db)
    with session(settings.db, name="londiste queue", autocommit=True) as conn:
        consumers = [each.queue_name for each in queues.get_consumer_info(conn)]
        rows = [
            {
                "queue": q.queue_name,
                "consumers": consumers.count(q.queue_name),
                "last_tick": q.last_tick_id,
                "ticker_lag": q.ticker_lag,
                "ev_per_sec": None if q.ev_per_sec is None else round(q.ev_per_sec, 1),
                "ev_new": q.ev_new,
            }
            for q in queues.get_queue_info(conn)
        ]
    columns = ["queue", "consumers", "last_tick", "ticker_lag", "ev_per_sec", "ev_new"]
    output.show(columns, rows, json_wanted=as_json)
