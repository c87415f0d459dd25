"""Consumers of a queue and Spark sinks of its database, in one list.

Consumers have a tick and a lag; a sink of Spark has the number of its last epoch, and when it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from londiste.cascade.model import Subscriber
from londiste.cascade.own_consumers import consumer_kind, find_subscribers
from londiste.db.connection import Connection
from londiste.errors import AccessDenied, InstallError
from londiste.pgq import counting, spark_epochs
from londiste.pgq.consumers import ConsumerKind, get_consumer_kinds
from londiste.pgq.liveness import server_now
from londiste.pgq.types import ConsumerInfo


@dataclass(frozen=True)
class Listed:
    """A consumer of a queue, or a sink.

    queue -- that it reads, or that a sink writes to; None: a sink that writes to tables.
    last_seen -- time since it opened or finished a batch, or wrote an epoch.
    pending_events -- events between its position and the newest tick.
    epoch, target -- of a sink: the last committed epoch, and its target.
    """

    queue: str | None
    consumer: str
    kind: str
    lag: timedelta | None
    last_seen: timedelta | None
    last_tick: int | None = None
    batch: int | None = None
    next_tick: int | None = None
    pending_events: int | None = None
    epoch: int | None = None
    target: str | None = None

    @property
    def is_of_cascade(self) -> bool:
        """Whether it belongs to the cascade itself."""
        return self.kind in [one.value for one in ConsumerKind if one.is_of_cascade]


def consumers(conn: Connection, found: Sequence[ConsumerInfo]) -> list[Listed]:
    """Consumers with their kind."""
    noted = get_consumer_kinds(conn)
    below = {name: find_subscribers(conn, name) or () for name in {one.queue_name for one in found}}
    return [listed(one, noted, below[one.queue_name]) for one in found]


def writing(conn: Connection, queue: str | None = None) -> list[Listed]:
    """The sinks of the database, except those that write to other queues than this one.

    Spark batch jobs, which write once, are not included.
    """
    try:
        found = spark_epochs.get_sinks(conn)
    except (InstallError, AccessDenied):
        return []
    now = server_now(conn)
    result = []
    for one in found:
        if one.query and (queue is None or one.queue in (queue, None)):
            age = max(now - one.done_at, timedelta())
            result.append(
                Listed(
                    one.queue,
                    one.sink,
                    ConsumerKind.SINK.value,
                    None,
                    age,
                    epoch=one.epoch,
                    target=one.target,
                )
            )
    return result


def of_node(conn: Connection, queue: str) -> tuple[Listed, ...]:
    """Consumers of a node's queue that do not belong to the cascade, and sinks of its database."""
    found = consumers(conn, counting.consumers(conn, queue))
    return (*(one for one in found if not one.is_of_cascade), *writing(conn, queue))


def listed(
    one: ConsumerInfo,
    noted: Mapping[tuple[str, str], str],
    subscribers: Sequence[Subscriber],
) -> Listed:
    """Pure: a consumer as an entry of the list.

    noted -- kinds that programs have registered; subscribers -- the nodes that read the queue.
    """
    kind = noted.get((one.queue_name, one.consumer_name))
    return Listed(
        one.queue_name,
        one.consumer_name,
        kind or consumer_kind(one.consumer_name, subscribers).value,
        one.lag,
        one.last_seen,
        one.last_tick,
        one.current_batch,
        one.next_tick,
        one.pending_events,
    )
