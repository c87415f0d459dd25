"""Housekeeping of a database: retried and delayed events, rotation, maintenance."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

from londiste.db.connection import Connection
from londiste.db.queries import has_function
from londiste.errors import LondisteError
from londiste.pgq import queues
from londiste.ticker import maintenance, schedule
from londiste.ticker.rounds import Counts, Periods, Round
from londiste.ticker.schedule import Task

#: Periods without a word of the ticks after which this thread asks itself what is due.
_UNHEARD = 3.0

#: Seconds by which an event that is due may be late, so that no wake-up is for less.
_LATE = 0.02


class Housekeeping(Round):
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
        #: When the thread for ticks has said last what is due, and when the present pause ends.
        self.heard = self.planned = -math.inf

    def failed(self, error: LondisteError) -> None:
        super().failed(error)
        self.broken = error.message

    def on_connect(self, conn: Connection) -> None:
        self.knows_due = has_function(conn, maintenance.NEXT_DUE)

    def files(self) -> Iterable[int]:
        """The session's socket: a pause of many seconds ends when the server closes it."""
        return () if self.conn is None or self.conn.closed else (self.conn.fileno(),)

    def tell_due(self, seconds: float | None) -> None:
        """Says from another thread in how many seconds an event is due; None: none waits.

        So this thread sleeps until there is work for it.  Each of its rounds would cost a daemon
        with many idle databases as much as a round of ticks.
        """
        self.heard = time.monotonic()
        if seconds is not None and self.heard + seconds < self.planned - _LATE:
            self.signals.wake()

    def until_due(self) -> float | None:
        """Seconds until a retry or delayed event is due; None: none, or an old schema."""
        conn = self.connected()
        return queues.seconds_until_due(conn) if self.knows_due else None

    def work(self) -> bool:
        """Runs the due tasks; due events do not wait for the period of their task."""
        now = time.monotonic()
        # A word that comes while it works is no reason for another round.
        self.planned = -math.inf
        tasks = schedule.due(now, self.last, self.plan)
        until_due = None if Task.RETRY in tasks else self.until_due()
        if until_due == 0:
            tasks.insert(0, Task.RETRY)
        if self.broken:
            # Retries that fail keep no table from its rotation.
            tasks.reverse()
        moved = 0
        for task in tasks:
            started = time.monotonic()
            conn = self.connected()
            if task is Task.RETRY:
                moved = maintenance.move_due_events(conn, stopping=lambda: self.signals.stopping)
                self.count(Counts(retries=moved))
            elif task is Task.MAINTENANCE:
                done = maintenance.run_once(conn, stopping=lambda: self.signals.stopping)
                self.count(Counts(maintenance=done.done))
                self.failed_again = done.again(self.failed_operations)
                self.failed_operations = done.failed
                self.blocked = maintenance.report_blocked(conn, self.blocked)
            self.last[task] = started
        self.broken = ""
        if tasks:
            until_due = self.until_due()
        # What is due and does not move is not asked for again at once.
        stuck = until_due == 0 and not moved
        now = time.monotonic()
        self.loop.delay = min(
            schedule.pause(now, self.last, self.plan),
            self.periods.tick if stuck else self._pause(now, until_due),
        )
        if not stuck:
            self.planned = now + self.loop.delay
        return False

    def _pause(self, now: float, until_due: float | None) -> float:
        """Seconds until an event may be due that nobody says."""
        is_told = now - self.heard < _UNHEARD * self.periods.tick
        return schedule.due_pause(math.inf if is_told else self.periods.tick, until_due)
