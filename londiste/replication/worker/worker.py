"""The worker of a node: applies one batch after another from the provider's queue.

One unit of work, repeated until the worker stops:

    look       state of the node, provider, paused or not,         sqlapi.TableListCache
               a tick that a comparison waits at
    hand over  new tables: from which tick the worker applies      handover
    run        rows and position, one transaction on this node     batch
    report     position of this node and those below it            watermarks
    finish     the provider may drop the batch, and                pgq.finish_and_next
               opens the next: the events between two ticks;
               together with the next poll

All state is in the two databases; a restarted worker reads it again.  The root has no provider: its
worker publishes watermark and sequences.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import psycopg

from londiste.cascade import fencing
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import Hold, NodeType, WorkerState
from londiste.cascade.progress import POSITION_LOST_HINT
from londiste.cascade.worker_role import BatchActions, duties
from londiste.daemon import crash, logcontext
from londiste.daemon.loop import Loop, describe, started
from londiste.daemon.signals import Signals
from londiste.db.connection import Connection, connect, describe_dsn, session, usable
from londiste.errors import (
    CombinedClosed,
    EventError,
    InstallError,
    LondisteError,
    NodeDropped,
    PositionLost,
    ServerStarting,
    StateError,
    Superseded,
    UsageError,
)
from londiste.pgq import batches, position_check
from londiste.pgq.batches import Opened
from londiste.replication import sqlapi as tables
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.ddl.apply import InJoinedBatch, Waits
from londiste.replication.ddl.background import Steps
from londiste.replication.forwarding import combined_queue
from londiste.replication.forwarding.combined_queue import MergeLag
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync.handover import TableSyncStatus
from londiste.replication.worker import connections
from londiste.replication.worker.auto_add import AutoAdd
from londiste.replication.worker.copy_launcher import Copies
from londiste.replication.worker.fkey_validator import ForeignKeys
from londiste.replication.worker.provider import Source
from londiste.replication.worker.sessions import Sessions
from londiste.replication.worker.statistics import WorkerStatistics
from londiste.replication.worker.watermarks import Watermarks
from londiste.settings import WorkerSettings

log = logging.getLogger(__name__)

#: Seconds between looks while a table waits to be handed over, or somebody to compare.
SHORT_DELAY = 0.05
#: Seconds between looks while tables are copied.
COPY_DELAY = 0.2
#: Seconds of quiet after which the provider is told of the last batch; otherwise with the next.
FINISH_DELAY = 0.05
#: Seconds for which a combined queue may take no events before that is an error.
CLOSED_PATIENCE = 10.0
#: Copy processes in a row that may die before ``--once`` gives up.
ONCE_FAILURES = 4


class Worker:
    """The worker of the node in ``settings.db``.

    read -- returns the settings; called at the start and after SIGHUP.
    copy_argv -- command line of the copy process.
    copy_main -- its function, where it can be forked from this process.
    sessions -- opens its sessions.
    """

    def __init__(
        self,
        read: Callable[[], WorkerSettings],
        signals: Signals,
        *,
        copy_argv: Sequence[str] = (),
        copy_main: Callable[[], int] | None = None,
        sessions: Callable[[WorkerSettings], Sessions] = Sessions,
    ) -> None:
        self.read = read
        self.settings = read()
        self.signals = signals
        self.copies = Copies(copy_argv, longest_pause=self.settings.max_retry_delay, main=copy_main)
        self.statistics = WorkerStatistics(self.settings.stats_period)
        self._sessions = sessions(self.settings)
        self._follower = AutoAdd(self.settings)
        self._steps = Steps(
            self.settings.db,
            self.settings.queue_name,
            lock_timeout=self.settings.execute_lock_timeout,
        )
        #: Up to this tick batches are taken tick by tick: there is a script among them.
        self._cut_until = 0
        self._loop = Loop(
            self.unit,
            signals=signals,
            delay=self.settings.poll_interval,
            longest_pause=self.settings.max_retry_delay,
            on_reload=self._reload,
            files=self._sessions.files,
            recover=self._recover,
            fatal=(Superseded,),
        )
        self._stored_error = ""
        self._busy_copying = False
        self._seek_left_overs = True
        self._paused = False
        self._keys = ForeignKeys(
            self.settings.db,
            self.settings.queue_name,
            lock_timeout=self.settings.lock_timeout,
        )
        self._seen = tables.TableListCache()
        self._closed_at: float | None = None
        self._interests: tuple[Sequence[ReplicatedTable], RoutingTable] | None = None
        self._fence = fencing.Fence()
        self._watermarks = Watermarks(self.settings)

    # -- running ---------------------------------------------------------------------------

    def run(self) -> None:
        """Runs until a stop is requested.

        Errors at the start are raised at once: no such node, another worker, no connection to this
        node.  A server that is starting or recovering is waited for.  Later errors are retried,
        except Superseded.
        """
        with self._bound():
            try:
                if started(self._start, self.signals):
                    self._loop.run()
            finally:
                self.close()

    def run_once(self) -> None:
        """Runs until no batch is available and no table is being copied; raises the first error."""
        try:
            self._start()
            while not self.signals.stopping:
                try:
                    more = self.unit()
                except LondisteError as error:
                    self._recover(error)
                    raise
                if self._paused:
                    raise StateError(
                        f"queue {self.settings.queue_name}: worker is paused",
                        hint="londiste -c FILE resume",
                    )
                if more:
                    continue
                if not self._busy_copying and not self._keys.busy and not self._steps.busy:
                    return
                if self.copies.failures >= ONCE_FAILURES:
                    raise StateError(
                        f"copy process failed {self.copies.failures} times",
                        hint="londiste -c FILE copy",
                    )
                self.signals.wait(self._loop.delay, self._sessions.files())
        finally:
            self.close()

    def try_out(self) -> None:
        """Starts as ``run`` does, and ends: raises the errors of the start."""
        try:
            with contextlib.suppress(ServerStarting):
                self._start()
        finally:
            self.close()

    def close(self) -> None:
        """Stops the copy process and closes the sessions."""
        self.copies.stop()
        self._keys.close()
        self._steps.stop()
        self._sessions.close()

    def _start(self) -> None:
        target = self._sessions.node()
        state = nodes.get_worker_state(target, self.settings.queue_name)
        self._check_name(state)
        for text in (self.settings.pgq_keep_lag, self.settings.pgq_batch_collect_interval):
            connections.interval(target, text)
        log.info(
            "worker %s of node %s (%s), queue %s, at tick %d",
            state.worker,
            state.name,
            state.type.value,
            state.queue,
            state.completed_tick,
        )

    def _reload(self) -> None:
        new = self.read()
        if (new.db, new.queue_name, new.consumer) != (
            self.settings.db,
            self.settings.queue_name,
            self.settings.consumer,
        ):
            log.warning("a change of db, queue_name or consumer_name needs a restart")
            return
        self.settings = self._sessions.settings = self._watermarks.settings = new
        self._follower = AutoAdd(new)
        self._sessions.close_engine()
        self._steps.lock_timeout = new.execute_lock_timeout
        self.statistics.period = new.stats_period
        self._loop.longest_pause = new.max_retry_delay
        # The next unit makes it anew, with the new settings.
        self._sessions.close_source()

    # -- one unit --------------------------------------------------------------------------

    def unit(self) -> bool:
        """One unit of work; False when there is nothing to do now."""
        with self._bound():
            try:
                return self._unit() or self._told()
            except PositionLost as error:
                self._keep_lost(error)
                raise
            except (UsageError, InstallError, psycopg.Error) as error:
                if self._is_dropped():
                    raise NodeDropped(
                        f"{describe_dsn(self.settings.db)} is not a node of queue"
                        f" {self.settings.queue_name} any more: it was dropped",
                        hint="stop this worker, or create the node again",
                    ) from error
                raise

    def _is_dropped(self) -> bool:
        """Whether this database was a node when the worker started, and no longer is."""
        try:
            with session(self.settings.db, name="londiste worker: node", autocommit=True) as conn:
                return nodes.find_node_info(conn, self.settings.queue_name) is None
        except InstallError:
            return True
        except (LondisteError, psycopg.Error):
            return False

    def _told(self) -> bool:
        """Whether the table list has changed during the unit: another one is due at once."""
        news = self._sessions.news
        if news is None:
            return False
        again = news.end()
        if news.rest is not None:
            self._loop.delay = min(self._loop.delay, news.rest)
        return again

    def _bound(self) -> AbstractContextManager[None]:
        return logcontext.bound(
            job=self.settings.job_name,
            queue=self.settings.queue_name,
            consumer=self.settings.consumer,
        )

    def _unit(self) -> bool:
        self._loop.delay = self.settings.poll_interval
        target = self._sessions.node()
        if self._sessions.news is not None:
            self._sessions.news.begin()
        (state, hold, known), opened, asked = self._look(target)
        self._check_name(state)
        if not state.uptodate:
            # Whoever has paused or resumed this worker, or moved it, waits for this.
            nodes.set_consumer_uptodate(target, state.queue, state.worker, True)
        if not state.uptodate or self._watermarks.group is None:
            # Afterwards: who changes it meanwhile asks for attention again.
            self._watermarks.read_group(target, state.queue)
        if (
            self._sessions.source is not None
            and self._sessions.source.location != state.provider_location
        ):
            self._sessions.close_source()
        combined_queue.require_combined(state)
        own = bool(self._watermarks.group) and state.type is NodeType.BRANCH
        duty = duties(state.type, state.combined_type, own_watermark=own)
        if self._sessions.source is not None and self._sessions.source.duty != duty:
            # The combined queue is root here now, or branch.
            self._sessions.close_source()
            opened, asked = None, False
            self._closed_at = None
        self._paused = state.paused
        if state.paused:
            if self._sessions.source is not None:
                self._sessions.source.standing = None
            self.copies.look_after(False)
            more = False
        else:
            if duty.process:
                more = self._process(state, duty, hold, known, opened, asked)
            else:
                more = self._root(state, duty, known)
        if not state.paused:
            # An error of before is over once a unit has come to its end.
            self._stored_error = ""
            if state.cur_error is not None:
                nodes.set_consumer_error(self._sessions.node(), state.queue, state.worker, None)
        self.statistics.log_when_due()
        return more

    def _root(
        self, state: WorkerState, duty: BatchActions, known: Sequence[ReplicatedTable]
    ) -> bool:
        # Its scripts are run by the command.
        self._steps.rest()
        # It may have been a branch a moment ago.
        self._sessions.close_source()
        node = self._sessions.node()
        self._fence.look(node, state.queue, state.name, extra=self.settings.remote_extra_connstr)
        if duty.publish_global:
            self._watermarks.publish_global(node, state.queue)
        tables.root_check_seqs(node, state.queue)
        # Keys of tables that leaves merge into this queue, or that it restored as a branch.
        self._keys.look_after(node, known)
        self._loop.delay = max(self.settings.poll_interval, 1.0)
        return False

    def _look(self, target: Connection) -> tuple[tables.Look, Opened | None, bool]:
        """The state of this node, the next batch, and whether the provider was asked for one.

        Both databases are queried at the same time when the position at the provider is confirmed.
        """
        queue, worker = self.settings.queue_name, self.settings.consumer
        source = self._sessions.source
        if source is None:
            return self._seen.look(target, queue, worker), None, False
        standing = source.standing
        if standing is None or not usable(source.conn):
            return self._seen.look(target, queue, worker), None, False
        look = None
        try:
            with source.asking(standing) as found:
                look = self._seen.look(target, queue, worker)
        except LondisteError:
            # A change of the cascade has made this node read from another one, or from none.
            if look is None or look[0].provider_location == source.location:
                raise
            self._sessions.close_source()
            return look, None, False
        return look, (found[0] if found else None), True

    def _process(
        self,
        state: WorkerState,
        duty: BatchActions,
        hold: Hold | None,
        known: Sequence[ReplicatedTable],
        opened: Opened | None,
        asked: bool,
    ) -> bool:
        source = self._sessions.provider(state, duty)
        if not asked:
            # What arrives from here on is looked at after the batch.
            source.listener.drain()
        if source.behind is not None:
            return self._behind(source, source.behind, state, duty, known)
        outlook = source.handover.step(state.completed_tick, known)
        self._look_after_copies(outlook, state)
        if self._follower.look_after(self._sessions.node(), known):
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
            except InJoinedBatch:
                # What runs outside of a batch has a tick on either side of it.
                self._cut_until = batch.tick_id
                self._take_anew(source, state)
                return True
            except CombinedClosed as closed:
                return self._wait_for_combined(closed)
            except Waits as script:
                log.info("the script of this batch waits for script %s", script)
                self._take_anew(source, state)
                self._loop.delay = COPY_DELAY
                return False
            self._closed_at = None
            self.statistics.count(stats)
            self._watermarks.report(self._sessions.node(), source, state, duty, batch)
            self._keys.look_after(self._sessions.node(), outlook.tables)
            source.finish(batch)
            if self._after_scripts(source):
                return True
        if source.collects or opened.followed or source.heard():
            return True
        if not self._busy_copying:
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
            self._follower.look_after(self._sessions.node(), known)
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

    def _keep_lost(self, error: PositionLost) -> None:
        """Reports a lost position until an operator decides; ``connections`` checks."""
        if self._sessions.source is None:
            # ``links`` has noted it, where that is due.
            return
        self._sessions.close_source()
        target = self._sessions.node()
        state = nodes.get_worker_state(target, self.settings.queue_name)
        error.hint = POSITION_LOST_HINT
        position_check.note_lost(
            target,
            state.queue,
            state.worker,
            state.provider,
            f"{error.message}; {error.detail}",
        )

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
        self._busy_copying = outlook.copying or left_over
        self.copies.look_after(self._busy_copying)
        if self._busy_copying:
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

    def _check_name(self, state: WorkerState) -> None:
        if state.worker != self.settings.consumer:
            raise UsageError(
                f"node {state.name}: its worker is {state.worker}, not {self.settings.consumer}",
                detail=f"queue {state.queue} in {describe_dsn(self.settings.db)}",
                hint=f"set job_name (or consumer_name) = {state.worker} in the settings",
            )

    # -- trouble ---------------------------------------------------------------------------

    def _recover(self, error: LondisteError) -> Sequence[int]:
        """Closes the sessions that may be unusable, and stores the error for ``status``.

        Returns what ends the pause early: the notification of a decision about an event.
        """
        self._leave_word(error)
        news = self._sessions.news
        if news is None or not isinstance(error, EventError) or self._sessions.target is None:
            return ()
        return (news.fileno(),) if usable(self._sessions.target) else ()

    def _leave_word(self, error: LondisteError) -> None:
        self._sessions.drop_broken()
        text = describe(error)
        if text == self._stored_error:
            return
        try:
            conn = self._sessions.target or connect(
                self.settings.db, name="londiste worker: error", autocommit=True
            )
            try:
                nodes.set_consumer_error(
                    conn, self.settings.queue_name, self.settings.consumer, text
                )
            finally:
                if conn is not self._sessions.target:
                    conn.close()
            self._stored_error = text
        except LondisteError as second:
            log.debug("error not stored: %s", second)
