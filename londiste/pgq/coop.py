"""Cooperative consumers: several workers (subconsumers) share the position of one consumer.

    batch = next_batch(conn, queue, consumer, worker)      None: nothing new
    for chunk in batches.events(conn, batch): ...
    finish_batch(conn, batch.id)                           0: another worker has taken it over

Each batch goes to one worker; batches are finished in any order.  One function per SQL function
of the schema ``pgq_coop``.
"""

from __future__ import annotations

from datetime import timedelta

from londiste.db import call
from londiste.db.connection import Connection
from londiste.pgq import batches
from londiste.pgq.types import Batch


def register_subconsumer(conn: Connection, queue: str, consumer: str, subconsumer: str) -> int:
    """Registers a worker, and its main consumer if need be: 1, or 0 when it was there.

    Raises UnknownConsumer when ``consumer`` is itself a worker, StateError when the name
    ``consumer.subconsumer`` belongs to an ordinary consumer.
    """
    return int(call.value(conn, "pgq_coop.register_subconsumer", queue, consumer, subconsumer))


def unregister_subconsumer(
    conn: Connection, queue: str, consumer: str, subconsumer: str, *, drop_batch: bool = False
) -> int:
    """Forgets a worker: 1, or 0 when there is none of this name.

    drop_batch -- also when it has a batch open, whose events nobody gets again; without, that
        raises BatchOpen.
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
    """Opens the worker's next batch, or answers the one that is open; None when there is none.

    Registers worker and main consumer when they are not there.  ``Batch.consumer`` is
    ``consumer.subconsumer``.

    dead_interval -- take over the batch of a worker that gave no sign of life for so long; asking
        for the open batch again is a sign of life.
    min_lag, min_count, min_interval -- as for ``batches.next_batch``.

    Commit before working on the batch: other workers wait at the main consumer until then.
    Raises BatchOpen when the main consumer has opened a batch by itself.
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
    """Closes a worker's batch: 1, or 0 when it was closed before or was taken over.

    Who has processed the events in the same transaction has to roll back on 0.
    """
    return int(call.value(conn, "pgq_coop.finish_batch", batch_id))


def version(conn: Connection) -> str:
    """The release of the schema ``pgq_coop`` in the database."""
    return str(call.value(conn, "pgq_coop.version"))


__all__ = [
    "finish_batch",
    "next_batch",
    "register_subconsumer",
    "unregister_subconsumer",
    "version",
]
