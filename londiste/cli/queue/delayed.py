"""``queue delayed``: lists and cancels delayed events."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import limit_option, offset_option, opened, require_page
from londiste.db.connection import Connection
from londiste.db.names import word
from londiste.errors import StateError
from londiste.pgq import admin
from londiste.pgq import delayed as waiting
from londiste.pgq.admin import QueueChange
from londiste.pgq.types import DelayedEvent

EVENTS = Rows("events", DelayedEvent)

_queue = click.argument("queue_name", metavar="QUEUE")


@click.group()
def delayed() -> None:
    """List and cancel delayed events."""


@delayed.command("list")
@_queue
@limit_option
@offset_option
@options.database
@options.json_output(EVENTS)
@options.pass_context
def list_(
    ctx: options.Context, queue_name: str, limit: int, offset: int, db: str | None, as_json: bool
) -> None:
    """List the delayed events of a queue, the next one first."""
    require_page(limit, offset)
    with opened(ctx, db) as conn:
        admin.find_queue(conn, queue_name)
        found = waiting.delayed_event_list(conn, queue_name, count=limit or None, offset=offset)
        info = next(iter(waiting.get_delayed_info(conn, queue_name)), None)
    if as_json:
        output.as_json({EVENTS.key: found})
        return
    columns = ["send_at", "id", "inserted", "type", "data", "extra1"]
    output.show(
        EVENTS,
        found,
        json_wanted=False,
        empty="no event waits for its time",
        columns=columns,
    )
    if info is not None and info.delayed_events > len(found):
        output.message(f"{len(found)} of {info.delayed_events}")
    if info is not None and info.is_held and info.overdue_events:
        output.warning(
            f"queue {queue_name}: {info.overdue_events} due events stay delayed: the queue takes"
            " no events"
        )


@delayed.command()
@_queue
@click.argument("event_ids", type=int, nargs=-1, required=True, metavar="EVENT...")
@options.database
@options.changes
@options.pass_context
def cancel(
    ctx: options.Context,
    queue_name: str,
    event_ids: Sequence[int],
    db: str | None,
    how: options.Execution,
) -> None:
    """Cancel delayed events, in one transaction."""
    with opened(ctx, db) as conn:
        admin.find_queue(conn, queue_name)
        changes = [
            QueueChange(
                f"cancel delayed event {event} of queue {queue_name}",
                functools.partial(_cancel, queue=queue_name, event=event),
            )
            for event in dict.fromkeys(event_ids)
        ]
        execute_changes(conn, changes, how)


def _cancel(conn: Connection, queue: str, event: int) -> None:
    if not waiting.cancel_delayed_event(conn, queue, event):
        raise StateError(
            f"queue {queue}: event {event} is not delayed",
            detail="it was delivered, cancelled, or never delayed; no event was cancelled",
            hint=f"londiste queue delayed list {word(queue)}",
        )
