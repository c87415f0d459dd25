"""Duties of a worker by the role of its node: the root publishes, other nodes apply batches."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from londiste.cascade import fencing
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import Hold, NodeType, WorkerState
from londiste.cascade.worker_role import BatchActions
from londiste.daemon import crash, logcontext
from londiste.daemon.loop import Loop, report
from londiste.daemon.statistics import BatchStatistics
from londiste.db import call
from londiste.db.connection import Connection
from londiste.errors import AccessDenied, CombinedClosed, LondisteError, StateError
from londiste.pgq import batches
from londiste.pgq.batches import Opened
from londiste.pgq.liveness import Beat, server_now
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.ddl.apply import SplitBatch, WaitsFor
from londiste.replication.ddl.background import Steps
from londiste.replication.forwarding import combined_queue
from londiste.replication.forwarding.combined_queue import MergeLag
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync.handover import TableSyncStatus
from londiste.replication.worker.auto_add import AutoAdd
from londiste.replication.worker.copy_launcher import Copies
from londiste.replication.worker.fkey_validator import ForeignKeys
from londiste.replication.worker.provider import Source
from londiste.replication.worker.sessions import Sessions
from londiste.replication.worker.upkeep import Upkeep
from londiste.replication.worker.watermarks import Watermarks
from londiste.settings import WorkerSettings
from londiste.wording import HINT, bounded

log = logging.getLogger(__name__)

#: Poll interval in seconds while a table waits for its hand-over, or a comparison for a tick.
SHORT_DELAY = 0.05
#: Poll interval in seconds while tables are copied.
COPY_DELAY = 0.2
#: Seconds without a batch after which the last one is finished; otherwise with the next.
FINISH_DELAY = 0.05
#: Result of ``londiste.root_check_seqs`` whose note has sequences that the user may not read.
_SOME_UNREADABLE = 301
#: Seconds for which a combined queue may take no events before that is an error.
CLOSED_PATIENCE = 10.0


@dataclass
class WorkerParts:
    """What the duties of a worker share; a reload replaces ``settings`` and ``follower``."""

    settings: WorkerSettings
    sessions: Sessions
    loop: Loop
    copies: Copies
    steps: Steps
    keys: ForeignKeys
    watermarks: Watermarks
    statistics: BatchStatistics
    follower: AutoAdd
    beat: Beat
    observe: Callable[[int, float], None] | None = None
    upkeep: Upkeep = field(default_factory=Upkeep)


class _Duties:
    def __init__(self, parts: WorkerParts) -> None:
        self._parts = parts
        self._sessions = parts.sessions
        self._loop = parts.loop
        self._steps = parts.steps
        self._keys = parts.keys
        self._watermarks = parts.watermarks

    @property
    def copies(self) -> Copies:
        return self._parts.copies

    @property
    def settings(self) -> WorkerSettings:
        return self._parts.settings


class RootDuties(_Duties):
    """Duties on the root, which has no provider."""

    def __init__(self, parts: WorkerParts) -> None:
        super().__init__(parts)
        self._fence = fencing.Fence()
        self._unreadable = ""

    def guard(self, state: WorkerState) -> LondisteError | None:
        """What is due also while the worker is paused; returns what only a grant mends.

        A root that returns after a failover finds its successor; and sequences stay ahead on the
        subscribers, so that no value is handed out twice after one.
        """
        node = self._sessions.node()
        self._fence.look(node, state.queue, state.name, extra=self.settings.remote_extra_connstr)
        try:
            unreadable = check_sequences(node, state.queue)
        except StateError:
            # A switchover may have made it a branch since.
            if nodes.get_node_info(node, state.queue).type is NodeType.ROOT:
                raise
            unreadable = None
        self._loop.delay = max(self.settings.poll_interval, 1.0)
        text = "" if unreadable is None else unreadable.message
        if unreadable is not None and text != self._unreadable:
            report(unreadable)
        self._unreadable = text
        return unreadable

    def unit(
        self, state: WorkerState, duty: BatchActions, known: Sequence[ReplicatedTable]
    ) -> bool:
        """Publishes the watermark.  Returns whether another unit is due at once."""
        # Its scripts are run by the command.
        self._steps.rest()
        # It may have been a branch a moment ago.
        self._sessions.close_source()
        self._sessions.drop_standby()
        node = self._sessions.node()
        if duty.publish_global:
            self._watermarks.publish_global(node, state.queue)
        # Keys of tables that leaves merge into this queue, or that it restored as a branch.
        self._keys.look_after(node, known)
        return False


class ApplyDuties(_Duties):
    """Duties on branches and leaves.

    busy_copying -- a copy process is needed, or still running.
    """

    def __init__(self, parts: WorkerParts) -> None:
        super().__init__(parts)
        self.busy_copying = False
        #: Up to this tick batches are taken tick by tick: there is a script among them.
        self._cut_until = 0
        self._seek_left_overs = True
        self._closed_at: float | None = None
        self._interests: tuple[Sequence[ReplicatedTable], RoutingTable] | None = None

    def combined_changed(self) -> None:
        """The combined queue got another root: it may take events again."""
        self._closed_at = None

    def unit(
        self,
        state: WorkerState,
        duty: BatchActions,
        hold: Hold | None,
        known: Sequence[ReplicatedTable],
        opened: Opened | None,
        asked: bool,
    ) -> bool:
        """Hands tables over and applies the next batch.

        opened, asked -- the next batch, and whether the provider was asked for one.

        Returns whether another unit is due at once.
        """
        self._parts.upkeep.look_after(self._sessions.node(), state)
        source = self._sessions.provider(state, duty)
        if not asked:
            # What arrives from here on is looked at after the batch.
            source.listener.drain()
        if source.behind is not None:
            return self._behind(source, source.behind, state, duty, known)
        outlook = source.handover.step(state.completed_tick, known)
        self._look_after_copies(outlook, state)
        if self._parts.follower.look_after(self._sessions.node(), known):
            self._loop.delay = min(self._loop.delay, COPY_DELAY)
        self._steps.look_after(self._sessions.node(), state.name)
        if self._steps.busy:
            self._loop.delay = min(self._loop.delay, COPY_DELAY)
        if outlook.waiting:
            self._loop.delay = SHORT_DELAY
            return False
        if hold is not None:
            self._loop.delay = SHORT_DELAY
            if state.completed_tick >= hold.tick:
                return False
            if opened is not None and opened.batch.tick_id > hold.tick:
                # Ticks were joined before anybody could know.
                batches.register_consumer_at(
                    source.conn, state.queue, state.worker, state.completed_tick
                )
                opened, asked = None, False
        waited_at = [t for t in (hold.tick if hold else None, outlook.waited_at) if t is not None]
        if state.completed_tick < self._cut_until:
            # Tick by tick: scripts are on the way.
            waited_at.append(state.completed_tick + 1)
        source.join_up_to(min(waited_at, default=None))
        crash.point("worker.before-batch")
        if opened is None and not asked:
            opened = source.next_batch(state.completed_tick)
        if opened is None:
            return self._without_batch(source, state, duty, outlook)
        batch = opened.batch
        with logcontext.bound(batch=batch.id, tick=batch.tick_id):
            crash.point("worker.after-next-batch")
            try:
                stats = source.runner.run(
                    batch,
                    self._interest(outlook),
                    query=opened.query,
                    tick=state.completed_tick,
                    joined=source.may_join and state.completed_tick >= self._cut_until,
                )
            except CombinedClosed as closed:
                return self._wait_for_combined(closed)
            match stats.interruption:
                case SplitBatch():
                    # What runs outside of a batch has a tick on either side of it.
                    self._cut_until = batch.tick_id
                    self._take_anew(source, state)
                    return True
                case WaitsFor(script):
                    log.info("the script of this batch waits for script %s", script)
                    self._take_anew(source, state)
                    self._loop.delay = COPY_DELAY
                    return False
            self._closed_at = None
            conflicts = {"conflicts": stats.conflicts} if stats.conflicts else {}
            self._parts.statistics.count(
                stats.events, stats.seconds, {"ignored": stats.ignored, **conflicts}
            )
            if self._parts.observe is not None:
                self._parts.observe(stats.events, stats.seconds)
            self._watermarks.report(self._sessions.node(), source, state, duty, batch)
            self._keys.look_after(self._sessions.node(), outlook.tables)
            source.finish(batch)
            self._parts.beat.worked(apply=stats.seconds)
            if self._parts.beat.fetch_wanted:
                # By the provider's clock, which made the tick.
                age = (server_now(source.conn) - batch.tick_time).total_seconds()
                self._parts.beat.fetched(age - stats.seconds)
            if self._after_scripts(source):
                return True
        if source.collects or opened.followed or source.heard():
            return True
        if not self.busy_copying:
            self._loop.delay = min(self._loop.delay, FINISH_DELAY)
        return False

    def _behind(
        self,
        source: Source,
        behind: MergeLag,
        state: WorkerState,
        duty: BatchActions,
        known: Sequence[ReplicatedTable],
    ) -> bool:
        """Follows the messages of a leaf that merges up to the position of its rows."""
        if duty.wait_behind:
            combined_queue.require_in_step(state, known)
            self._steps.rest()
            self.copies.look_after(False)
            self._parts.follower.look_after(self._sessions.node(), known)
        if behind.step(state.completed_tick):
            return True
        self._watermarks.report(self._sessions.node(), source, state, duty, None)
        if duty.wait_behind:
            return source.heard()
        if behind.at < state.completed_tick:
            # The provider has yet to come to where the stand-by was.
            return source.heard()
        if behind.at > state.completed_tick:
            behind.back_to(state.completed_tick)
        log.info("queue %s: applied by this node after tick %d", state.queue, state.completed_tick)
        source.behind = None
        return True

    def _wait_for_combined(self, closed: CombinedClosed) -> bool:
        """Handles a batch that was not written because the root of the combined queue changes."""
        now = time.monotonic()
        if self._closed_at is None:
            log.info("%s: waiting", closed.message)
            self._closed_at = now
        if now - self._closed_at > CLOSED_PATIENCE:
            raise closed
        self._loop.delay = COPY_DELAY
        return False

    def _take_anew(self, source: Source, state: WorkerState) -> None:
        """Gives the open batch back, to open it in another size, or later."""
        source.standing = None
        batches.register_consumer_at(source.conn, state.queue, state.worker, state.completed_tick)

    def _after_scripts(self, source: Source) -> bool:
        """Runs what scripts leave for after the batch.  True: sessions were reopened."""
        scripts = source.runner.scripts
        if scripts is None:
            return False
        if scripts.noted:
            scripts.noted = False
            self._steps.wake()
        if scripts.ran and self._sessions.target is not None:
            # Temporary tables, settings, prepared statements: nobody knows what it has left.
            self._sessions.close_both()
            return True
        return False

    def _interest(self, outlook: TableSyncStatus) -> RoutingTable:
        """The routing table; the same object while the tables are unchanged."""
        if self._interests is None or self._interests[0] != outlook.tables:
            self._interests = outlook.tables, RoutingTable.main(outlook.tables)
        return self._interests[1]

    def _without_batch(
        self, source: Source, state: WorkerState, duty: BatchActions, outlook: TableSyncStatus
    ) -> bool:
        """Work that is due between batches.  Returns whether another poll is due at once."""
        self._watermarks.report(self._sessions.node(), source, state, duty, None)
        self._keys.look_after(self._sessions.node(), outlook.tables)
        self._sessions.rest()
        return source.heard()

    def _look_after_copies(self, outlook: TableSyncStatus, state: WorkerState) -> None:
        if self.copies.failures:
            self._seek_left_overs = True
        left_over = not outlook.copying and self._seek_left_overs and self._left_over(state)
        self.busy_copying = outlook.copying or left_over
        self.copies.look_after(self.busy_copying)
        if self.busy_copying:
            self._loop.delay = min(self.settings.poll_interval, COPY_DELAY)

    def _left_over(self, state: WorkerState) -> bool:
        """Whether a copy process died after its last table was ok and before it had cleaned up."""
        prefix = f"{state.worker}.copy."
        found = any(
            consumer.name.startswith(prefix)
            for consumer in nodes.get_consumer_info(self._sessions.node(), state.queue)
        )
        self._seek_left_overs = found
        return found


def check_sequences(conn: Connection, queue: str) -> AccessDenied | None:
    """Publishes sequences that came close to their published value.

    Returns the error of those that the user may not read; the others are published.
    """
    answer = call.row(conn, "londiste.root_check_seqs", queue, None)
    if answer["ret_code"] == _SOME_UNREADABLE:
        what, _, hint = str(answer["ret_note"]).partition(HINT)
        return AccessDenied(what, hint=bounded(hint))
    call.answered("londiste.root_check_seqs", answer)
    return None
