"""Prefetch of the next batch in a thread, while this node's database writes the present one.

PgQ gives a consumer one open batch at a time, and the present one may be finished only after the
commit on this node.  So the next events are read by their ticks, on the idle provider session.
They are used only if the batch that is opened later has the same two ticks; otherwise they are
discarded and read again.

The session belongs to the thread from ``begin`` to ``wait``; nothing else may use it in between.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from londiste.daemon import crash
from londiste.db.connection import Connection
from londiste.pgq import batches
from londiste.pgq.batches import Coming
from londiste.pgq.types import Batch
from londiste.replication.apply.accumulator import Accumulator, BatchPart
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.ddl.apply import has_script
from londiste.standby.reader import StandbyReader, batch_events

log = logging.getLogger(__name__)

#: Bytes of events from which on a batch takes long enough to read the next beside it.
FROM_BYTES = 64 << 10

#: Ticks that have piled up become one batch of about so many events or bytes of them at most: a
#: batch has costs of its own, and the larger it is, the more events fold to one row.  Much larger
#: ones would gain little, hold locks longer and take more memory.
JOIN_EVENTS = 40_000
JOIN_BYTES = 8 << 20
#: The same while nothing is known of the length of the events.
FIRST_JOIN = 2_000

#: Seconds for a thread to end by itself; then its statement is cancelled.
_PATIENCE = 1.0


@dataclass(frozen=True)
class Sizes:
    """Size limits of the next batch; see ``batches.finish_and_next``."""

    min_count: int | None = None
    min_interval: timedelta | None = None
    max_count: int | None = None
    max_tick: int | None = None

    def up_to(self, tick: int | None) -> Sizes:
        """The same limits when a copy waits for the consumer at a tick; None: no copy waits.

        Ticks are joined up to that one and not across it, without a minimum size.
        """
        return self if tick == self.max_tick else replace(self, max_tick=tick)

    @property
    def collects(self) -> bool:
        """Whether the next batch has a minimum size."""
        return self.max_tick is None and bool(self.min_count or self.min_interval)

    def after(self, nbytes: int, events: int) -> Sizes:
        """Limits of the batch after one of this size.

        Pending ticks are joined to about ``JOIN_BYTES``, assuming events of the same length.  A
        batch grows to at most four times the last one, because later events may be longer.
        """
        if self.max_count is None or not nbytes or not events:
            return self
        by_bytes = max(1, JOIN_BYTES * events // nbytes)
        return replace(self, max_count=min(JOIN_EVENTS, by_bytes, max(FIRST_JOIN, 4 * events)))


def is_worthwhile(now_bytes: int, now_events: int, next_events: int, limit: int) -> bool:
    """Whether to prefetch, by the size of the present batch.

    The next one is expected to have events of the same length; ``limit`` is in bytes.
    """
    if not FROM_BYTES <= now_bytes <= limit:
        return False
    return now_bytes * next_events <= limit * max(1, now_events)


class ReadAhead:
    """Prefetches the batches of one consumer, at most one batch and ``limit`` bytes of memory.

    conn -- session on the provider, in autocommit mode.
    standby -- of the provider: the events are read there, as far as it is usable.
    """

    def __init__(
        self,
        conn: Connection,
        queue: str,
        consumer: str,
        *,
        limit: int,
        sizes: Sizes,
        standby: StandbyReader | None = None,
    ) -> None:
        self.conn = conn
        self.queue = queue
        self.consumer = consumer
        self.limit = limit
        self.sizes = sizes
        self.standby = standby
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._found: tuple[Coming, BatchPart] | None = None

    @property
    def has_read(self) -> bool:
        """Whether a batch is there, be it the next one or not."""
        return self._found is not None

    def begin(self, batch: Batch, events: int, nbytes: int, interest: RoutingTable) -> None:
        """Starts to read the events after ``batch``, unless that is not worthwhile.

        After this the next batch has to be opened with ``sizes``.

        events, nbytes -- number and bytes of the events of the batch.
        interest -- routing of the events; if it is a different one later, net changes are computed
            again.
        """
        self._found = None
        # Joins are limited in ids, which have gaps.  A long transaction has more events than ids.
        events = max(events, batch.size_estimate)
        self.sizes = self.sizes.after(nbytes, events)
        if not is_worthwhile(nbytes, events, 0, self.limit):
            return
        self._stopping = False
        self._thread = threading.Thread(
            target=self._run, args=(batch, events, nbytes, interest), name="read ahead", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Waits until everything is read and the session is free."""
        if self._thread is None:
            return
        try:
            self._thread.join()
        except BaseException:
            self.stop()
            raise
        self._thread = None

    @contextlib.contextmanager
    def during_batch(self) -> Iterator[None]:
        """Ends prefetching with the block: the provider's session has one user at a time."""
        try:
            yield
        except BaseException:
            self.stop()
            raise
        self.wait()
        if self.has_read:
            crash.point("worker.read-ahead")

    def stop(self) -> None:
        """Stops reading and discards the batch; closes the session if the thread does not end."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stopping = True
            thread.join(_PATIENCE)
            if thread.is_alive():
                with contextlib.suppress(Exception):
                    self.conn.cancel_safe(timeout=_PATIENCE)
                if self.standby is not None:
                    self.standby.cancel(_PATIENCE)
                thread.join(_PATIENCE * 10)
                # The cancel may reach a later statement, or have reached none.
                self.conn.close()
        self._found = None

    def take(self, batch: Batch, interest: RoutingTable) -> BatchPart | None:
        """Returns the batch if it is the one that was read; discards it in any case."""
        found, self._found = self._found, None
        if found is None:
            return None
        coming, part = found
        if not coming.is_now(batch):
            log.debug("prefetch of ticks %d to %d discarded", coming.prev_tick_id, coming.tick_id)
            return None
        if sum(map(len, part.blocks)) != part.events:
            # Events that are no text were left out: for other routes they may be needed.
            return None
        if part.interest != interest:
            # A table has been handed over meanwhile.
            again = Accumulator(interest)
            for block in part.blocks:
                again.add(block)
            return again.take()
        return part

    def _run(self, batch: Batch, events: int, nbytes: int, interest: RoutingTable) -> None:
        try:
            self._found = self._read(batch, events, nbytes, interest)
        except Exception as error:
            # Whatever it is: the batch is read again, by somebody who can say it.
            log.debug("prefetch failed: %s", error)

    def _read(
        self, batch: Batch, events: int, nbytes: int, interest: RoutingTable
    ) -> tuple[Coming, BatchPart] | None:
        coming = batches.coming(
            self.conn,
            self.queue,
            self.consumer,
            batch.tick_id,
            min_count=self.sizes.min_count if self.sizes.collects else None,
            min_interval=self.sizes.min_interval if self.sizes.collects else None,
            max_count=self.sizes.max_count,
            max_tick=self.sizes.max_tick,
        )
        if coming is None:
            return None
        if not is_worthwhile(nbytes, events, coming.event_seq - batch.event_seq, self.limit):
            return None
        accumulator = Accumulator(interest)
        with batch_events(
            self.standby, self.conn, coming, coming.query, stopping=lambda: self._stopping
        ) as read:
            for block in read:
                if has_script(block):
                    # Rows before and behind it are not folded together.
                    return None
                accumulator.add(block)
                crash.point("worker.reading-ahead")
                if self._stopping or accumulator.bytes > self.limit:
                    return None
        return coming, accumulator.take()
