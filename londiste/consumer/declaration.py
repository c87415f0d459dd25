"""Declaration of a consumer class, and checks that its delivery contract can hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, cast

from psycopg import sql

from londiste.consumer.delivery import Delivery
from londiste.errors import BadOption
from londiste.pgq.consumers import ConsumerKind
from londiste.settings import ConsumerSettings

#: Contracts whose consumers keep their own position.
POSITIONED = {Delivery.EXACTLY_ONCE_ELSEWHERE, Delivery.LOCAL_FILE}
#: Contracts whose consumers note batches, or their events, by their numbers.
BY_NUMBER = {Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH, Delivery.ONCE_PER_EVENT}
#: Contracts whose consumers note beside their effects what is done.
KEEPING = {
    *POSITIONED,
    Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH,
    Delivery.CASCADE_NODE,
}


class ConsumerClass(Protocol):
    """A subclass of ``Consumer`` as declared; see there."""

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
    """Raises BadOption for a declaration that contradicts its delivery contract."""
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
            f"{name_of(kind)}: delivery {delivery.value!r} does not allow target_db",
            detail="this contract writes effects into the queue's database",
            hint="remove target_db, or choose EXACTLY_ONCE_ELSEWHERE",
        )
    if settings.subconsumer_name and delivery in KEEPING:
        raise BadOption(
            f"{name_of(kind)}: delivery {delivery.value!r} does not allow subconsumer_name",
            detail=(
                "cooperative consumers finish batches in any order and take over each other's"
                " batches: one position cannot record that"
            ),
            hint=(
                "choose EXACTLY_ONCE_HERE, AT_LEAST_ONCE or ONCE_PER_EVENT, or remove"
                " subconsumer_name"
            ),
        )
    if delivery is Delivery.ONCE_PER_EVENT and settings.subconsumer_timeout:
        raise BadOption(
            f"{name_of(kind)}: delivery {delivery.value!r} does not allow subconsumer_timeout",
            detail="a process that takes over a batch does not see which events are marked",
            hint="remove subconsumer_timeout: a restarted process gets its batch again",
        )
    if not delivery.may_retry and settings.max_attempts is not None:
        raise BadOption(
            f"{name_of(kind)}: delivery {delivery.value!r} does not allow max_attempts",
            detail="events cannot be retried under this contract",
            hint="handle failures in the function, or choose another delivery contract",
        )
    for name in ("process_event", "process_batch", "startup", "shutdown", "reload"):
        _require_plain(getattr(kind, name), kind)
    bases = cast(type, kind).__mro__[:-2]
    own_batches = any("process_batch" in vars(base) for base in bases)
    if delivery is Delivery.ONCE_PER_EVENT and own_batches:
        raise BadOption(
            f"{name_of(kind)}: delivery {delivery.value!r} does not allow process_batch",
            detail="only single events can be marked",
            hint="write process_event instead",
        )


def _require_plain(method: Callable[..., object], kind: ConsumerClass) -> None:
    """Raises BadOption for an ``async`` function or a generator: the loop does not await them."""
    function = getattr(kind, "function", method)
    for one in (method, function):
        if (
            inspect.iscoroutinefunction(one)
            or inspect.isgeneratorfunction(one)
            or inspect.isasyncgenfunction(one)
        ):
            raise BadOption(
                f"{name_of(kind)}: {one.__name__} is `async` or a generator",
                detail="calling it has no effect, and the events would be finished unprocessed",
                hint="write it without `async` and `yield`; asyncio.run() runs a coroutine to its"
                " end",
            )


def local_file(settings: ConsumerSettings) -> Path:
    """The file of ``Delivery.LOCAL_FILE``.  Raises BadOption when no setting names one."""
    if settings.local_tracking_file is None:
        raise BadOption(
            "delivery by local file: local_tracking_file is not set",
            hint="set local_tracking_file in the file (-c FILE), or with --set",
        )
    return settings.local_tracking_file
