"""Sessions of a worker: on its node, on the provider, and the engine for large batches; its error.

Each is opened on first use, and again after it was lost.  The provider's objects write through the
session on the node, so both are closed together.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from londiste import engine
from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import WorkerState
from londiste.cascade.worker_role import BatchActions
from londiste.changes.row_values import origin
from londiste.daemon.loop import describe
from londiste.db.connection import Connection, connect, usable
from londiste.db.queries import translated
from londiste.db.server_text import connected_to
from londiste.engine.base import Engine
from londiste.errors import LockTimeout, LondisteError, NodeBusy
from londiste.orchestration.connections import reach
from londiste.orchestration.lock_retry import name_prepared
from londiste.pgq.liveness import read_only, reporting
from londiste.replication.notifications import TableNotifications
from londiste.replication.parallel.coordinator import LargeBatches
from londiste.replication.worker import connections
from londiste.replication.worker.provider import Source, open_source
from londiste.settings import WorkerSettings
from londiste.standby.reader import StandbyReader

log = logging.getLogger(__name__)

#: Seconds without a large batch after which its engine is closed: it is half a gigabyte.
ENGINE_IDLE = 60.0


class Sessions:
    """The open sessions of a worker.

    settings -- may be replaced; they apply to sessions opened afterwards.
    target, news -- the node and its notifications; None while there is no session.
    source -- the provider's queue.
    standby -- of the provider, where batches are read; None: the settings have none.
    reporter -- on the node, while something other than its server or another worker prevents
        ``target``: it reports what.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self.settings = settings
        self.target: Connection | None = None
        self.news: TableNotifications | None = None
        self.source: Source | None = None
        self.standby: StandbyReader | None = None
        self.reporter: Connection | None = None
        self._engine: Engine | None = None
        self._failed = False
        self._engine_used = 0.0

    def node(self) -> Connection:
        """The session on the worker's node.  Raises NodeUnreachable, Superseded."""
        if self.target is None or not usable(self.target):
            self.close_both()
            self.target = connections.own_node(self.settings)
            self.news = TableNotifications(self.target, self.settings.queue_name)
            self.close_reporter()
        return self.target

    def any(self) -> Connection:
        """The session on the node, or one that only reports: it needs no lock and no role."""
        if self.target is not None:
            return self.target
        if self.reporter is None or not usable(self.reporter):
            self.close_reporter()
            self.reporter = connect(
                self.settings.db,
                name="londiste worker: error",
                autocommit=True,
                answer_seconds=self.settings.answer_seconds,
            )
        return self.reporter

    def provider(self, state: WorkerState, duty: BatchActions) -> Source:
        """The queue that the node reads from.  Raises errors of session and position."""
        if self.source is not None and usable(self.source.conn):
            return self.source
        self.close_source()
        standby = self._standby_of(state)
        large = self._large(state, standby)
        # A process that was killed behind its last batch has left what it staged.
        large.sweep(self.node())
        self.source = open_source(self.node(), self.settings, state, duty, large, standby)
        log.info("reading from node %s: %s", state.provider, connected_to(self.source.conn))
        if standby is not None:
            log.info("batches are read from its standby %s while it keeps up", standby.place)
        return self.source

    def carrier(self) -> Engine:
        """The engine, started on first use."""
        if self._engine is None:
            self._engine = engine.create(self.settings.engine, self.settings.spark)
        self._engine_used = time.monotonic()
        return self._engine

    def files(self) -> Sequence[int]:
        """The files that become readable when there is something to do."""
        news = self.news.files() if self.news is not None else ()
        return [*news, *([self.source.listener.fileno()] if self.source is not None else ())]

    def report_standby(self) -> None:
        """Reports to ``status`` whether the standby is read."""
        if self.standby is not None:
            self.standby.report(self.target)

    def drop_standby(self) -> None:
        """After the settings have changed: the next session on the provider makes it anew."""
        standby, self.standby = self.standby, None
        if standby is not None:
            standby.stop(self.target)

    def renew(self) -> None:
        """Before a unit: after a failure, closes sessions that are read only by default."""
        failed, self._failed = self._failed, False
        if not failed:
            return
        if self.source is not None and read_only(self.source.conn):
            self.close_source()
        if self.target is not None and read_only(self.target):
            self.close_both()

    def drop_broken(self) -> None:
        """Closes the sessions that an error may have left unusable.

        A read-only one reports the error; ``renew`` replaces it.
        """
        self._failed = True
        if self.source is not None and not usable(self.source.conn):
            self.close_source()
        if self.target is not None and not usable(self.target):
            self.close_both()

    def rest(self) -> None:
        """Called when the worker is idle: an engine that was not used for long is stopped.

        And a standby that failed is tried again.
        """
        if self.standby is not None:
            self.standby.try_again()
        if time.monotonic() - self._engine_used > ENGINE_IDLE:
            self.close_engine()

    def close(self) -> None:
        """Closes everything."""
        self.close_source()
        self.drop_standby()
        self.close_both()
        self.close_reporter()
        self.close_engine()

    def close_source(self) -> None:
        """Closes the session; the next unit opens one on the then current provider."""
        source, self.source = self.source, None
        if source is not None:
            source.close()

    def close_both(self) -> None:
        """Closes the session on the provider, and that on the node."""
        self.close_source()
        target, self.target, self.news = self.target, None, None
        if target is not None:
            target.close()

    def close_reporter(self) -> None:
        """Closes the session that only reports."""
        reporter, self.reporter = self.reporter, None
        if reporter is not None:
            reporter.close()

    def close_engine(self) -> None:
        """Stops the engine; the next large batch starts it again."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _standby_of(self, state: WorkerState) -> StandbyReader | None:
        """The reader of the standby; its health outlives the session on the provider."""
        settings = self.settings
        if self.standby is None and settings.read_from:
            self.standby = StandbyReader(
                settings.read_from,
                state.queue,
                state.worker,
                wait=settings.read_from_wait,
                longest_pause=settings.max_retry_delay,
                # A read that takes longer is asked for by another session (limit_answers).
                answer_seconds=max(1.0, settings.read_from_wait),
            )
        return self.standby

    def _large(self, state: WorkerState, standby: StandbyReader | None) -> LargeBatches:
        """The coordinator of large batches; starts no engine yet."""
        settings = self.settings
        return LargeBatches(
            self.carrier,
            settings.engine,
            settings.parallel_apply_min_events,
            settings.parallel_apply_tasks,
            state.queue,
            state.name,
            reach(state.provider_location, settings.remote_extra_connstr, node=state.provider),
            settings.db,
            standby=standby,
            answer_seconds=settings.answer_seconds,
        )


class ErrorReport:
    """Stores an error once, and clears it after a unit without one."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._stored = ""

    def clear(self, node: Connection, state: WorkerState) -> None:
        """Deletes the stored error, also that of an earlier process."""
        self._stored = ""
        if state.cur_error is not None:
            nodes.set_consumer_error(node, state.queue, state.worker, None)

    def store(self, error: LondisteError) -> None:
        """Stores the error, through a session of its own where the worker has none."""
        sessions, settings = self._sessions, self._sessions.settings
        if isinstance(error, LockTimeout) and sessions.target is not None:
            name_prepared(error, sessions.target)
        text = origin(error) + describe(error)
        # It would take the last place of a server, or speak for another worker.
        stays = not error.retry and not isinstance(error, NodeBusy)
        if text == self._stored and (sessions.target or usable(sessions.reporter) or not stays):
            return
        try:
            conn = sessions.any()
            with translated(conn), reporting(conn):
                nodes.set_consumer_error(conn, settings.queue_name, settings.consumer, text)
            self._stored = text
        except LondisteError as second:
            log.debug("error not stored: %s", second)
        finally:
            if not stays:
                sessions.close_reporter()
