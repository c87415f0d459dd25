"""``queue list``: lists the queues of a database."""

from __future__ import annotations

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.queue.common import opened
from londiste.pgq import queues

QUEUES = Rows("queues", queues.ListedQueue)


@click.command("list")
@options.database
@options.json_output(QUEUES)
@options.pass_context
def list_(ctx: options.Context, db: str | None, as_json: bool) -> None:
    """List the queues of the database."""
    with opened(ctx, db) as conn:
        rows = queues.listed(conn)
    output.show(
        QUEUES,
        rows,
        json_wanted=as_json,
        empty="no queue: londiste queue create QUEUE",
    )
