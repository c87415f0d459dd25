"""``queue retry``: events that are delivered again later."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import open_batch, opened
from londiste.errors import BadOption
from londiste.pgq import admin, batches, browse
from londiste.pgq.admin import QueueChange


@click.group()
def retry() -> None:
    """Events that are delivered again later."""


@retry.command("list")
@click.argument("name", required=False, metavar="[QUEUE]")
@click.option("--consumer", metavar="NAME", help="Only those of this consumer.")
@click.option("--limit", default=20, show_default=True, help="Most to print; 0: no limit.")
@options.database
@options.json_output
@options.pass_context
def retry_list(
    ctx: options.Context,
    name: str | None,
    consumer: str | None,
    limit: int,
    db: str | None,
    as_json: bool,
) -> None:
    """List the events that wait to be delivered again, those due first at the top."""
    with opened(ctx, db) as conn:
        if name is not None:
            admin.find_queue(conn, name)
        rows = browse.retries(conn, name, consumer, limit=limit)
    columns = ["queue", "consumer", "id", "after", "retry", "type", "data", "extra1"]
    output.show(columns, rows, json_wanted=as_json)


@retry.command("event")
@click.argument("batch_id", type=int, metavar="BATCH")
@click.argument("event_ids", type=int, nargs=-1, required=True, metavar="EVENT...")
@click.option("--seconds", default=60, show_default=True, help="Not before so many seconds.")
@options.database
@options.explain
@options.json_output
@options.pass_context
def retry_event(
    ctx: options.Context,
    batch_id: int,
    event_ids: Sequence[int],
    seconds: int,
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Have events of an open batch delivered again: all of them or none."""
    if seconds < 0:
        raise BadOption(f"--seconds {seconds}: less than nothing", hint="0 is at once")
    with opened(ctx, db) as conn:
        found = open_batch(conn, batch_id)
        changes = [
            QueueChange(
                f"deliver event {one} of batch {batch_id} again to {found.consumer}"
                f" in {seconds} seconds",
                functools.partial(
                    batches.event_retry, batch_id=batch_id, event_id=one, after=seconds
                ),
            )
            for one in dict.fromkeys(event_ids)
        ]
        execute_changes(conn, changes, explain=explain, json_wanted=as_json)
