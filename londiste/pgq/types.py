"""Value types of the queue: event, tick, batch, queue, consumer."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple


class Event(NamedTuple):
    """One row of a queue, as ``pgq.get_batch_events`` returns it."""

    id: int
    time: datetime
    txid: int
    retry: int | None
    type: str | None
    data: str | None
    extra1: str | None
    extra2: str | None
    extra3: str | None
    extra4: str | None


class Tick(NamedTuple):
    """A tick of a queue.

    seq -- the highest event id that was handed out when it was made.
    snapshot -- which transactions it sees, as ``Snapshot.parse`` reads it.
    """

    id: int
    time: datetime
    seq: int
    snapshot: str


@dataclass(frozen=True)
class Batch:
    """The events between two ticks of a queue, open for one consumer.

    The events are those of the transactions that the snapshot of ``tick_id`` sees and the
    snapshot of ``prev_tick_id`` does not.
    """

    id: int
    queue: str
    consumer: str
    prev_tick_id: int
    tick_id: int
    prev_tick_time: datetime
    tick_time: datetime
    prev_event_seq: int
    event_seq: int

    @property
    def size_estimate(self) -> int:
        """Ids between the two ticks: about the number of events, known before one is read.

        Ids have gaps.  A transaction that was open at the first tick has more events than counted
        here; ``replication.parallel.size_limit`` has an upper limit.
        """
        return max(0, self.event_seq - self.prev_event_seq)


@dataclass(frozen=True)
class QueueInfo:
    """One row of ``pgq.get_queue_info``."""

    queue_name: str
    queue_ntables: int
    queue_cur_table: int
    queue_rotation_period: timedelta
    queue_switch_time: datetime
    queue_external_ticker: bool
    queue_ticker_paused: bool
    queue_ticker_max_count: int
    queue_ticker_max_lag: timedelta
    queue_ticker_idle_period: timedelta
    ticker_lag: timedelta | None
    ev_per_sec: float | None
    ev_new: int | None
    last_tick_id: int | None


@dataclass(frozen=True)
class ConsumerInfo:
    """One row of ``pgq.get_consumer_info``."""

    queue_name: str
    consumer_name: str
    lag: timedelta | None
    last_seen: timedelta | None
    last_tick: int | None
    current_batch: int | None
    next_tick: int | None
    pending_events: int | None


class FailedEvent(NamedTuple):
    """A dead letter: the event, its reason and time."""

    failed_reason: str | None
    failed_time: datetime
    id: int
    time: datetime
    txid: int | None
    owner: int
    retry: int | None
    type: str | None
    data: str | None
    extra1: str | None
    extra2: str | None
    extra3: str | None
    extra4: str | None


@dataclass(frozen=True)
class WaitingInfo:
    """Numbers of events that wait, of a consumer: a row of ``pgq.get_waiting_info``.

    dead -- dead letters; last -- time of the newest one.
    """

    queue: str
    consumer: str
    retries: int
    next_retry: datetime | None
    dead: int
    last: datetime | None


class DelayedEvent(NamedTuple):
    """A delayed event."""

    send_at: datetime
    id: int
    inserted: datetime
    type: str | None
    data: str | None
    extra1: str | None
    extra2: str | None
    extra3: str | None
    extra4: str | None


@dataclass(frozen=True)
class DelayedInfo:
    """One row of ``pgq.get_delayed_info``: delayed events of a queue.

    ``is_held`` -- the queue rejects events, so ``overdue_events`` wait until it accepts them.
    """

    queue_name: str
    delayed_events: int
    overdue_events: int
    next_send: datetime | None
    is_held: bool


@dataclass(frozen=True)
class QueueParameter:
    """One parameter of a queue: its value as text (None: not set), and its help text."""

    name: str
    value: str | None
    description: str
