"""Catch-up of a copied table: replays the events since its copy through a consumer of its own."""

from __future__ import annotations

import logging
import select
import time
from typing import NamedTuple

from londiste.cascade import sqlapi as nodes
from londiste.cascade.commands.upstream import upstream
from londiste.cascade.model import NodeType
from londiste.cascade.progress import NodeProgress
from londiste.copy.sessions import CopySessions
from londiste.copy.step_timings import Tally
from londiste.daemon import logcontext
from londiste.db.connection import usable
from londiste.db.notify import Listener
from londiste.db.snapshot import Snapshot
from londiste.errors import LondisteError, UnknownConsumer
from londiste.orchestration.connections import Connections
from londiste.pgq import batches, queues
from londiste.pgq.types import Batch
from londiste.replication.apply.batch import BatchApplier
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.tablesync.handover import tick_snapshot
from londiste.replication.tablesync.wait import TICK_SECONDS

log = logging.getLogger(__name__)

#: Providers from which this process cannot reach their root.
_unasked: set[str] = set()
#: Events up to which ticks are taken together while a copy catches up.
JOIN_EVENTS = 2000
#: Seconds in which a branch gets a tick of a root whose ticker runs: one of a quiet queue, too.
PASSED_ON_SECONDS = 120.0


class Replayed(NamedTuple):
    """A batch that was replayed, and its number of events."""

    batch: Batch
    events: int

    @property
    def is_long(self) -> bool:
        """Whether more has come meanwhile, presumably.

        A transaction longer than a tick has more events than there are ids between the ticks.
        """
        return max(self.events, self.batch.size_estimate) > JOIN_EVENTS // 2


class Replay:
    """Reads and applies the batches of one copy consumer, in order.

    tally -- counts batches and events.
    """

    def __init__(self, sides: CopySessions, tally: Tally) -> None:
        self._sides = sides
        self._tally = tally
        node = sides.here
        self._progress = NodeProgress(node, sides.queue, sides.consumer)
        self._runner = BatchApplier(
            node=nodes.get_worker_state(node, sides.queue).name,
            queue=sides.queue,
            source=sides.provider,
            target=node,
            progress=self._progress,
        )
        self._forced = False
        self._asked = False
        self._ticks: Listener | None = None
        self._waits_since: float | None = None

    def tick(self) -> int:
        """The tick up to which the table is complete."""
        return self._progress.tick()

    def next(self, interest: RoutingTable, *, up_to: int | None = None) -> Replayed | None:
        """Applies one batch; None when none is there.

        up_to -- no event after this tick is taken.
        """
        sides = self._sides
        opened = batches.finish_and_next(
            sides.provider,
            sides.queue,
            sides.consumer,
            from_tick=self.tick(),
            max_count=JOIN_EVENTS,
            max_tick=up_to,
        )
        if opened is None:
            return None
        self._waits_since = None
        batch = opened.batch
        with logcontext.bound(batch=batch.id, tick=batch.tick_id):
            stats = self._runner.run(batch, interest, query=opened.query)
            batches.finish_batch(sides.provider, batch.id)
        self._tally.add(stats.seconds, stats.events)
        return Replayed(batch, stats.events)

    def seen(self) -> Snapshot:
        """The snapshot of the table's tick.  Raises UnknownConsumer if the tick was removed."""
        tick = self.tick()
        found = tick_snapshot(self._sides.provider, self._sides.queue, tick)
        if found is None:
            raise UnknownConsumer(
                f"queue {self._sides.queue}: tick {tick} no longer exists on the provider",
                hint=f"copy the table again: londiste resync {self._sides.resync_name}",
            )
        return found

    def wait(self, seconds: float) -> None:
        """Waits for a tick of the provider, at most ``seconds``; the first call only starts LISTEN.

        The caller checks again and waits again.  Raises NodeUnreachable.
        """
        self._waits_since = self._waits_since or time.monotonic()
        if self._ticks is None:
            self._ticks = Listener(self._sides.provider, [queues.TICK_CHANNEL])
            return
        poll = select.poll()
        poll.register(self._ticks, select.POLLIN)
        poll.poll(seconds * 1000)
        self._ticks.drain()

    def late(self) -> str | None:
        """Why a tick is missing that a running ticker would have made; None while it is not."""
        since = self._waits_since
        patience = TICK_SECONDS if self._asked else PASSED_ON_SECONDS
        if since is None or time.monotonic() - since < patience:
            return None
        return (
            f"waits for a tick of queue {self._sides.queue}: node {self._sides.source_node} has"
            f" had none for more than {patience:g} s; hint: start the ticker of the root: londiste"
            " ticker"
        )

    def close(self) -> None:
        """Ends LISTEN: notifications would pile up in a session that waits for the next table."""
        ticks, self._ticks = self._ticks, None
        if ticks is None:
            return
        try:
            if usable(ticks.conn):
                ticks.close()
        except LondisteError:
            # What went wrong with it before is the error that counts.
            ticks.conn.close()

    def ask_for_tick(self) -> None:
        """Asks for a tick, once: only a tick after the copy sees all rows that were copied."""
        if not self._forced:
            self._asked = ask_for_tick(self._sides)
            self._forced = True


def ask_for_tick(sides: CopySessions) -> bool:
    """Forces a tick on the root, even of a queue without events, whose ticks become rare.

    Returns whether the provider is the root; a branch gets its ticks from the node above.  A root
    that cannot be reached from here is not asked again by this process: its next tick comes anyway.
    """
    info = nodes.get_node_info(sides.provider, sides.queue)
    if info.type is NodeType.ROOT:
        queues.force_tick(sides.provider, sides.queue)
        return True
    if sides.location not in _unasked:
        try:
            with Connections(
                name=sides.session_name,
                extra=sides.job.remote_extra,
                answer_seconds=sides.job.answer_seconds,
            ) as sites:
                above = sites.reach(info.provider_location, info.provider)
                root = upstream(sites, sides.queue, above).root_dsn
                queues.force_tick(sites.at(root), sides.queue)
        except LondisteError as error:
            log.info("the root is not asked for a tick: %s", error)
            _unasked.add(sides.location)
    return False
