"""Londiste: trigger-based replication and queues for PostgreSQL.

For programs: ``Consumer``, ``consume``, ``Producer`` and the delivery contracts, see
docs/howto/write-a-consumer.md.  They are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from londiste.consumer import (
        AT_LEAST_ONCE,
        AT_MOST_ONCE,
        EXACTLY_ONCE_ELSEWHERE,
        EXACTLY_ONCE_ELSEWHERE_BY_BATCH,
        EXACTLY_ONCE_HERE,
        LOCAL_FILE,
        ONCE_PER_EVENT,
        Batch,
        Consumer,
        ConsumerSettings,
        Context,
        Dead,
        Delivery,
        Event,
        Events,
        Producer,
        Retry,
    )
    from londiste.consumer.function import consumer as consume

__version__ = "4.0.0.dev1"

__all__ = [
    "AT_LEAST_ONCE",
    "AT_MOST_ONCE",
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
    "consume",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'londiste' has no attribute {name!r}")
    package = importlib.import_module("londiste.consumer")
    # ``londiste.consumer`` is the package; the decorator of that name goes by ``consume`` here.
    value = getattr(package, "consumer" if name == "consume" else name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def run_program(consumer: type[Consumer], argv: Sequence[str] | None = None) -> None:
    """Runs a consumer class as a program with its own command line; ends the process."""
    program = importlib.import_module("londiste.cli.program")
    program.main(consumer, argv)
