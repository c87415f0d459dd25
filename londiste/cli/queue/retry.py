"""``queue retry``: lists and schedules retries of events."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import datetime
from typing import Any, TypedDict

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import limit_option, open_batch, opened
from londiste.errors import BadOption
from londiste.pgq import admin, batches, browse
from londiste.pgq.admin import QueueChange


class WaitingEvent(TypedDict):
    """An event that waits for its retry.

    after -- time of the retry.
    """

    queue: str
    consumer: str | None
    id: int
    after: datetime
    retry: int | None
    type: str | None
    data: str | None
    extra1: str | None


EVENTS = Rows("events", WaitingEvent)


@click.group()
def retry() -> None:
    """List and schedule retries of events."""


@retry.command("list")
@click.argument("name", required=False, metavar="[QUEUE]")
@click.option("--consumer", metavar="NAME", help="Show only retries of this consumer.")
@limit_option
@options.database
@options.json_output(EVENTS)
@options.pass_context
def retry_list(
    ctx: options.Context,
    name: str | None,
    consumer: str | None,
    limit: int,
    db: str | None,
    as_json: bool,
) -> None:
    """List the pending retries, those due first at the top."""
    with opened(ctx, db) as conn:
        if name is not None:
            admin.find_queue(conn, name)
        rows: list[Any] = browse.retries(conn, name, consumer, limit=limit)
    columns = ["queue", "consumer", "id", "after", "retry", "type", "data", "extra1"]
    output.show(
        EVENTS,
        rows,
        json_wanted=as_json,
        columns=columns,
        empty="no event waits for a retry",
    )


@retry.command("event")
@click.argument("batch_id", type=int, metavar="BATCH")
@click.argument("event_ids", type=int, nargs=-1, required=True, metavar="EVENT...")
@click.option(
    "--seconds",
    metavar="SECONDS",
    default=60,
    show_default=True,
    help="Delay of the delivery in seconds (0 = immediately).",
)
@options.database
@options.changes
@options.pass_context
def retry_event(
    ctx: options.Context,
    batch_id: int,
    event_ids: Sequence[int],
    seconds: int,
    db: str | None,
    how: options.Execution,
) -> None:
    """Schedule events of an open batch for a retry, in one transaction."""
    if seconds < 0:
        raise BadOption(
            f"--seconds {seconds}: must not be negative", hint="use 0 for an immediate retry"
        )
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
        execute_changes(conn, changes, how)
