"""Consumers and producers: the Python API for programs that use a queue.

Read docs/howto/write-a-consumer.md first; in this package ``consumer.py``, then ``contracts.py``.
"""

from londiste.consumer.consumer import Consumer
from londiste.consumer.context import Context
from londiste.consumer.delivery import (
    AT_LEAST_ONCE,
    AT_MOST_ONCE,
    CASCADE_NODE,
    EXACTLY_ONCE_ELSEWHERE,
    EXACTLY_ONCE_ELSEWHERE_BY_BATCH,
    EXACTLY_ONCE_HERE,
    LOCAL_FILE,
    ONCE_PER_EVENT,
    Delivery,
)
from londiste.consumer.event_stream import Events
from londiste.consumer.function import consumer
from londiste.consumer.outcome import Dead, Retry
from londiste.consumer.producer import Producer
from londiste.pgq.types import Batch, Event
from londiste.settings import ConsumerSettings

__all__ = [
    "AT_LEAST_ONCE",
    "AT_MOST_ONCE",
    "CASCADE_NODE",
    "EXACTLY_ONCE_ELSEWHERE",
    "EXACTLY_ONCE_ELSEWHERE_BY_BATCH",
    "EXACTLY_ONCE_HERE",
    "LOCAL_FILE",
    "ONCE_PER_EVENT",
    "Batch",
    "Consumer",
    "ConsumerSettings",
    "Context",
    "Dead",
    "Delivery",
    "Event",
    "Events",
    "Producer",
    "Retry",
    "consumer",
]
