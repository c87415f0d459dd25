"""The position of a node's worker, kept in the node's own database.

It moves in the transaction that writes the batch, and only from the tick at which the batch
begins.  So a batch is written exactly once: when the provider hands it out again after a
crash, ``seen`` says so; when a second process has written it meanwhile, ``completed`` fails
and takes the data of this one with it.
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.db.connection import Connection, whereabouts
from londiste.errors import PositionLost, from_database
from londiste.pgq import position_check
from londiste.pgq.types import Batch

POSITION_LOST_HINT = (
    "londiste worker --rewind compares, and begins at the tick of this database if the provider"
    " has the same one; with --force-resync it copies all tables again otherwise"
)


class NodeProgress:
    """Position of ``consumer`` in the queue, in the database of ``conn``."""

    def __init__(self, conn: Connection, queue: str, consumer: str) -> None:
        self.conn = conn
        self.queue = queue
        self.consumer = consumer

    def tick(self) -> int:
        """Everything up to this tick is in the database.  Raises UnknownConsumer."""
        return nodes.get_consumer_state(self.conn, self.queue, self.consumer).completed_tick

    def seen(self, batch: Batch, tick: int | None = None) -> bool:
        """True when the batch is written already, False when it comes next.

        tick -- the position, where the caller has just read it.  Should it be an old one,
            ``completed`` refuses.

        Raises PositionLost when it is neither: the queue and the database do not fit.
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
            f" the provider hands out ticks {batch.prev_tick_id} to {batch.tick_id}",
            detail="one of the two databases was restored from a backup, or the consumer was"
            " registered again",
            hint=POSITION_LOST_HINT,
        )

    def completed(self, batch: Batch) -> None:
        """Moves the position past the batch; the caller's transaction decides.

        Raises Superseded when another process has moved it.
        """
        try:
            with self.conn.pipeline():
                check = self.completing(batch)
        except psycopg.Error as error:
            raise from_database(error, where=whereabouts(self.conn)) from error
        check()

    def completing(self, batch: Batch) -> Callable[[], None]:
        """``completed`` inside the caller's pipeline; what is returned is called after it."""
        return nodes.move_consumer_completed(self.conn, self.queue, self.consumer, batch)

    def _same_tick(self, batch: Batch) -> None:
        """Raises PositionLost when the provider means another tick by the same number."""
        known = position_check.recall(self.conn, self.queue, self.consumer)
        if not position_check.same_tick(known, batch):
            raise PositionLost(
                f"tick {batch.tick_id} of queue {self.queue} is not the one that this node has",
                detail="the provider's database was set back to an earlier state and went on"
                " from there",
                hint=POSITION_LOST_HINT,
            )
