"""What the class of a consumer declares, and whether it can keep what it promises."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from psycopg import sql

from londiste.consumer.delivery import Delivery
from londiste.errors import BadOption
from londiste.pgq.consumer_kinds import ConsumerKind
from londiste.settings import ConsumerSettings

#: Contracts whose consumers keep their own position.
POSITIONED = {Delivery.EXACTLY_ONCE_ELSEWHERE, Delivery.LOCAL_FILE}
#: Contracts whose consumers note beside their effects what is done.
KEEPING = {
    *POSITIONED,
    Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH,
    Delivery.CASCADE_NODE,
}


class ConsumerClass(Protocol):
    """A subclass of ``Consumer``, as far as it is declared: see there."""

    @property
    def delivery(self) -> Delivery: ...
    @property
    def where(self) -> str | sql.Composable: ...
    @property
    def alone(self) -> bool: ...
    @property
    def listed_as(self) -> ConsumerKind: ...


def name_of(kind: ConsumerClass) -> str:
    """The name of the class."""
    return cast(type, kind).__name__


def check(kind: ConsumerClass, settings: ConsumerSettings) -> None:
    """Raises BadOption for what cannot keep its promise."""
    delivery = kind.delivery
    if not settings.consumer:
        raise BadOption(
            f"{name_of(kind)} has no consumer name",
            hint='write name = "…" in the class, or set consumer_name',
        )
    if delivery is Delivery.LOCAL_FILE:
        local_file(settings)
    if delivery is Delivery.EXACTLY_ONCE_HERE and settings.target_db:
        raise BadOption(
            f"{name_of(kind)}: delivery {delivery.value!r} and target_db",
            detail="effects are written in the queue's database",
            hint="leave target_db out, or choose EXACTLY_ONCE_ELSEWHERE",
        )
    if settings.subconsumer_name and delivery in KEEPING:
        raise BadOption(
            f"{name_of(kind)}: delivery {delivery.value!r} and subconsumer_name",
            detail="processes that share a consumer finish batches in any order, and take over"
            " each other's: one position cannot say what is done",
            hint="choose EXACTLY_ONCE_HERE, AT_LEAST_ONCE or ONCE_PER_EVENT, or leave"
            " subconsumer_name out",
        )
    if delivery is Delivery.ONCE_PER_EVENT and settings.subconsumer_timeout:
        raise BadOption(
            f"{name_of(kind)}: delivery {delivery.value!r} and subconsumer_timeout",
            detail="a process that takes over a batch does not see which events are marked",
            hint="leave subconsumer_timeout out: a process that starts again gets its batch again",
        )
    if not delivery.may_retry and settings.max_attempts is not None:
        raise BadOption(
            f"{name_of(kind)}: delivery {delivery.value!r} and max_attempts",
            detail="events cannot be delivered again under it",
            hint="handle failures in the function, or choose another delivery contract",
        )
    for name in ("process_event", "process_batch", "startup", "shutdown", "reload"):
        _require_plain(getattr(kind, name), kind)
    bases = cast(type, kind).__mro__[:-2]
    own_batches = any("process_batch" in vars(base) for base in bases)
    if delivery is Delivery.ONCE_PER_EVENT and own_batches:
        raise BadOption(
            f"{name_of(kind)}: delivery {delivery.value!r} and process_batch",
            detail="only single events can be marked",
            hint="write process_event instead",
        )


def _require_plain(method: Callable[..., object], kind: ConsumerClass) -> None:
    """Raises BadOption for a function that only promises to work: nobody would wait for it."""
    function = getattr(kind, "function", method)
    for one in (method, function):
        if (
            inspect.iscoroutinefunction(one)
            or inspect.isgeneratorfunction(one)
            or inspect.isasyncgenfunction(one)
        ):
            raise BadOption(
                f"{name_of(kind)}: {one.__name__} is `async` or a generator",
                detail="calling it does nothing by itself, and the events would be finished",
                hint="write it without `async` and `yield`; asyncio.run() runs a coroutine to its"
                " end",
            )


def local_file(settings: ConsumerSettings) -> Path:
    """The file of ``Delivery.LOCAL_FILE``.  Raises BadOption when no setting names one."""
    if settings.local_tracking_file is None:
        raise BadOption(
            "delivery by local file needs a file",
            hint="set local_tracking_file in the file (-c FILE), or with --set",
        )
    return settings.local_tracking_file.expanduser()
