"""The ticker daemon: several databases, each looked after by itself.

A database that cannot be reached, or that has no queue, is tried again and again and stops no
other.  SIGHUP reads the settings again: databases come and go, periods change.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field

import psycopg
from psycopg import conninfo

from londiste.daemon import logcontext
from londiste.daemon.loop import describe, report
from londiste.daemon.signals import Interrupted, Signals
from londiste.db.connection import place, session
from londiste.db.queries import query
from londiste.errors import BadOption, LondisteError
from londiste.install import compat
from londiste.ticker import schedule
from londiste.ticker.database import Counts, DatabaseTicker, Periods, once
from londiste.ticker.schedule import Task

log = logging.getLogger(__name__)

#: Seconds between two looks for databases that were made or dropped.
DISCOVERY_PERIOD = 60.0


@dataclass(frozen=True)
class Duty:
    """What the service is to do.

    databases -- connection strings.
    discover -- look after all databases of their servers that have the queue.
    """

    databases: tuple[str, ...]
    periods: Periods = field(default_factory=Periods)
    discover: bool = False


class Service:
    """The running daemon.

    read -- gives the duty; called at the start and after SIGHUP.
    """

    def __init__(self, read: Callable[[], Duty], signals: Signals) -> None:
        self.read = read
        self.signals = signals
        self.duty = read()
        self.tickers: dict[str, DatabaseTicker] = {}

    def run(self) -> None:
        """Runs until a stop is asked for; every thread has ended when this returns."""
        with logcontext.bound(job="ticker"):
            self._run()

    def _run(self) -> None:
        last: dict[Task, float] = {Task.STATISTICS: time.monotonic()}
        discovered = -DISCOVERY_PERIOD
        try:
            while not self.signals.stopping:
                if self.signals.reload_wanted() and self._reload():
                    discovered = -DISCOVERY_PERIOD
                now = time.monotonic()
                if now - discovered >= DISCOVERY_PERIOD:
                    self._look_after(self._databases())
                    discovered = now
                periods = {Task.STATISTICS: self.duty.periods.statistics}
                if schedule.due(now, last, periods):
                    self._log_statistics()
                    last[Task.STATISTICS] = now
                self.signals.wait(min(schedule.pause(now, last, periods), DISCOVERY_PERIOD))
        except Interrupted:
            pass
        finally:
            self._stop(list(self.tickers.values()))

    def _reload(self) -> bool:
        try:
            duty = self.read()
        except LondisteError as error:
            log.error("settings not read again, the old ones stay: %s", describe(error))
            return False
        if duty.periods != self.duty.periods:
            # The threads have their periods from their start.
            self._stop(list(self.tickers.values()))
            self.tickers.clear()
        self.duty = duty
        log.info("settings read again")
        return True

    def _databases(self) -> list[str]:
        if not self.duty.discover:
            return list(self.duty.databases)
        try:
            return discover(self.duty.databases)
        except LondisteError as error:
            report(error)
            # Those that are known go on; the server will be asked again.
            return sorted({*self.duty.databases, *self.tickers})

    def _look_after(self, databases: Iterable[str]) -> None:
        wanted = dict.fromkeys(databases)
        gone = [dsn for dsn in self.tickers if dsn not in wanted]
        self._stop([self.tickers.pop(dsn) for dsn in gone])
        for dsn in wanted:
            if dsn not in self.tickers:
                self.tickers[dsn] = DatabaseTicker(dsn, self.duty.periods)
                self.tickers[dsn].start()
                log.info("looking after %s", self.tickers[dsn].place)

    def _stop(self, tickers: list[DatabaseTicker]) -> None:
        for ticker in tickers:
            ticker.stop()
        deadline = time.monotonic() + self.signals.stop_timeout / 2
        slow = [ticker for ticker in tickers if not ticker.join(deadline)]
        for ticker in slow:
            log.info("%s: breaking off what it does", ticker.place)
            ticker.cancel()
        for ticker in slow:
            ticker.join(time.monotonic() + 1.0)

    def _log_statistics(self) -> None:
        total = Counts()
        for ticker in self.tickers.values():
            total += ticker.take_counts()
        log.info(
            "%d databases: %d ticks, %d retries, %d maintenance operations",
            len(self.tickers),
            total.ticks,
            total.retries,
            total.maintenance,
            extra={"statistics": asdict(total)},
        )


def discover(dsns: Iterable[str]) -> list[str]:
    """The given databases, and every other one of their servers that has the queue.

    Raises LondisteError when a server cannot be asked.
    """
    found: dict[str, None] = {}
    for dsn in dsns:
        found[dsn] = None
        with session(dsn, name="londiste ticker: discovery", autocommit=True) as conn:
            own = conn.info.dbname
            names = [name for (name,) in conn.execute(query("other_databases")) if name != own]
        for name in names:
            other = conninfo.make_conninfo(dsn, dbname=name)
            try:
                with session(other, name="londiste ticker: discovery", autocommit=True) as conn:
                    compat.check(conn, "pgq", original=True)
                found[other] = None
            except (LondisteError, psycopg.Error) as error:
                log.debug("%s: no queue there: %s", place(other), error)
    return list(found)


def run_once(duty: Duty) -> Counts:
    """One round for every database; raises the first error after all have been tried."""
    total, first = Counts(), None
    for dsn in discover(duty.databases) if duty.discover else duty.databases:
        try:
            total += once(dsn)
        except LondisteError as error:
            if first is not None:
                report(error)
            first = first or error
    if first is not None:
        raise first
    return total


def require(databases: tuple[str, ...]) -> tuple[str, ...]:
    """The databases; raises BadOption when there is none."""
    if not databases:
        raise BadOption(
            "no database for the ticker",
            hint="set databases in the file (-c FILE), or give --db DSN",
        )
    return databases
