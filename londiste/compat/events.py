"""Events as programs of earlier versions see them: attributes of both spellings, and a tag.

A tag says what becomes of the event when its batch is finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from londiste import consumer
from londiste.errors import StateError
from londiste.pgq import types

EV_UNTAGGED = -1
EV_RETRY = 0
EV_DONE = 1
EV_FAILED = 2

#: Seconds until an event comes again that was not tagged.
RETRY_SECONDS = 60

_FIELDS = ("id", "time", "txid", "retry", "type", "data", "extra1", "extra2", "extra3", "extra4")


class Event:
    """One event: ``ev.ev_type``, ``ev.type`` or ``ev["ev_type"]``."""

    __slots__ = ("event", "fail_reason", "queue_name", "retry_time", "status")

    def __init__(self, queue_name: str, event: types.Event) -> None:
        self.event = event
        self.queue_name = queue_name
        self.retry_time = RETRY_SECONDS
        self.fail_reason = "Buggy consumer"
        self.status = EV_UNTAGGED

    def __getattr__(self, name: str) -> Any:
        field = name.removeprefix("ev_")
        if field not in _FIELDS:
            raise AttributeError(name)
        return getattr(self.event, field)

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None

    def keys(self) -> list[str]:
        """Names of the columns."""
        return [f"ev_{field}" for field in _FIELDS]

    def values(self) -> list[Any]:
        """Values of the columns."""
        return list(self.event)

    def items(self) -> list[tuple[str, Any]]:
        """Names and values of the columns."""
        return list(zip(self.keys(), self.event, strict=True))

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    @property
    def time(self) -> datetime:
        """When the event was inserted."""
        return self.event.time

    def tag_done(self) -> None:
        """The event is processed."""
        self.status = EV_DONE

    def tag_retry(self, retry_time: int = RETRY_SECONDS, *, seconds: int | None = None) -> None:
        """Deliver the event again after this number of seconds."""
        self.retry_time = retry_time if seconds is None else seconds
        self.status = EV_RETRY

    def tag_failed(self, reason: str) -> None:
        """Make the event a dead letter: ``londiste queue dead`` lists it."""
        self.fail_reason = reason
        self.status = EV_FAILED

    def get_status(self) -> int:
        """The tag."""
        return self.status

    def __str__(self) -> str:
        return f"<id={self.event.id} type={self.event.type}>"


class EventList:
    """The events of a batch.

    lazy -- one pass, in which only events that are not tagged done stay in memory;
        otherwise a list.
    """

    def __init__(self, queue: str, events: consumer.Events, *, lazy: bool = False) -> None:
        self.queue = queue
        self._source = (Event(queue, event) for event in events)
        self._begun = False
        self._count = 0
        #: The events that were taken and have to be looked at in the end.
        self._kept: list[Event] = []
        self.lazy = lazy
        if not lazy:
            self._kept = list(self._source)
            self._count = len(self._kept)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if self.lazy:
            raise StateError(
                "the events of a batch are read one by one",
                hint="set pgq_lazy_fetch = 0 to get a list",
            )
        return self._kept[index]

    def __iter__(self) -> Iterator[Event]:
        return self._once() if self.lazy else iter(self._kept)

    def _once(self) -> Iterator[Event]:
        if self._begun:
            raise StateError(
                "the events of this batch were read already",
                hint="set pgq_lazy_fetch = 0 to get a list",
            )
        self._begun = True
        for event in self._source:
            self._count += 1
            self._kept.append(event)
            yield event
            if event.status == EV_DONE:
                self._kept.pop()

    def rest(self) -> Iterable[Event]:
        """The events that may have another tag than done; reads those that are left."""
        yield from self._kept
        for event in self._source:
            self._count += 1
            yield event


def settle(events: EventList, ctx: consumer.Context, *, untagged: int) -> None:
    """Turns the tags of a batch into outcomes.

    untagged -- the tag of events that have none.
    """
    for event in events.rest():
        status = untagged if event.status == EV_UNTAGGED else event.status
        if status == EV_RETRY:
            ctx.retry(event.event, max(0, int(event.retry_time)))
        elif status == EV_FAILED:
            ctx.dead(event.event, event.fail_reason)


__all__ = [
    "EV_DONE",
    "EV_FAILED",
    "EV_RETRY",
    "EV_UNTAGGED",
    "RETRY_SECONDS",
    "Event",
    "EventList",
    "settle",
]
