"""Consumer runner: processes one batch after another.

Made by ``Consumer`` from its settings; it knows source and progress and nothing of where they
come from.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psycopg

from londiste.consumer import event_loop, session_settings, source
from londiste.consumer.context import Context
from londiste.consumer.contracts import STEPS, Chunks, Job
from londiste.consumer.delivery import Delivery
from londiste.consumer.event_loop import FailurePolicy, NeedsSavepoints, One
from londiste.consumer.event_stream import Events
from londiste.consumer.progress import EventMarks, Progress
from londiste.consumer.source import QueueSource
from londiste.daemon import crash
from londiste.daemon.logcontext import bound
from londiste.daemon.statistics import BatchStatistics
from londiste.db.connection import Connection, connect, describe_dsn, usable, use_own_names
from londiste.errors import LondisteError
from londiste.pgq.types import Batch

#: Contracts under which the session for effects has transactions of ours.
_HELD = {delivery for delivery in Delivery if delivery.one_transaction} | {Delivery.ONCE_PER_EVENT}

#: ``process_batch`` of the user.
BatchFunction = Callable[[Batch, Events, Context], object]


class Effects:
    """The session for effects, opened on first use."""

    def __init__(self, dsn: str, name: str, lock_timeout: float) -> None:
        self.dsn = dsn
        self.name = name
        self.lock_timeout = lock_timeout
        self._conn: Connection | None = None
        self._held = False

    def open(self) -> Connection:
        """A session outside a transaction."""
        if not usable(self._conn):
            self.close()
            name = f"londiste consumer {self.name}"[:40] + f" {os.getpid()}@{socket.gethostname()}"
            conn = connect(
                self.dsn,
                name=name,
                autocommit=True,
                lock_timeout_ms=round(self.lock_timeout * 1000),
                synchronous=True,
                # What the user's statements take, as long as the server works.
                silent_seconds=self.lock_timeout + source.ANSWER_SECONDS,
            )
            use_own_names(conn)
            self._conn = conn
        assert self._conn is not None
        return self._conn

    def current(self) -> Connection:
        """The session in any state, also inside a transaction.

        Inside ``transaction`` also when it was lost: a new one would not be in the transaction.
        """
        if self._conn is not None and (self._held or not self._conn.closed):
            return self._conn
        return self.open()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction, in one session until its end."""
        conn = self.open()
        session_settings.restore(conn, unseen=False)
        self._held = True
        try:
            with conn.transaction():
                yield
        finally:
            self._held = False

    def restore(self) -> None:
        """Before a batch: the settings of the session as it was opened."""
        if self._conn is not None and usable(self._conn):
            session_settings.restore(self._conn)

    def require_idle(self, batch: Batch) -> None:
        """Raises EventError if the user's function has left a transaction open."""
        if self._conn is not None and not usable(self._conn) and not self._conn.closed:
            raise event_loop.fault(
                batch,
                "left a transaction open in ctx.db",
                detail="finishing the batch would lose what was written in it",
                hint="write `with ctx.db.transaction():`, or commit",
            )

    def close(self) -> None:
        """Ends the session."""
        if self._conn is not None:
            self._conn.close()
            self._conn = None


@dataclass
class Runner:
    """One batch after the other.

    progress -- creates the progress for a session of the effects; None if the queue is enough.
    key -- consumer and subconsumer, as in the marks of events.
    may_commit -- the function may commit in between, and begins another transaction then: programs
        of earlier versions.
    """

    source: QueueSource
    effects: Effects
    delivery: Delivery
    function: BatchFunction
    policy: FailurePolicy
    statistics: BatchStatistics
    progress: Callable[[Callable[[], Connection]], Progress] | None = None
    key: tuple[str, str] = ("", "")
    stopping: Callable[[], bool] = lambda: False
    may_commit: bool = False
    #: Whether something runs around it that keeps the number of events of the last batch.
    count: int = 0

    def batch(self) -> Batch | None:
        """Processes one batch; None if there is none."""
        crash.point("consumer.before-batch")
        batch = self.source.next_batch()
        if batch is None:
            return None
        with bound(batch=batch.id, tick=batch.tick_id):
            crash.point("consumer.after-next-batch")
            started = time.monotonic()
            self.count = 0
            if not self.may_commit and self.delivery in _HELD:
                self.effects.restore()
            try:
                done = self._done(batch)
            except LondisteError as error:
                if error.retry:
                    error.say_more(event_loop.place(batch))
                raise
            except psycopg.Error as error:
                where = describe_dsn(self.effects.dsn)
                raise event_loop.of_batch(error, batch, where) from error
            counters = {} if done is None else done.counters()
            self.statistics.count(self.count, time.monotonic() - started, counters)
        return batch

    def close(self) -> None:
        """Closes the sessions."""
        self.source.close()
        self.effects.close()

    def _done(self, batch: Batch) -> Context | None:
        """Processes the batch by the steps of its contract."""
        steps = STEPS[self.delivery]
        try:
            return steps(self._job(batch, careful=False), batch)
        except NeedsSavepoints:
            # Everything was rolled back; the batch is still open and is read again.
            return steps(self._job(batch, careful=True), batch)

    # -- the pieces ------------------------------------------------------------------------

    def _job(self, batch: Batch, *, careful: bool) -> Job:
        def process(batch: Batch, chunks: Chunks) -> Context:
            ctx = Context(
                batch,
                self.delivery,
                self._db,
                one=self._one(careful),
                attempts=self.policy.attempts,
                stopping=self.stopping,
            )
            events = Events(batch, chunks, self.source.wish.fetch)
            together = self.delivery.one_transaction and not self.may_commit
            xid = event_loop.transaction_id(self._db()) if together else None
            with event_loop.whole(ctx):
                event_loop.require_done(self.function(batch, events, ctx))
            if together:
                event_loop.require_transaction(self._db(), batch, xid)
            if ctx.half_done:
                # The function has caught what an event raised, or even the signal itself.
                raise NeedsSavepoints
            events.require_read()
            if not self.delivery.one_transaction:
                self.effects.require_idle(batch)
            self.count = events.count
            return ctx

        progress = self.progress(self._db) if self.progress is not None else None
        return Job(self.source, process, self._transaction, progress)

    def _db(self) -> Connection:
        if self.delivery is Delivery.EXACTLY_ONCE_HERE:
            return self.source.conn_in_use()
        return self.effects.current()

    def _transaction(self) -> AbstractContextManager[object]:
        return self.effects.transaction()

    def _one(self, careful: bool) -> One:
        if self.delivery is Delivery.ONCE_PER_EVENT:
            marks = EventMarks(self.effects.current, *self.key, self.source.is_open)
            return event_loop.marked(self.policy, self.effects.transaction, marks)
        if not self.delivery.one_transaction:
            return event_loop.plainly(self.policy)
        return (
            event_loop.with_savepoints(self.policy) if careful else event_loop.without_savepoints()
        )
