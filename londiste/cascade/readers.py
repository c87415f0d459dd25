"""Kinds of consumers of a node's queue, by name."""

from __future__ import annotations

from collections.abc import Sequence

from londiste.cascade.model import Subscriber
from londiste.pgq.consumer_kinds import ConsumerKind


def kind(consumer: str, subscribers: Sequence[Subscriber]) -> ConsumerKind:
    """The kind of a consumer, as far as its name shows it."""
    if consumer.startswith("."):
        return ConsumerKind.WATERMARK
    if consumer.endswith(".gravestone"):
        return ConsumerKind.NODE
    for subscriber in subscribers:
        if consumer == subscriber.worker:
            return ConsumerKind.NODE
        if consumer.startswith(f"{subscriber.worker}.copy."):
            return ConsumerKind.COPY
    return ConsumerKind.CONSUMER


__all__ = ["kind"]
