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
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from londiste.daemon import crash
from londiste.daemon.loop import Trouble
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.notify import Listener
from londiste.db.queries import has_function
from londiste.db.server_text import connected_to
from londiste.errors import LondisteError
from londiste.pgq import queues
from londiste.pgq.liveness import Beat
from londiste.ticker import maintenance, pace, schedule, tick
from londiste.ticker.housekeeping import Housekeeping
from londiste.ticker.rounds import Counts, Periods, Round

log = logging.getLogger(__name__)


#: A queue that somebody else has locked waits for its tick; the others must not, not for long.
TICK_LOCK_TIMEOUT_MS = 1_000


#: Seconds between two questions how impatient the queues are: with ticks, and while nothing comes.
#: Then the longest pause decides how often the ticker looks, not their lags.
LAG_PERIOD = 1.0
QUIET_LAG_PERIOD = 10.0


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
        other = Housekeeping(dsn, periods, self._count)
        self._rounds: list[Round] = [_Ticks(dsn, periods, self._count, observer, other), other]
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

    def _thread(self, one: Round) -> threading.Thread:
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


class _Ticks(Round):
    name = "ticks"

    def __init__(
        self,
        dsn: str,
        periods: Periods,
        count: Callable[[Counts], None],
        observer: Observer | None = None,
        housekeeping: Housekeeping | None = None,
    ) -> None:
        super().__init__(dsn, periods, count)
        self.observer = observer
        self.housekeeping = housekeeping
        self.knows_due = False
        #: When it has last told the other thread what is due.
        self.told = -math.inf
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
        self.knows_due = has_function(conn, maintenance.NEXT_DUE)

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
        made = tick.run_once(
            conn, self.troubles, self._in_turn(started, forced), self._tells_due(started)
        )
        crash.point("ticker.after-tick")
        now = time.monotonic()
        if self.observer is not None:
            self.observer.round(self.dsn, now - started)
        if made:
            self.count(Counts(ticks=made))
            self.ticked = now
            self.sign.worked()
        if self.housekeeping is not None:
            # This thread reports for both.
            self.sign.error = self.housekeeping.broken or self.housekeeping.failed_again
        self.sign.beat(conn)
        quiet = self.ticked <= self.asked and not self.pace.slowed
        if now - self.asked >= (QUIET_LAG_PERIOD if quiet else LAG_PERIOD):
            self._look(conn, now, quiet=quiet)
        self.loop.delay = schedule.look_pause(
            self.periods.tick,
            self.lag,
            now - self.ticked,
            now - started,
            ticked=made > 0,
            events=self.events,
        )
        return False

    def _tells_due(self, now: float) -> Callable[[float | None], None] | None:
        """Takes what is due, where this round asks for it."""
        other = self.housekeeping
        if other is None or not self.knows_due or now - self.told < self.periods.tick:
            return None

        def tell(seconds: float | None) -> None:
            self.told = now
            other.tell_due(seconds)

        return tell

    def _look(self, conn: Connection, now: float, *, quiet: bool) -> None:
        """Reads the shortest lag of the queues, and whether their consumers keep up."""
        if quiet:
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
