"""Upper limit of the number of events of a batch, with as few questions to the server as possible.

The ids between the two ticks of a batch are no limit: transactions that were open at the first tick
belong to the batch too, with all they inserted before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.connection import Connection
from londiste.pgq import batches
from londiste.pgq.types import Batch


@dataclass(frozen=True)
class Horizon:
    """After a tick, no batch has an event with an id up to ``above``."""

    tick: int
    above: int


def may_reach(batch: Batch, threshold: int, known: Horizon | None) -> bool:
    """Pure: whether a batch may have so many events; threshold -- 0: never."""
    if threshold <= 0:
        return False
    if known is None or batch.prev_tick_id < known.tick:
        return True
    return batch.event_seq - min(known.above, batch.prev_event_seq) >= threshold


class SizeLimits:
    """Limits of one consumer's batches of one queue.

    A transaction that is open now has inserted events since the horizon at most.  So the server is
    asked once per ``threshold`` ids, and more often only during a transaction that lasts so long.
    """

    def __init__(self) -> None:
        self._known: Horizon | None = None

    def may_reach(self, batch: Batch, threshold: int) -> bool:
        """Whether the batch has to be ``ask``ed for."""
        return may_reach(batch, threshold, self._known)

    def ask(self, source: Connection, batch: Batch) -> int:
        """The largest number of events that the open batch may have, retries aside."""
        above, above_next = batches.id_bounds(source, batch)
        if above_next is not None:
            self._known = Horizon(batch.tick_id, above_next)
        return batch.event_seq - min(above, batch.prev_event_seq)
