"""Position of a node's worker, stored in the node's own database.

The position moves in the transaction that writes the batch, and only from the tick at which the
batch starts.  So a batch is written exactly once: when the provider delivers it again after a
crash, ``seen`` recognises it.  When a second process has written it, ``completed`` fails and rolls
back this transaction.
"""

from __future__ import annotations

from collections.abc import Callable

from londiste.cascade import sqlapi as nodes
from londiste.db.connection import Connection
from londiste.db.names import argument
from londiste.db.queries import translated
from londiste.errors import PositionLost
from londiste.pgq import position_check
from londiste.pgq.types import Batch

#: What stops a worker: who reads it knows which of the two runs it, as no error can.
STOP_WORKER = (
    "londiste -c FILE worker -s; or londiste -c FILE run -s, if the command run has started it"
)
POSITION_LOST_HINT = (
    f"stop the worker: {STOP_WORKER}; then londiste worker --rewind compares, and moves the"
    " provider's consumer to the tick of this database if the provider has the same one; otherwise"
    " it prints the command that copies the rows again; then start the worker"
)


def register_again(provider: str) -> str:
    """The hint for a node that its provider has forgotten: it was taken for lost."""
    return (
        f"londiste change-provider --provider {argument(provider)} registers it again at its"
        " position; if that tick has expired: londiste drop-node, then create the node again"
    )


class NodeProgress:
    """Position of ``consumer`` in the queue, in the database of ``conn``."""

    def __init__(self, conn: Connection, queue: str, consumer: str) -> None:
        self.conn = conn
        self.queue = queue
        self.consumer = consumer

    def tick(self) -> int:
        """The database contains all events up to this tick.  Raises UnknownConsumer."""
        return nodes.get_consumer_state(self.conn, self.queue, self.consumer).completed_tick

    def seen(self, batch: Batch, tick: int | None = None) -> bool:
        """True when the batch is written already, False when it is the next one.

        tick -- the position that the caller has read.  If it is outdated, ``completed`` refuses.

        Raises PositionLost when it is neither: queue and database do not match.
        """
        if tick is None:
            tick = self.tick()
        if tick == batch.prev_tick_id:
            return False
        if tick == batch.tick_id:
            self._same_tick(batch)
            return True
        raise PositionLost(
            f"consumer {self.consumer} of queue {self.queue} is at tick {tick},"
            f" the provider delivers ticks {batch.prev_tick_id} to {batch.tick_id}",
            detail="one of the two databases was restored from a backup, or the consumer was"
            " registered again",
            hint=POSITION_LOST_HINT,
        )

    def completed(self, batch: Batch) -> None:
        """Moves the position past the batch; the caller's transaction decides.

        Raises Superseded when another process has moved it.
        """
        with translated(self.conn), self.conn.pipeline():
            check = self.completing(batch)
        check()

    def completing(self, batch: Batch) -> Callable[[], None]:
        """``completed`` inside the caller's pipeline; the returned function is called after it."""
        return nodes.move_consumer_completed(self.conn, self.queue, self.consumer, batch)

    def _same_tick(self, batch: Batch) -> None:
        """Raises PositionLost when the provider has another tick of the same number."""
        known = position_check.recall(self.conn, self.queue, self.consumer)
        if not position_check.same_tick(known, batch):
            raise PositionLost(
                f"queue {self.queue}: tick {batch.tick_id} of the provider is not that of this"
                " node",
                detail="the provider's database was restored to an earlier state and has"
                " continued from there",
                hint=POSITION_LOST_HINT,
            )
