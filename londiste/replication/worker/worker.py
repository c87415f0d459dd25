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
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeType, WorkerState
from londiste.cascade.progress import POSITION_LOST_HINT
from londiste.cascade.worker_role import duties
from londiste.daemon import logcontext
from londiste.daemon.loop import Loop, started
from londiste.daemon.signals import Signals
from londiste.daemon.statistics import BatchStatistics
from londiste.db.connection import Connection, describe_dsn, given_up_after, session, usable
from londiste.db.queries import interval
from londiste.db.server_text import connected_to
from londiste.errors import (
    AccessDenied,
    EventError,
    InstallError,
    LockTimeout,
    LondisteError,
    NodeBusy,
    NodeDropped,
    PositionLost,
    ServerStarting,
    StateError,
    Superseded,
    UnknownConsumer,
    UsageError,
)
from londiste.pgq import position_check
from londiste.pgq.batches import Opened
from londiste.pgq.liveness import Beat
from londiste.replication import sqlapi as tables
from londiste.replication.commands import sequences
from londiste.replication.ddl.background import Steps
from londiste.replication.forwarding import combined_queue
from londiste.replication.worker.auto_add import AutoAdd
from londiste.replication.worker.connections import unregistered
from londiste.replication.worker.copy_launcher import Copies
from londiste.replication.worker.duties import ApplyDuties, RootDuties, WorkerParts
from londiste.replication.worker.fkey_validator import ForeignKeys
from londiste.replication.worker.sessions import ErrorReport, Sessions
from londiste.replication.worker.watermarks import Watermarks
from londiste.settings import WorkerSettings
from londiste.settings.loading import OF_A_WORKER, taken_over

log = logging.getLogger(__name__)


class Worker:
    """The worker of the node in ``settings.db``.

    read -- returns the settings; called at the start and after SIGHUP.
    copy_argv -- command line of the copy process.
    sessions -- opens its sessions.
    observe -- called after each batch with its events and the seconds that it took.
    """

    def __init__(
        self,
        read: Callable[[], WorkerSettings],
        signals: Signals,
        *,
        copy_argv: Sequence[str] = (),
        sessions: Callable[[WorkerSettings], Sessions] = Sessions,
        observe: Callable[[int, float], None] | None = None,
    ) -> None:
        self.read = read
        self.settings = read()
        self.signals = signals
        self._sessions = sessions(self.settings)
        self._steps = Steps(
            self.settings.db,
            self.settings.queue_name,
            lock_timeout=self.settings.execute_lock_timeout,
        )
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
        self._errors = ErrorReport(self._sessions)
        self._paused = False
        self._node: str | None = self.settings.node_name or None
        self._keys = ForeignKeys(
            self.settings.db,
            self.settings.queue_name,
            lock_timeout=self.settings.lock_timeout,
            answer_seconds=self.settings.answer_seconds,
        )
        self._seen = tables.TableListCache()
        self._watermarks = Watermarks(self.settings)
        self._parts = WorkerParts(
            self.settings,
            self._sessions,
            self._loop,
            Copies(copy_argv, longest_pause=self.settings.max_retry_delay),
            self._steps,
            self._keys,
            self._watermarks,
            BatchStatistics(
                self.settings.stats_period, self.settings.keepalive_stats, always=["ignored"]
            ),
            AutoAdd(self.settings),
            Beat(
                "worker",
                self.settings.queue_name,
                self.settings.consumer,
                longest=given_up_after(self.settings.answer_seconds),
            ),
            observe,
        )
        self._root = RootDuties(self._parts)
        self._apply = ApplyDuties(self._parts)

    @property
    def copies(self) -> Copies:
        """The launcher of the copy process."""
        return self._parts.copies

    @copies.setter
    def copies(self, copies: Copies) -> None:
        self._parts.copies = copies

    # -- running ---------------------------------------------------------------------------

    def run(self) -> None:
        """Runs until a stop is requested.

        Errors at the start are raised at once: no such node, another worker, a refused login.  A
        server that does not answer, starts or recovers is waited for; under a service manager
        also one that refuses the login.  Later errors are retried, except Superseded.
        """
        with self._bound():
            try:
                longest = self.settings.max_retry_delay
                if started(self._begin, self.signals, longest_pause=longest):
                    self._loop.run()
            finally:
                self.close()

    def run_once(self, require_going: Callable[[], None] = lambda: None) -> None:
        """Runs until no batch is available and no table is being copied; raises the first error.

        require_going -- called in waits; raises what only an operator can continue.
        """
        self._parts.beat.enabled = False
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
                if not self._apply.busy_copying and not self._keys.busy and not self._steps.busy:
                    return
                self.copies.require_alive()
                require_going()
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
        self._parts.beat.stop(self._sessions.target or self._sessions.reporter)
        self._sessions.close()

    def _begin(self) -> None:
        """Starts, and stores why it cannot for ``status``; but speaks for no other worker."""
        try:
            self._start()
        except LondisteError as error:
            if not isinstance(error, NodeBusy):
                self._errors.store(error)
            raise

    def _start(self) -> None:
        target = self._sessions.node()
        state = nodes.get_worker_state(target, self.settings.queue_name)
        self._check_name(state)
        # An error of an earlier process: the first batch may take long.
        self._errors.clear(target, state)
        for text in (self.settings.pgq_keep_lag, self.settings.pgq_batch_collect_interval):
            interval(target, text)
        self._node = state.name
        # For its threads; a process of two workers binds the node of each.
        logcontext.of_process(node=state.name)
        with self._bound():
            log.info("connected to %s", connected_to(target))
            log.info(
                "worker %s of node %s (%s), queue %s, at tick %d",
                state.worker,
                state.name,
                state.type.value,
                state.queue,
                state.completed_tick,
            )
            self._catch_up_sequences(target)

    def _catch_up_sequences(self, target: Connection) -> None:
        """Moves sequences that something else has set back: their next value may come late."""
        try:
            with target.transaction():
                moved = sequences.catch_up(target, self.settings.queue_name)
        except (AccessDenied, LockTimeout) as error:
            log.warning("sequences that are behind could not be moved: %s", error)
            return
        for name in moved:
            log.warning("moved sequence %s to its published value", name)

    def _reload(self) -> None:
        new = taken_over(self.settings, self.read(), OF_A_WORKER)
        self.settings = self._sessions.settings = self._watermarks.settings = new
        self._parts.settings, self._parts.follower = new, AutoAdd(new)
        self._sessions.close_engine()
        self._steps.lock_timeout = new.execute_lock_timeout
        self._parts.beat.longest = given_up_after(new.answer_seconds)
        self._parts.statistics.period = new.stats_period
        self._parts.statistics.keepalive = new.keepalive_stats
        self._loop.longest_pause = self.copies.longest_pause = new.max_retry_delay
        if self.copies.alive:
            log.info("the running copy process keeps its settings until it ends")
        # The next unit makes them anew, with the new settings.
        self._sessions.close_source()
        self._sessions.drop_standby()

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
                if isinstance(error, UnknownConsumer) and self._sessions.source is not None:
                    # Its hint would register the consumer at the newest tick.
                    raise self._unregistered() from error
                raise

    def _unregistered(self) -> PositionLost:
        """The error for a provider that has forgotten this worker; the next unit checks again."""
        self._sessions.close_source()
        queue = self.settings.queue_name
        return unregistered(nodes.get_worker_state(self._sessions.node(), queue))

    def _is_dropped(self) -> bool:
        """Whether this database was a node when the worker started, and no longer is."""
        try:
            with session(
                self.settings.db,
                name="londiste worker: node",
                autocommit=True,
                answer_seconds=self.settings.answer_seconds,
            ) as conn:
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
            node=self._node,
            job=self.settings.job_name,
            queue=self.settings.queue_name,
            consumer=self.settings.consumer,
        )

    def _unit(self) -> bool:
        self._loop.delay = self.settings.poll_interval
        self._sessions.renew()
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
        source = self._sessions.source
        if source is not None and source.location != state.provider_location:
            self._sessions.close_source()
        combined_queue.require_combined(state)
        own = bool(self._watermarks.group) and state.type is NodeType.BRANCH
        duty = duties(state.type, state.combined_type, own_watermark=own)
        if self._sessions.source is not None and self._sessions.source.duty != duty:
            # The combined queue is root here now, or branch.
            self._sessions.close_source()
            opened, asked = None, False
            self._apply.combined_changed()
        self._paused = state.paused
        unreadable = None if duty.process else self._root.guard(state)
        if state.paused:
            if self._sessions.source is not None:
                self._sessions.source.standing = None
            self.copies.look_after(False)
            more = False
        elif duty.process:
            more = self._apply.unit(state, duty, hold, known, opened, asked)
        else:
            more = self._root.unit(state, duty, known)
        if unreadable is not None:
            self._errors.store(unreadable)
        elif not state.paused:
            self._errors.clear(self._sessions.node(), state)
        self._parts.statistics.log_when_due()
        self._parts.beat.error = ""
        self._parts.beat.beat(self._sessions.target)
        self._sessions.report_standby()
        return more

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
        if isinstance(error, NodeDropped):
            # Commands wait for the end of its sessions.
            self._sessions.close()
            return ()
        self._sessions.drop_broken()
        self._errors.store(error)
        # It lives, and repeats what fails.
        self._parts.beat.error = error.message if self._sessions.target is None else ""
        self._parts.beat.beat(self._sessions.target or self._sessions.reporter)
        news = self._sessions.news
        if news is None or not isinstance(error, EventError) or self._sessions.target is None:
            return ()
        return (news.fileno(),) if usable(self._sessions.target) else ()
