"""Page Queues: backlog and rates over time, consumers, retries and dead letters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from londiste.console.facts import Fact, WaitingEvent
from londiste.console.pages import common
from londiste.console.pages.common import Page, Point, Request
from londiste.monitor.queues.model import ConsumerFacts, QueueFacts


@dataclass(frozen=True)
class QueueRow:
    """A queue of a node's database.

    tick, tick_age_seconds -- the newest tick.  new_events -- committed after it.
    written_per_second -- events, between the last two collections.
    rotated_seconds -- since the last rotation of its tables.
    """

    node: str
    queue: str
    tick: int | None
    tick_age_seconds: float | None
    new_events: int | None
    written_per_second: float | None
    bytes: int
    delayed: int
    rotated_seconds: float
    paused: bool
    rate: tuple[Point, ...]
    backlog: tuple[Point, ...]


@dataclass(frozen=True)
class ConsumerRow:
    """A consumer of a queue.

    pending -- events between its position and the newest tick.
    read_per_second -- events, between the last two collections.
    batch -- that it has open.  retries, dead_letters -- numbers of events.
    """

    node: str
    queue: str
    consumer: str
    lag_seconds: float | None
    last_seen_seconds: float
    pending: int | None
    read_per_second: float | None
    batch: int | None
    retries: int
    dead_letters: int
    state: str


@dataclass(frozen=True)
class WaitingRow:
    """An event that waits for its retry, or a dead letter: the first 20 of each consumer.

    time -- when it is delivered again, or when it was given up.  attempts -- that have failed.
    reason, payload -- null unless ``show_values`` is set.
    """

    node: str
    queue: str
    consumer: str
    kind: str
    event: int
    type: str | None
    time: datetime | None
    attempts: int | None
    reason: str | None
    payload: str | None


@dataclass(frozen=True, kw_only=True)
class QueuesPage(Page):
    """Queues of the databases of all nodes, and their consumers."""

    queues: tuple[QueueRow, ...] = ()
    consumers: tuple[ConsumerRow, ...] = ()
    events: tuple[WaitingRow, ...] = ()


def build(request: Request) -> QueuesPage:
    """The values of the page."""
    head = common.head(request, "londiste queue status", Fact.QUEUES, Fact.WAITING)
    found = common.nodes(request)
    queues = [(name, facts.queues) for name, facts in found if facts.queues is not None]
    return QueuesPage(
        **head,
        queues=tuple(_queue(request, name, one) for name, facts in queues for one in facts.queues),
        consumers=tuple(
            row for name, facts in queues for row in _consumers(request, name, facts.consumers)
        ),
        events=tuple(_waiting(name, one) for name, facts in found for one in facts.waiting),
    )


def _waiting(node: str, one: WaitingEvent) -> WaitingRow:
    return WaitingRow(
        *(node, one.queue, one.consumer, one.kind, one.event, one.type, one.at, one.attempts),
        reason=one.reason,
        payload=one.payload,
    )


def _queue(request: Request, node: str, one: QueueFacts) -> QueueRow:
    return QueueRow(
        node=node,
        queue=one.name,
        tick=one.tick,
        tick_age_seconds=None if one.tick_age is None else round(one.tick_age, 1),
        new_events=one.new_events,
        written_per_second=common.latest(request, ("written", node, one.name)),
        bytes=one.bytes,
        delayed=one.delayed,
        rotated_seconds=round(one.switch_age, 1),
        paused=one.ticker_paused,
        rate=common.points(request, ("written", node, one.name)),
        backlog=common.points(request, ("pending", node, one.name)),
    )


def _consumers(
    request: Request, node: str, found: tuple[ConsumerFacts, ...]
) -> Iterator[ConsumerRow]:
    for one in found:
        yield ConsumerRow(
            node=node,
            queue=one.queue,
            consumer=one.name,
            lag_seconds=None if one.lag is None else round(one.lag, 1),
            last_seen_seconds=round(one.last_seen, 1),
            pending=one.pending,
            read_per_second=common.latest(request, ("read", node, one.queue, one.name)),
            batch=one.batch,
            retries=one.retries,
            dead_letters=one.dead_letters,
            state=_state(one),
        )


def _state(one: ConsumerFacts) -> str:
    if one.paused is not None:
        return "paused"
    if one.lost:
        return "position lost"
    return "not running" if one.ended else "ok"
