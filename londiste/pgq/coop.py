"""Cooperative consumers: several workers (subconsumers) share the position of one consumer.

    batch = next_batch(conn, queue, consumer, worker)      None: nothing new
    for chunk in batches.events(conn, batch): ...
    finish_batch(conn, batch.id)                           0: another worker has taken it over

Each batch goes to one worker; batches are finished in any order.  Or event by event:

    for event in receive(conn, queue, consumer, worker, 10):
        ...
        ack(conn, event.batch_id, event.id)                0: another worker has taken it over

One function per SQL function of the schema ``pgq_coop``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from londiste.db import call
from londiste.db.connection import Connection
from londiste.pgq import batches
from londiste.pgq.types import Batch, ReceivedEvent


def register_subconsumer(conn: Connection, queue: str, consumer: str, subconsumer: str) -> int:
    """Registers a worker, and its main consumer if necessary: 1, or 0 if it is registered.

    Raises UnknownConsumer when ``consumer`` is itself a worker, StateError when the name
    ``consumer.subconsumer`` belongs to an ordinary consumer.
    """
    return int(call.value(conn, "pgq_coop.register_subconsumer", queue, consumer, subconsumer))


def unregister_subconsumer(
    conn: Connection, queue: str, consumer: str, subconsumer: str, *, drop_batch: bool = False
) -> int:
    """Unregisters a worker: 1, or 0 if there is none of this name.

    drop_batch -- also with an open batch, whose events are not delivered again; without it such a
        worker raises BatchOpen.
    """
    return int(
        call.value(
            conn,
            "pgq_coop.unregister_subconsumer",
            queue,
            consumer,
            subconsumer,
            int(drop_batch),
        )
    )


def next_batch(
    conn: Connection,
    queue: str,
    consumer: str,
    subconsumer: str,
    *,
    dead_interval: timedelta | None = None,
    min_lag: timedelta | None = None,
    min_count: int | None = None,
    min_interval: timedelta | None = None,
) -> Batch | None:
    """Opens the worker's next batch, or returns the open one; None if there is none.

    Registers worker and main consumer if necessary.  ``Batch.consumer`` is
    ``consumer.subconsumer``.

    dead_interval -- take over the batch of a worker that was inactive for this interval; asking for
        the open batch again counts as activity.
    min_lag, min_count, min_interval -- as for ``batches.next_batch``.

    Commit before working on the batch: other workers wait at the main consumer until then.
    Raises BatchOpen if the main consumer has opened a batch.
    """
    if min_lag is None and min_count is None and min_interval is None:
        args = [] if dead_interval is None else [dead_interval]
        batch_id = call.value(conn, "pgq_coop.next_batch", queue, consumer, subconsumer, *args)
    else:
        batch_id = call.value(
            conn,
            "pgq_coop.next_batch_custom",
            queue,
            consumer,
            subconsumer,
            min_lag,
            min_count,
            min_interval,
            dead_interval,
        )
    # None as well when the batch was taken over between the two calls: ask again later.
    return None if batch_id is None else batches.get_batch_info(conn, batch_id)


def finish_batch(conn: Connection, batch_id: int) -> int:
    """Finishes a worker's batch: 1, or 0 if it was finished before or was taken over.

    A caller that processed the events in the same transaction must roll back on 0.
    """
    return int(call.value(conn, "pgq_coop.finish_batch", batch_id))


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


def version(conn: Connection) -> str:
    """The release of the schema ``pgq_coop`` in the database."""
    return str(call.value(conn, "pgq_coop.version"))
