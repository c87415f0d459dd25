"""Consumers made from a function (``londiste.consume``).

In programs it is called ``londiste.consume``:

    @consume(queue="signups", name="greeter")
    def greet(event, ctx):
        print("hello", event.data)

    greet.main()

The name ``londiste.consumer`` is that of this package.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from psycopg import sql

from londiste.consumer.consumer import Consumer
from londiste.consumer.context import Context
from londiste.consumer.delivery import Delivery
from londiste.consumer.event_stream import Events
from londiste.errors import BadOption
from londiste.pgq.types import Batch, Event
from londiste.settings import ConsumerSettings


def consumer(
    *,
    queue: str = "",
    name: str = "",
    delivery: Delivery = Delivery.AT_LEAST_ONCE,
    types: Sequence[str] = (),
    where: str | sql.Composable = "",
    max_attempts: int | None = None,
    settings_class: type[ConsumerSettings] = ConsumerSettings,
) -> Callable[[Callable[..., object]], type[Consumer]]:
    """Makes a subclass of Consumer from a function; the arguments are its attributes.

    The function takes ``(event)``, ``(event, ctx)``, or ``(batch, events, ctx)``.  It is the
    class's ``function`` and can be tested as such.  Raises BadOption for other signatures.
    """

    def decorate(function: Callable[..., object]) -> type[Consumer]:
        body: dict[str, Any] = {
            "__doc__": function.__doc__,
            "__module__": function.__module__,
            "function": staticmethod(function),
            "queue": queue,
            "name": name or function.__name__,
            "delivery": delivery,
            "types": tuple(types),
            "where": where,
            "max_attempts": max_attempts,
            "settings_class": settings_class,
            **_method(function),
        }
        return type(function.__name__, (Consumer,), body)

    return decorate


def _method(function: Callable[..., object]) -> dict[str, Callable[..., object]]:
    def with_event(self: Consumer, event: Event, ctx: Context) -> object:
        return function(event)

    def with_context(self: Consumer, event: Event, ctx: Context) -> object:
        return function(event, ctx)

    def with_batch(self: Consumer, batch: Batch, events: Events, ctx: Context) -> object:
        return function(batch, events, ctx)

    match len(inspect.signature(function).parameters):
        case 1:
            return {"process_event": with_event}
        case 2:
            return {"process_event": with_context}
        case 3:
            return {"process_batch": with_batch}
    raise BadOption(
        f"{function.__name__} cannot be a consumer: wrong parameters",
        detail="a consumer's function takes (event), (event, ctx) or (batch, events, ctx)",
        hint="change its parameters",
    )
