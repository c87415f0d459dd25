"""Londiste: trigger-based replication and queues for PostgreSQL.

For programs: ``Consumer``, ``consume``, ``Producer`` and the delivery contracts, see
docs/howto/write-a-consumer.md.  They are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from londiste.cascade.cascaded_consumer import CascadedConsumer
    from londiste.consumer import (
        AT_LEAST_ONCE,
        AT_MOST_ONCE,
        CASCADE_NODE,
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

__version__ = "4.2.0"

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
    "CascadedConsumer",
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


_ELSEWHERE = {
    # ``londiste.consumer`` is the package, so its decorator of that name has another one here.
    "consume": ("londiste.consumer", "consumer"),
    "CascadedConsumer": ("londiste.cascade.cascaded_consumer", "CascadedConsumer"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'londiste' has no attribute {name!r}")
    package, inside = _ELSEWHERE.get(name, ("londiste.consumer", name))
    value = getattr(importlib.import_module(package), inside)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def run_program(consumer: type[Consumer], argv: Sequence[str] | None = None) -> None:
    """Runs a consumer class as a program with its own command line; ends the process."""
    program = importlib.import_module("londiste.cli.consumer_cli")
    program.main(consumer, argv)


def run_function(function: Callable[[], None], name: str) -> int:
    """Calls a function as the program ``name``; prints an error in one line; its exit code."""
    errors = importlib.import_module("londiste.cli.errors")
    click = importlib.import_module("click")
    return int(errors.run(click.Command(name, callback=function), [], name=name))
