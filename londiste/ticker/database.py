"""Ticker of one database: one thread creates ticks, another does maintenance.

Two threads and connections, because a vacuum or a rotation may take minutes and ticks are
due every second.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from londiste.daemon import crash, logcontext
from londiste.daemon.loop import Loop, Trouble
from londiste.daemon.service_manager import watched
from londiste.daemon.signals import Signals
from londiste.db.connection import Connection, connect, describe_dsn, session, usable
from londiste.db.notify import Listener
from londiste.db.queries import has_function
from londiste.db.server_text import connected_to, named
from londiste.errors import LondisteError
from londiste.pgq import queues
from londiste.pgq.liveness import Beat
from londiste.ticker import maintenance, pace, schedule, tick
from londiste.ticker.schedule import Task

log = logging.getLogger(__name__)


#: A queue that somebody else has locked waits for its tick; the others must not, not for long.
TICK_LOCK_TIMEOUT_MS = 1_000


#: Seconds between two questions how impatient the queues are.
LAG_PERIOD = 1.0


@dataclass(frozen=True)
class Periods:
    """Seconds between two runs of each task.

    tick -- maximum; queues with events and a short lag are checked more often.
    keepalive -- between two lines of statistics while there are no events.
    longest_pause -- after errors.
    lock_timeout -- for rotation and vacuum; a tick uses a shorter one.
    lifetime -- of a connection; then a new one is opened, between two rounds.
    answer -- after which a server that sends nothing and does not work is lost.
    """

    tick: float = 1.0
    retry: float = 30.0
    maintenance: float = 120.0
    statistics: float = 30.0
    keepalive: float = 600.0
    longest_pause: float = 20.0
    lock_timeout: float = 10.0
    lifetime: float = 3600.0
    answer: float = 20.0


@dataclass
class Counts:
    """Counts since the last call of ``take``."""

    ticks: int = 0
    retries: int = 0
    maintenance: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.ticks + other.ticks,
            self.retries + other.retries,
            self.maintenance + other.maintenance,
        )


class Observer(Protocol):
    """Takes what tickers do, from their threads."""

    def round(self, dsn: str, seconds: float) -> None:
        """A round of ticks of a database was finished."""

    def count(self, done: Counts) -> None:
        """Something was done."""


class DatabaseTicker:
    """The two threads of one database; they survive its restarts."""

    def __init__(self, dsn: str, periods: Periods, observer: Observer | None = None) -> None:
        self.dsn = dsn
        self.since = time.monotonic()
        self._observer = observer
        self.place = describe_dsn(dsn)
        self.counts = Counts()
        self._lock = threading.Lock()
        other = _Housekeeping(dsn, periods, self._count)
        self._rounds: list[_Round] = [
            _Ticks(dsn, periods, self._count, observer, lambda: other.broken or other.failed_again),
            other,
        ]
        self._threads = [self._thread(one) for one in self._rounds]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def revive(self) -> int:
        """Restarts threads that have died, which indicates a defect; their number."""
        dead = [
            number
            for number, thread in enumerate(self._threads)
            if not thread.is_alive() and not self._rounds[number].signals.stopping
        ]
        for number in dead:
            one = self._rounds[number]
            log.error("%s: the thread for %s has died; restarted", self.place, one.name)
            one.disconnect()
            self._threads[number] = self._thread(one)
            self._threads[number].start()
        return len(dead)

    def _thread(self, one: _Round) -> threading.Thread:
        return threading.Thread(target=one.run, name=f"{one.name} {self.place}", daemon=True)

    def stop(self) -> None:
        """Asks both threads to stop after their present operation."""
        for one in self._rounds:
            one.signals.stop()

    def join(self, deadline: float) -> bool:
        """Waits for the threads until ``deadline`` (monotonic); false if one is still running."""
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if any(thread.is_alive() for thread in self._threads):
            return False
        for one in self._rounds:
            one.signals.close()
        return True

    def cancel(self) -> None:
        """Cancels the statements that are still running."""
        for one in self._rounds:
            one.cancel()

    def take_counts(self) -> Counts:
        """The counts since the last call."""
        with self._lock:
            taken, self.counts = self.counts, Counts()
        return taken

    def _count(self, done: Counts) -> None:
        with self._lock:
            self.counts += done
        if self._observer is not None:
            self._observer.count(done)


def once(dsn: str) -> Counts:
    """One round of everything, now."""
    with session(dsn, name="londiste ticker", autocommit=True, synchronous=True) as conn:
        maintenance.check(conn)
        crash.point("ticker.before-tick")
        troubles: dict[str, Trouble] = {}
        ticks = tick.run_once(conn, troubles)
        crash.point("ticker.after-tick")
        moved, done = maintenance.move_due_events(conn), maintenance.run_once(conn)
        maintenance.report_blocked(conn)
    failed = {name: one for name, one in troubles.items() if one.failures}
    if failed:
        raise LondisteError(
            f"{len(failed)} of {len(troubles)} queues got no tick in {describe_dsn(dsn)}",
            detail="; ".join(f"{name}: {one.message}" for name, one in failed.items()),
            hint="londiste tick QUEUE",
        )
    done.require_success(describe_dsn(dsn))
    return Counts(ticks, moved, done.done)


class _Round:
    """One thread: a connection that is opened again after a failure, and the work on it."""

    name: str

    def __init__(self, dsn: str, periods: Periods, count: Callable[[Counts], None]) -> None:
        self.dsn = dsn
        self.periods = periods
        self.lock_timeout_ms = int(periods.lock_timeout * 1000)
        self.count = count
        self.signals = Signals()
        self.conn: Connection | None = None
        self.doubtful = False
        self.opened = 0.0
        self.loop = Loop(
            self.work,
            signals=self.signals,
            longest_pause=periods.longest_pause,
            files=self.files,
            recover=self.failed,
            fatal=(),
        )

    def run(self) -> None:
        with logcontext.bound(job="ticker", database=describe_dsn(self.dsn)), watched():
            try:
                while not self.signals.stopping:
                    self._run()
            finally:
                self.disconnect()

    def _run(self) -> None:
        """The loop until a stop request; every other end is logged."""
        try:
            self.loop.run()
        except BaseException as error:
            log.error(
                "%s: %s stopped at %s: %s; restarting",
                describe_dsn(self.dsn),
                self.name,
                type(error).__name__,
                error,
                exc_info=error,
            )
            self.disconnect()
            self.signals.wait(min(1.0, self.periods.longest_pause))

    def work(self) -> bool:
        raise NotImplementedError

    def connected(self) -> Connection:
        if self.doubtful or time.monotonic() - self.opened > self.periods.lifetime:
            self.disconnect()
        if self.conn is None or self.conn.closed:
            with named(f"database {describe_dsn(self.dsn)}"):
                self.conn = connect(
                    self.dsn,
                    name=f"londiste ticker: {self.name}",
                    autocommit=True,
                    lock_timeout_ms=self.lock_timeout_ms,
                    synchronous=True,
                    silent_seconds=self.periods.answer,
                )
            maintenance.check(self.conn)
            self.opened = time.monotonic()
            self.on_connect(self.conn)
            log.debug("%s: connected to %s", self.name, describe_dsn(self.dsn))
        return self.conn

    def on_connect(self, conn: Connection) -> None:
        """Prepares a new connection for the kind of work."""

    def files(self) -> Iterable[int]:
        return ()

    def failed(self, error: LondisteError) -> None:
        """After an error: the next attempt replaces the session, which reports the error."""
        self.doubtful = True
        if not usable(self.conn):
            self.disconnect()

    def disconnect(self) -> None:
        """Closes the session."""
        conn, self.conn = self.conn, None
        self.doubtful = False
        if conn is not None:
            conn.close()

    def cancel(self) -> None:
        conn = self.conn
        if conn is not None and not conn.closed:
            conn.cancel_safe(timeout=2.0)


class _Ticks(_Round):
    name = "ticks"

    def __init__(
        self,
        dsn: str,
        periods: Periods,
        count: Callable[[Counts], None],
        observer: Observer | None = None,
        elsewhere: Callable[[], str] = str,
    ) -> None:
        super().__init__(dsn, periods, count)
        self.observer = observer
        #: What the other thread cannot do; this one reports for both.
        self.elsewhere = elsewhere
        self.lock_timeout_ms = min(self.lock_timeout_ms, TICK_LOCK_TIMEOUT_MS)
        self.troubles: dict[str, Trouble] = {}
        self.listener: Listener | None = None
        self.ticked = -math.inf
        self.lag: float | None = None
        self.asked = -math.inf
        self.pace = pace.Pace()
        #: New ones per second.
        self.events = 0.0
        self.due: dict[str, float] = {}
        self.sign = Beat("ticker", "", socket.gethostname())
        self._announced = False

    def failed(self, error: LondisteError) -> None:
        super().failed(error)
        self.sign.error = error.message
        self.sign.beat(self.conn)

    def disconnect(self) -> None:
        if self.signals.stopping:
            self.sign.stop(self.conn)
        super().disconnect()

    def on_connect(self, conn: Connection) -> None:
        if not self._announced:
            self._announced = True
            log.info("connected to %s", connected_to(conn))
        self.listener = Listener(conn, [queues.FORCE_TICK_CHANNEL])

    def files(self) -> Iterable[int]:
        return (self.listener.fileno(),) if self.listener is not None else ()

    def work(self) -> bool:
        """One round of ticks; force_tick and a lost server end the sleep early."""
        conn = self.connected()
        assert self.listener is not None
        # Before the ticks: a notification that comes while they are made needs another round.
        forced = {payload for _, payload in self.listener.drain()}
        started = time.monotonic()
        crash.point("ticker.before-tick")
        made = tick.run_once(conn, self.troubles, self._in_turn(started, forced))
        crash.point("ticker.after-tick")
        now = time.monotonic()
        if self.observer is not None:
            self.observer.round(self.dsn, now - started)
        if made:
            self.count(Counts(ticks=made))
            self.ticked = now
            self.sign.worked()
        self.sign.error = self.elsewhere()
        self.sign.beat(conn)
        if now - self.asked >= LAG_PERIOD:
            self._look(conn, now)
        self.loop.delay = schedule.look_pause(
            self.periods.tick,
            self.lag,
            now - self.ticked,
            now - started,
            ticked=made > 0,
            events=self.events,
        )
        return False

    def _look(self, conn: Connection, now: float) -> None:
        """Reads the shortest lag of the queues, and whether their consumers keep up."""
        if self.ticked <= self.asked and not self.pace.slowed:
            # What was seen before a quiet time says nothing about what comes after it.
            self.pace = pace.Pace()
            self.lag = queues.shortest_tick_lag(conn)
        else:
            self.pace.look(
                pace.Standing(name, now, lag, newest, events, consumers)
                for name, lag, newest, events, consumers in queues.tick_paces(conn)
            )
            self.lag = min(self.pace.lags.values(), default=None)
        self.events = self.pace.events
        self.asked = now

    def _in_turn(self, now: float, forced: Collection[str]) -> list[str] | None:
        """The queues that may tick, if a queue is slowed down for its consumers; else None.

        forced -- queues with a forced tick, which are always included.
        """
        slowed = self.pace.slowed
        self.due = {name: due for name, due in self.due.items() if name in slowed}
        if not slowed:
            return None
        turn = [
            name
            for name in self.pace.lags
            if name in forced or name not in slowed or now >= self.due.get(name, 0.0)
        ]
        self.due.update((name, now + slowed[name]) for name in turn if name in slowed)
        return turn


class _Housekeeping(_Round):
    name = "housekeeping"

    def __init__(self, dsn: str, periods: Periods, count: Callable[[Counts], None]) -> None:
        super().__init__(dsn, periods, count)
        self.last: dict[Task, float] = {}
        self.plan = {Task.RETRY: periods.retry, Task.MAINTENANCE: periods.maintenance}
        self.knows_due = True
        #: Transactions that a rotation has waited for in the last round.
        self.blocked: list[str] = []
        #: Errors of the last round of maintenance, by operation; those of two rounds in a row.
        self.failed_operations: Mapping[str, str] = {}
        self.failed_again = ""
        #: The error that has ended the last round.
        self.broken = ""

    def failed(self, error: LondisteError) -> None:
        super().failed(error)
        self.broken = error.message

    def on_connect(self, conn: Connection) -> None:
        self.knows_due = has_function(conn, maintenance.NEXT_DUE)

    def until_due(self) -> float | None:
        """Seconds until a retry or delayed event is due; None: none, or an old schema."""
        conn = self.connected()
        return queues.seconds_until_due(conn) if self.knows_due else None

    def work(self) -> bool:
        """Runs the due tasks; due events do not wait for the period of their task."""
        now = time.monotonic()
        tasks = schedule.due(now, self.last, self.plan)
        if Task.RETRY not in tasks and self.until_due() == 0:
            tasks.insert(0, Task.RETRY)
        if self.broken:
            # Retries that fail keep no table from its rotation.
            tasks.reverse()
        fruitless = False
        for task in tasks:
            started = time.monotonic()
            conn = self.connected()
            if task is Task.RETRY:
                moved = maintenance.move_due_events(conn, stopping=lambda: self.signals.stopping)
                self.count(Counts(retries=moved))
                fruitless = not moved
            elif task is Task.MAINTENANCE:
                done = maintenance.run_once(conn, stopping=lambda: self.signals.stopping)
                self.count(Counts(maintenance=done.done))
                self.failed_again = done.again(self.failed_operations)
                self.failed_operations = done.failed
                self.blocked = maintenance.report_blocked(conn, self.blocked)
            self.last[task] = started
        self.broken = ""
        self.loop.delay = min(
            schedule.pause(time.monotonic(), self.last, self.plan),
            # What is due and does not move is not asked for again at once.
            self.periods.tick
            if fruitless
            else schedule.due_pause(self.periods.tick, self.until_due()),
        )
        return False
