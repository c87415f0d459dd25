"""``queue events``: shows events without consuming them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import chain, islice

import click
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader

from londiste.cli import options, output
from londiste.cli.documents import Rows
from londiste.cli.queue.common import limit_option, open_batch, opened
from londiste.db.connection import Connection
from londiste.errors import BadOption, StateError
from londiste.pgq import admin, batches, browse
from londiste.pgq.blocks import raw_bytes
from londiste.pgq.types import Event


class ListedEvent(Event):
    """An event; ``time`` is a text if it is infinity, before year 1 or after 9999."""

    time: datetime | str  # type: ignore[assignment]


EVENTS = Rows("events", ListedEvent)
COLUMNS = list(Event._fields)


class _AnyBytes(Loader):
    """Texts of any bytes; those that are no UTF-8 are shown as ``\\xe9``."""

    def load(self, data: Buffer) -> str:
        """The text."""
        return bytes(data).decode(errors="backslashreplace")


@click.command()
@click.argument("name", metavar="QUEUE")
@click.option(
    "--consumer", metavar="NAME", help="Show the events that this consumer has not processed."
)
@click.option(
    "--batch", "batch_id", type=int, metavar="ID", help="Show the events of an open batch."
)
@click.option("--from", "first", type=int, metavar="TICK", help="Show the events after this tick.")
@click.option(
    "--to",
    "last",
    type=int,
    metavar="TICK",
    help="Show the events up to this tick (default: the newest).",
)
@click.option("--type", "kind", metavar="TYPE", help="Show only events of this type.")
@click.option(
    "--extra1", metavar="TEXT", help="Show only events with this extra1, for example a table."
)
@click.option("--id", "event_id", type=int, metavar="ID", help="Show only this event.")
@click.option("--contains", metavar="TEXT", help="Show only events whose data contain this text.")
@limit_option
@options.database
@options.json_output(EVENTS)
@options.pass_context
def events(
    ctx: options.Context,
    name: str,
    consumer: str | None,
    batch_id: int | None,
    first: int | None,
    last: int | None,
    kind: str | None,
    extra1: str | None,
    event_id: int | None,
    contains: str | None,
    limit: int,
    db: str | None,
    as_json: bool,
) -> None:
    """Show events; no position changes.

    Of an open batch, of a consumer's pending batches, or between two ticks; without these options,
    all events in the tables of the queue, ordered by id.
    """
    if sum([consumer is not None, batch_id is not None, first is not None or last is not None]) > 1:
        raise BadOption(
            "--consumer, --batch and --from/--to exclude each other",
            hint="give one of these options",
        )
    if first is not None and last is not None and first > last:
        raise BadOption(
            f"--from {first} is after --to {last}", hint="give the earlier tick with --from"
        )
    if limit < 0:
        raise BadOption(f"--limit {limit}: must not be negative", hint="use 0 for no limit")
    where = condition(kind, extra1, event_id, contains)
    with opened(ctx, db) as conn:
        # This command finds the event that others cannot decode.
        conn.adapters.register_loader("text", _AnyBytes)
        browse.accept_any_time(conn)
        admin.find_queue(conn, name)
        with raw_bytes(conn):
            found = _events(conn, name, consumer, batch_id, first, last, where, limit)
            rows = list(islice(found, limit) if limit else found)
    if as_json:
        output.as_json({EVENTS.key: rows})
        return
    shown = [c for c in COLUMNS if c in COLUMNS[:6] or any(getattr(e, c) for e in rows)]
    output.table(shown, [[getattr(event, column) for column in shown] for event in rows])


def _events(
    conn: Connection,
    queue: str,
    consumer: str | None,
    batch_id: int | None,
    first: int | None,
    last: int | None,
    where: str | None,
    limit: int,
) -> Iterator[Event]:
    if consumer is not None:
        state = admin.find_consumer(conn, queue, consumer)
        if state.current_batch is not None:
            batch_id = state.current_batch
        elif state.last_tick is None:
            raise StateError(
                f"consumer {consumer} has no open batch",
                detail="a cooperative consumer has events only in an open batch",
                hint="give the main consumer with --consumer",
            )
        else:
            first = state.last_tick
    chunk = min(limit, 1000) or 1000
    if batch_id is not None:
        return chain.from_iterable(
            batches.events(conn, open_batch(conn, batch_id, queue), chunk=chunk, where=where)
        )
    return browse.events(conn, queue, first, last, where=where, limit=limit)


def condition(
    kind: str | None, extra1: str | None, event_id: int | None, contains: str | None
) -> str | None:
    """The filters as a condition over the columns of events; None without any."""
    parts: list[sql.Composable] = []
    for column, wanted in (("ev_type", kind), ("ev_extra1", extra1), ("ev_id", event_id)):
        if wanted is not None:
            parts.append(sql.SQL("{} = {}").format(sql.Identifier(column), sql.Literal(wanted)))
    if contains is not None:
        parts.append(sql.SQL("pg_catalog.strpos(ev_data, {}) > 0").format(sql.Literal(contains)))
    return sql.SQL(" and ").join(parts).as_string(None) if parts else None
