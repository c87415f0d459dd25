"""Delayed events: inserted now, to be delivered later."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import click

from londiste.cli import options, output
from londiste.cli.plan_output import execute_changes
from londiste.cli.queue.common import opened
from londiste.db.connection import Connection
from londiste.errors import BadOption, StateError
from londiste.pgq import admin
from londiste.pgq import delayed as waiting
from londiste.pgq.admin import QueueChange

_queue = click.argument("queue_name", metavar="QUEUE")


@click.group()
def delayed() -> None:
    """Events that wait for their time."""


@delayed.command("list")
@_queue
@click.option("--limit", default=20, show_default=True, help="Most to print; 0: no limit.")
@click.option("--offset", default=0, help="Leave out so many before.")
@options.database
@options.json_output
@options.pass_context
def list_(
    ctx: options.Context, queue_name: str, limit: int, offset: int, db: str | None, as_json: bool
) -> None:
    """List the events of a queue that wait for their time, the next first."""
    if limit < 0 or offset < 0:
        raise BadOption("--limit and --offset: less than nothing", hint="0 is no limit, no offset")
    with opened(ctx, db) as conn:
        admin.find_queue(conn, queue_name)
        found = waiting.delayed_event_list(conn, queue_name, count=limit or None, offset=offset)
        info = next(iter(waiting.get_delayed_info(conn, queue_name)), None)
    if as_json:
        output.as_json([event._asdict() for event in found])
        return
    columns = ["send_at", "id", "inserted", "type", "data", "extra1"]
    output.show(columns, [event._asdict() for event in found], json_wanted=False)
    if info is not None and info.delayed_events > len(found):
        output.message(f"{len(found)} of {info.delayed_events}")
    if info is not None and info.is_held and info.overdue_events:
        output.warning(
            f"{info.overdue_events} events are due and stay, as queue {queue_name} takes no events"
        )


@delayed.command()
@_queue
@click.argument("event_ids", type=int, nargs=-1, required=True, metavar="EVENT...")
@options.database
@options.explain
@options.json_output
@options.pass_context
def cancel(
    ctx: options.Context,
    queue_name: str,
    event_ids: Sequence[int],
    db: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Take back events that wait for their time: all of them or none."""
    with opened(ctx, db) as conn:
        admin.find_queue(conn, queue_name)
        changes = [
            QueueChange(
                f"cancel delayed event {event} of queue {queue_name}",
                functools.partial(_cancel, queue=queue_name, event=event),
            )
            for event in dict.fromkeys(event_ids)
        ]
        execute_changes(conn, changes, explain=explain, json_wanted=as_json)


def _cancel(conn: Connection, queue: str, event: int) -> None:
    if not waiting.cancel_delayed_event(conn, queue, event):
        raise StateError(
            f"event {event} of queue {queue} does not wait for its time",
            detail="it was delivered, cancelled, or never delayed; nothing was cancelled",
            hint=f"londiste queue delayed list {queue}",
        )
