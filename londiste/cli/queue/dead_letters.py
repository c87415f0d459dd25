"""``queue dead``: lists, retries and drops dead letters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import click

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.plan_output import execute_changes, report_changes
from londiste.cli.queue.common import limit_option, offset_option, opened, require_page
from londiste.db.connection import Connection
from londiste.db.names import word
from londiste.errors import BadOption, StateError
from londiste.pgq import admin, browse, dead_letters
from londiste.pgq.admin import QueueChange
from londiste.pgq.types import FailedEvent, WaitingInfo


class ListedLetter(FailedEvent):
    """A dead letter; ``time`` as of an event in ``londiste queue events``."""

    time: datetime | str  # type: ignore[assignment]


EVENTS = Rows("events", ListedLetter)
CONSUMERS = Rows("consumers", WaitingInfo)

_queue = click.argument("queue_name", metavar="QUEUE")
_consumer = click.argument("consumer", metavar="CONSUMER")


@click.group()
def dead() -> None:
    """List, retry and drop dead letters: events that a consumer has given up."""


@dead.command("list")
@_queue
@_consumer
@limit_option
@offset_option
@options.database
@options.json_output(EVENTS)
@options.pass_context
def list_(
    ctx: options.Context,
    queue_name: str,
    consumer: str,
    limit: int,
    offset: int,
    db: str | None,
    as_json: bool,
) -> None:
    """List the dead letters of a consumer, with their reasons."""
    require_page(limit, offset)
    with opened(ctx, db) as conn:
        browse.accept_any_time(conn)
        admin.find_consumer(conn, queue_name, consumer)
        found: list[Any] = dead_letters.failed_event_list(
            conn, queue_name, consumer, count=limit or None, offset=offset
        )
        total = dead_letters.failed_event_count(conn, queue_name, consumer)
    columns = ["id", "failed_time", "failed_reason", "retry", "type", "data", "extra1"]
    output.show(EVENTS, found, json_wanted=as_json, empty="no dead letters", columns=columns)
    if total > len(found) and not as_json:
        output.message(f"{len(found)} of {total}")


@dead.command()
@click.argument("queue_name", required=False, metavar="[QUEUE]")
@click.argument("consumer", required=False, metavar="[CONSUMER]")
@options.database
@options.json_output(CONSUMERS)
@options.pass_context
def count(
    ctx: options.Context,
    queue_name: str | None,
    consumer: str | None,
    db: str | None,
    as_json: bool,
) -> None:
    """Count dead letters and retries per consumer."""
    with opened(ctx, db) as conn:
        if queue_name is not None and consumer is not None:
            admin.find_consumer(conn, queue_name, consumer)
        elif queue_name is not None:
            admin.find_queue(conn, queue_name)
        found = dead_letters.get_waiting_info(conn, queue_name, consumer)
    columns = ["queue", "consumer", "dead", "last", "retries", "next_retry"]
    output.show(CONSUMERS, found, json_wanted=as_json, empty="no dead letters", columns=columns)


_changing = options.together(
    _queue,
    _consumer,
    click.argument("event_ids", type=int, nargs=-1, metavar="[EVENT]..."),
    click.option("--all", "every", is_flag=True, help="Apply to all dead letters of the consumer."),
    options.database,
    options.changes,
    options.pass_context,
)


@dead.command()
@_changing
def retry(ctx: options.Context, consumer: str, **given: Any) -> None:
    """Put dead letters back into the queue for this consumer only, in one transaction."""
    one, every = dead_letters.failed_event_retry, dead_letters.failed_event_retry_all
    _change(ctx, consumer, "deliver", f"to consumer {consumer} again", one, every, **given)


@dead.command()
@_changing
def drop(ctx: options.Context, consumer: str, **given: Any) -> None:
    """Delete dead letters, in one transaction."""
    one, every = dead_letters.failed_event_delete, dead_letters.failed_event_delete_all
    _change(ctx, consumer, "delete", f"of consumer {consumer} permanently", one, every, **given)


def _change(
    ctx: options.Context,
    consumer: str,
    verb: str,
    rest: str,
    one: Callable[..., object],
    all_of_them: Callable[..., int],
    *,
    queue_name: str,
    event_ids: Sequence[int],
    every: bool,
    db: str | None,
    how: options.Execution,
) -> None:
    if bool(event_ids) == every:
        raise BadOption(
            "no events given" if not event_ids else "events and --all exclude each other",
            hint=f"name events of londiste queue dead list"
            f" {' '.join(map(word, [queue_name, consumer]))}, or use --all",
        )
    place = {"queue": queue_name, "consumer": consumer}
    with opened(ctx, db) as conn:
        admin.find_consumer(conn, queue_name, consumer)
        if every:
            act = functools.partial(all_of_them, **place)
            # What this call does: another session may do the rest meanwhile.
            total = dead_letters.failed_event_count(conn, **place) if how.explain else act(conn)
            changes = [QueueChange(f"{verb} {total} events {rest}", act)] if total else []
            if not how.explain:
                report_changes(changes, how)
                return
        else:
            _require_known(conn, queue_name, consumer, event_ids)
            changes = [
                QueueChange(
                    f"{verb} event {event} {rest}",
                    functools.partial(one, **place, event_id=event),
                )
                for event in dict.fromkeys(event_ids)
            ]
        execute_changes(conn, changes, how)


def _require_known(conn: Connection, queue: str, consumer: str, event_ids: Sequence[int]) -> None:
    browse.accept_any_time(conn)
    known = {event.id for event in dead_letters.failed_events(conn, queue, consumer)}
    missing = [event for event in event_ids if event not in known]
    if missing:
        raise StateError(
            f"consumer {consumer} of queue {queue} has no dead letter"
            f" {', '.join(map(str, missing))}",
            hint=f"londiste queue dead list {' '.join(map(word, [queue, consumer]))}",
        )
