"""Who of the consumers of a node's queue is there for the cascade, by name."""

from __future__ import annotations

from collections.abc import Sequence

from londiste.cascade.model import Subscriber
from londiste.pgq.consumer_kinds import Kind


def kind(consumer: str, subscribers: Sequence[Subscriber]) -> Kind:
    """What a consumer of a queue is, as far as its name tells."""
    if consumer.startswith("."):
        return Kind.WATERMARK
    if consumer.endswith(".gravestone"):
        return Kind.NODE
    for subscriber in subscribers:
        if consumer == subscriber.worker:
            return Kind.NODE
        if consumer.startswith(f"{subscriber.worker}.copy."):
            return Kind.COPY
    return Kind.CONSUMER


__all__ = ["kind"]
