"""Small steps for tests of cooperative consumers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import psycopg

from londiste.db import call
from londiste.db.connection import Connection
from londiste.pgq.types import Event
from tests.support.queue_steps import insert, tick, value


class ReceivedEvent(NamedTuple):
    """One row of ``pgq_coop.receive``: an event, and the batch to settle it in."""

    batch_id: int
    id: int
    time: datetime
    txid: int
    retry: int | None
    type: str | None
    data: str | None
    extra1: str | None
    extra2: str | None
    extra3: str | None
    extra4: str | None

    @property
    def event(self) -> Event:
        """The event alone."""
        return Event(*self[1:])


def workers(conn: Connection, *names: str, queue: str = "q", consumer: str = "c") -> None:
    """Registers workers."""
    for name in names:
        conn.execute("select pgq_coop.register_subconsumer(%s, %s, %s)", [queue, consumer, name])


def batches(conn: Connection, *datas: str) -> None:
    """One batch per text."""
    for data in datas:
        insert(conn, data)
        tick(conn)


def take(conn: Connection, worker: str, dead: str | None = None) -> int | None:
    """Opens the worker's next batch of consumer c; its id."""
    batch = value(conn, "select pgq_coop.next_batch('q', 'c', %s, %s)", worker, dead)
    return None if batch is None else int(batch)


def must_take(conn: Connection, worker: str, dead: str | None = None) -> int:
    """As ``take`` for a batch that must be there."""
    batch = take(conn, worker, dead)
    assert batch is not None
    return batch


def finish(conn: Connection, batch: int) -> int:
    """Finishes a worker's batch."""
    return int(value(conn, "select pgq_coop.finish_batch(%s)", batch))


def subscription(conn: Connection, name: str) -> tuple[Any, ...] | None:
    """sub_last_tick, sub_batch, sub_next_tick of a consumer of queue q."""
    return conn.execute(
        "select sub_last_tick, sub_batch, sub_next_tick from pgq.subscription"
        " join pgq.consumer on co_id = sub_consumer where co_name = %s",
        [name],
    ).fetchone()


def silent_since(conn: Connection, worker: str, interval: str) -> None:
    """The worker gave no sign of life for that long."""
    done = conn.execute(
        "update pgq.subscription set sub_active = clock_timestamp() - %s::interval"
        " where sub_consumer = (select co_id from pgq.consumer where co_name = %s)",
        [interval, f"c.{worker}"],
    )
    assert done.rowcount == 1


class Warnings(list[str]):
    """The warnings of a session, as texts."""

    def __init__(self, conn: Connection) -> None:
        super().__init__()
        conn.add_notice_handler(self._note)

    def _note(self, diag: psycopg.errors.Diagnostic) -> None:
        if diag.severity_nonlocalized == "WARNING":
            self.append(diag.message_primary or "")


def receive(
    conn: Connection,
    queue: str,
    consumer: str,
    subconsumer: str,
    max_events: int,
    *,
    dead_interval: timedelta | None = None,
    receiver: str | None = None,
) -> list[ReceivedEvent]:
    """Events for this worker to process and settle, in the order of their ids.

    Empty when there is nothing new, or when all events of the worker's batch are handed out and
    some are not settled.  Every event comes at least once; to the same receiver once, unless
    ``receive_again`` is called.

    dead_interval -- take over the batch of a worker that gave no sign of life for so long.
    receiver -- a text that is new in each life of the worker, for a pooler that changes sessions
        between transactions; None for this database session.

    Commit before processing, or other workers may wait.
    """
    return call.records(
        conn,
        ReceivedEvent,
        "pgq_coop.receive",
        queue,
        consumer,
        subconsumer,
        max_events,
        dead_interval,
        receiver,
    )


def receive_again(conn: Connection, batch_id: int) -> int:
    """Makes ``receive`` hand out again what is not settled: 1, or 0 when the batch is not open."""
    return int(call.value(conn, "pgq_coop.receive_again", batch_id))


def ack(conn: Connection, batch_id: int, event_id: int) -> int:
    """The event is processed: 1.

    0 when the batch was taken over or finished, or the event was settled before; who has
    processed it in the same transaction has to roll back then.
    """
    return int(call.value(conn, "pgq_coop.ack", batch_id, event_id))


def ack_events(conn: Connection, batch_id: int, event_ids: Sequence[int]) -> int:
    """The same for several events; how many were settled by this call."""
    return int(call.value(conn, "pgq_coop.ack_events", batch_id, list(event_ids)))


def nack(
    conn: Connection,
    batch_id: int,
    event_id: int,
    retry_seconds: int,
    *,
    reason: str | None = None,
    max_attempts: int | None = None,
) -> Literal["retry", "failed"] | None:
    """The event could not be processed: it comes again in so many seconds, or is given up.

    max_attempts -- deliveries altogether after which it goes to the failed events with
        ``reason``; the queue's ``max_retries`` holds in any case.

    None in the cases where ``ack`` answers 0.
    """
    answer: Literal["retry", "failed"] | None = call.value(
        conn, "pgq_coop.nack", batch_id, event_id, retry_seconds, reason, max_attempts
    )
    return answer
