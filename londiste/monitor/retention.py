"""The consumer that prevents the rotation of a queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from londiste.cascade.model import Subscriber
from londiste.pgq.types import ConsumerInfo

GLOBAL = ".global_watermark"


@dataclass(frozen=True)
class Retention:
    """The consumer of a node's queue that lags most.

    tick -- events after it are kept.
    age -- seconds since that tick.
    consumer -- its name in the queue; ``who`` describes it.
    """

    tick: int
    age: float
    consumer: str
    who: str


def held(consumers: Iterable[ConsumerInfo], subscribers: Sequence[Subscriber]) -> Retention | None:
    """Pure: the consumer that keeps the events of a queue; None when all have its newest tick."""
    behind = [c for c in consumers if c.last_tick is not None and c.pending_events is not None]
    if not behind:
        return None
    # Of several at one tick the marker of them all says least.
    last = min(behind, key=lambda c: (c.last_tick or 0, c.consumer_name == GLOBAL, c.consumer_name))
    newest = max(c.last_tick or 0 for c in behind)
    if (last.last_tick or 0) >= newest and not last.pending_events:
        return None
    age = last.lag.total_seconds() if last.lag is not None else 0.0
    name = last.consumer_name
    return Retention(last.last_tick or 0, max(0.0, age), name, who(name, subscribers))


def who(consumer: str, subscribers: Sequence[Subscriber]) -> str:
    """A description of a consumer of a cascaded queue."""
    if consumer == GLOBAL:
        return "the slowest node of the cascade (global watermark)"
    for subscriber in subscribers:
        if consumer == f"{subscriber.name}.gravestone":
            return f"failed node {subscriber.name}: londiste resurrect, or drop-node"
        if consumer == subscriber.worker:
            return f"node {subscriber.name}"
        if consumer == f".{subscriber.name}.watermark":
            return f"node {subscriber.name}, or one below it"
        if consumer.startswith(f"{subscriber.worker}.copy."):
            return f"a copy of node {subscriber.name}"
    return f"consumer {consumer}"
