"""The consumer that prevents the rotation of a queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from londiste.cascade.model import Subscriber
from londiste.cascade.own_consumers import GLOBAL_WATERMARK, own_consumer
from londiste.db.names import argument
from londiste.pgq.types import ConsumerInfo


@dataclass(frozen=True)
class Retention:
    """The consumer of a node's queue that lags most.

    tick -- events after it are kept.
    age -- seconds since that tick.
    consumer -- its name in the queue; ``who`` describes it.
    do -- what ends the keeping of events.
    """

    tick: int
    age: float
    consumer: str
    who: str
    do: str = ""


def held(consumers: Iterable[ConsumerInfo], subscribers: Sequence[Subscriber]) -> Retention | None:
    """Pure: the consumer that keeps the events of a queue; None when all have its newest tick."""
    behind = [c for c in consumers if c.last_tick is not None and c.pending_events is not None]
    if not behind:
        return None
    # Of several at one tick the marker of them all says least.
    last = min(
        behind,
        key=lambda c: (c.last_tick or 0, c.consumer_name == GLOBAL_WATERMARK, c.consumer_name),
    )
    newest = max(c.last_tick or 0 for c in behind)
    if (last.last_tick or 0) >= newest and not last.pending_events:
        return None
    age = last.lag.total_seconds() if last.lag is not None else 0.0
    name = last.consumer_name
    own = own_consumer(name, subscribers)
    return Retention(
        last.last_tick or 0,
        max(0.0, age),
        name,
        f"consumer {name}" if own is None else own.who(),
        f"start it, or: londiste queue status {argument(last.queue_name)}"
        if own is None
        else own.way_out(),
    )
