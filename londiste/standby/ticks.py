"""Whether a standby has replayed the ticks of a batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.pgq.batches import Coming
from londiste.pgq.types import Batch, Tick

#: Seconds between two looks for a tick: the first, and the longest.
_FIRST_LOOK = 0.002
_LONGEST_LOOK = 0.1


@dataclass(frozen=True)
class Bounds:
    """The ticks of a batch: what the standby must have before it is read."""

    from_tick: int
    to_tick: int
    time: datetime
    seq: int

    @staticmethod
    def of(batch: Batch | Coming) -> Bounds:
        """Those of a batch that is open, or expected."""
        return Bounds(batch.prev_tick_id, batch.tick_id, batch.tick_time, batch.event_seq)

    @staticmethod
    def at(tick: Tick) -> Bounds:
        """A tick alone."""
        return Bounds(tick.id, tick.id, tick.time, tick.seq)


def verdict(in_recovery: bool, has_first: bool, has_last: bool, is_other: bool) -> str | None:
    """Pure: '' if the batch can be read, None if its tick is not replayed yet; else why not."""
    if not in_recovery:
        return "it was promoted: it accepts writes, so its data may differ"
    if is_other:
        return "it has another tick of this number: it is not a standby of the provider any more"
    if not has_last:
        return None
    if not has_first:
        return "it has lost the tick before the batch: it is not a standby of the provider any more"
    return ""


def replayed(conn: Connection, queue: str, bounds: Bounds) -> str | None:
    """The ``verdict`` about the standby of a session."""
    ((in_recovery, has_first, has_last, is_other),) = tuples(
        conn,
        "standby_ticks",
        queue=queue,
        from_tick=bounds.from_tick,
        to_tick=bounds.to_tick,
        time=bounds.time,
        seq=bounds.seq,
    )
    return verdict(in_recovery, has_first, has_last, is_other)


def looks(deadline: float) -> Iterator[None]:
    """Looks until the deadline: the first at once, the others at growing distances."""
    pause = _FIRST_LOOK
    while True:
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(pause * 2, _LONGEST_LOOK)
