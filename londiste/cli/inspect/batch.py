"""``londiste batch show``: shows a consumer's open batch without touching it."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

import click

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType
from londiste.cli import options, output
from londiste.db.connection import Connection, session
from londiste.errors import UnknownConsumer
from londiste.orchestration.connections import reach
from londiste.pgq import batches, counting, queues
from londiste.pgq.types import Event
from londiste.settings import NodeSettings


class OpenBatch(TypedDict):
    """The position of a consumer, and its open batch.

    batch -- null: none is open.
    pending_events -- between its position and the newest tick.
    lag -- seconds.
    """

    queue: str
    consumer: str
    last_tick: int | None
    batch: int | None
    next_tick: int | None
    pending_events: int | None
    lag: timedelta | None
    events: list[Event]


@click.group()
def batch() -> None:
    """Show batches."""


@batch.command()
@options.pass_context
@click.argument("consumer", required=False)
@click.option(
    "--events",
    "limit",
    metavar="N",
    default=20,
    show_default=True,
    help="Maximum events to print (0 = none).",
)
@options.json_output(OpenBatch)
def show(context: options.Context, consumer: str | None, limit: int, as_json: bool) -> None:
    """Show the open batch of CONSUMER (default: this node's worker, on its provider).

    Opens and finishes no batch.
    """
    settings = context.settings(NodeSettings)
    queue = settings.queue_name
    with session(settings.db, name="londiste batch", autocommit=True) as conn:
        info = nodes.find_node_info(conn, queue)
    away = info is not None and info.type is not NodeType.ROOT and consumer is None
    name = consumer or (info.worker if info else settings.consumer)
    dsn = settings.db
    if away and info is not None:
        dsn = reach(info.provider_location, settings.remote_extra_connstr, node=info.provider)
    with session(dsn, name="londiste batch", autocommit=True) as conn:
        _show(conn, queue, name, limit, as_json)


def _show(conn: Connection, queue: str, consumer: str, limit: int, as_json: bool) -> None:
    found = queues.get_consumer_info(conn, queue, consumer)
    if not found:
        raise UnknownConsumer(
            f"queue {queue} has no consumer {consumer}",
            hint="londiste queue consumers lists the consumers",
        )
    (state,) = counting.pending(conn, found)
    answer: dict[str, object] = {
        "queue": queue,
        "consumer": consumer,
        "last_tick": state.last_tick,
        "batch": state.current_batch,
        "next_tick": state.next_tick,
        "pending_events": state.pending_events,
        "lag": state.lag,
    }
    opened = (
        None if state.current_batch is None else batches.get_batch_info(conn, state.current_batch)
    )
    events = []
    if opened is not None and limit > 0:
        for chunk in batches.events(conn, opened, chunk=limit):
            events = [event._asdict() for event in chunk]
            break
    if as_json:
        output.as_json({**answer, "events": events})
        return
    output.table(list(answer), [list(answer.values())])
    if opened is None:
        output.message("no open batch")
    elif events:
        output.table(
            ["id", "txid", "type", "data"],
            [[e[c] for c in ("id", "txid", "type", "data")] for e in events],
        )
