"""Cooperative consumers: several workers (subconsumers) share the position of one consumer.

    batch = next_batch(conn, queue, consumer, worker)      None: nothing new
    for chunk in batches.events(conn, batch): ...
    finish_batch(conn, batch.id)                           0: another worker has taken it over

Each batch goes to one worker; batches are finished in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import argument, word
from londiste.db.queries import tuples
from londiste.errors import StateError
from londiste.pgq import batches, queues
from londiste.pgq.types import Batch


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


def unregister_consumer(conn: Connection, queue: str, consumer: str) -> int:
    """Unregisters a consumer, with its workers if it has some; the number of registrations.

    Raises StateError while a worker has an open batch, whose events nobody would get.
    """
    with conn.transaction():
        require_closed(conn, queue, consumer, workers(conn, queue, consumer), again="")
        return batches.unregister_consumer(conn, queue, consumer)


def require_closed(
    conn: Connection, queue: str, consumer: str, names: Sequence[str], *, again: str
) -> None:
    """Raises StateError if one of these workers has an open batch.

    again -- arguments of the command that loses it, where they are not those of this consumer.
    """
    for name in names:
        for one in queues.get_consumer_info(conn, queue, f"{consumer}.{name}"):
            if one.current_batch is not None:
                lose = again or f"{word(queue)} {argument(consumer)}"
                raise StateError(
                    f"cooperative consumer {name} has batch {one.current_batch} open",
                    detail="the events of the batch would be lost",
                    hint=f"{takeover(one.consumer_name)}; or lose them: londiste queue unregister"
                    f" {lose} --close-batch",
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


def workers(conn: Connection, queue: str, consumer: str) -> list[str]:
    """The cooperative consumers of a consumer, by the second part of their names."""
    rows = tuples(conn, "cooperative_consumers", queue=queue, consumer=consumer)
    return [str(name) for (name,) in rows]


def main_of(conn: Connection, queue: str, name: str) -> str:
    """The main consumer of a cooperative consumer; empty for another consumer."""
    for at, character in enumerate(name):
        if character == "." and name[at + 1 :] in workers(conn, queue, name[:at]):
            return name[:at]
    return ""


def takeover(name: str) -> str:
    """How the events in the open batch of a cooperative consumer are delivered all the same."""
    return (
        f"start {name} again, which gets its batch; or another one with"
        " --set subconsumer_timeout='5 minutes' (not under ONCE_PER_EVENT)"
    )
