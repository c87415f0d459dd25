"""Ticker daemon: several databases, each with its own threads.

It retries a database that is unreachable or has no queue; the others continue.  SIGHUP reloads the
settings: databases and periods may change.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field

import psycopg
from psycopg import conninfo

from londiste.daemon import logcontext
from londiste.daemon.loop import Trouble, describe, report
from londiste.daemon.signals import Interrupted, Signals
from londiste.db.connection import describe_dsn, session
from londiste.db.queries import tuples
from londiste.errors import LondisteError, from_database
from londiste.install import ledger
from londiste.ticker import maintenance, schedule
from londiste.ticker.database import DatabaseTicker, Observer, once
from londiste.ticker.rounds import Counts, Periods
from londiste.ticker.schedule import Task

log = logging.getLogger(__name__)

#: Seconds until a server is asked again that could not say which databases it has.
DISCOVERY_RETRY = 5.0

#: Ticks of a database in one period of statistics that are those of queues without events.
_IDLE_TICKS = 2

#: Seconds between two looks whether all threads live.
LIFE_PERIOD = 5.0


@dataclass(frozen=True)
class Duty:
    """Configuration of the service.

    databases -- connection strings.
    discover -- include all databases of their servers that have schema pgq.
    sources -- connection strings used only for discovery.
    check_period -- seconds between two checks for created or dropped databases.
    """

    databases: tuple[str, ...]
    periods: Periods = field(default_factory=Periods)
    discover: bool = False
    sources: tuple[str, ...] = ()
    check_period: float = 60.0


class Service:
    """The running daemon.

    read -- gives the configuration; called at the start and after SIGHUP.
    observer -- takes what the tickers do.
    """

    def __init__(
        self, read: Callable[[], Duty], signals: Signals, observer: Observer | None = None
    ) -> None:
        self._observer = observer
        self.read = read
        self.signals = signals
        self.duty = read()
        self.tickers: dict[str, DatabaseTicker] = {}
        self.tickers_before = -1
        self.trouble = Trouble()
        #: What was said about databases that are left alone, by place; once is enough.
        self.ignored: dict[str, str] = {}
        self._sums = Counts()
        self._logged = time.monotonic()

    def run(self) -> None:
        """Runs until a stop request; every thread has ended at its return."""
        with logcontext.bound(job="ticker"):
            self._run()

    def _run(self) -> None:
        last: dict[Task, float] = {Task.STATISTICS: time.monotonic()}
        look = -math.inf
        try:
            while not self.signals.stopping:
                if self.signals.reload_wanted() and self._reload():
                    look = -math.inf
                for ticker in self.tickers.values():
                    ticker.revive()
                now = time.monotonic()
                if now >= look:
                    self._look_after(self._databases())
                    look = now + (
                        min(DISCOVERY_RETRY, self.duty.check_period)
                        if self.trouble.failures
                        else self.duty.check_period
                    )
                periods = {Task.STATISTICS: self.duty.periods.statistics}
                if schedule.due(now, last, periods):
                    self._log_statistics()
                    last[Task.STATISTICS] = now
                pause = schedule.pause(time.monotonic(), last, periods)
                self.signals.wait(min(pause, max(0.0, look - now), LIFE_PERIOD))
        except Interrupted:
            pass
        finally:
            self._stop(list(self.tickers.values()))

    def _reload(self) -> bool:
        try:
            duty = self.read()
        except LondisteError as error:
            log.error("settings not reloaded, the old ones stay: %s", describe(error))
            return False
        if duty.periods != self.duty.periods:
            # The threads have their periods from their start.
            self._stop(list(self.tickers.values()))
            self.tickers.clear()
        self.duty = duty
        log.info("reloaded the settings")
        return True

    def _databases(self) -> list[str]:
        if not self.duty.discover and not self.duty.sources:
            return list(self.duty.databases)
        try:
            found = discover(self.duty, self.ignored)
            self.trouble = self.trouble.over()
        except LondisteError as error:
            if self.trouble.failed(error):
                report(error, self.trouble)
            # Those that are known go on; the server will be asked again.
            return sorted({*self.duty.databases, *self.tickers})
        if not found and self.tickers_before != 0:
            log.warning(
                "no database with schema pgq found; checking again every %g seconds",
                self.duty.check_period,
            )
        self.tickers_before = len(found)
        return found

    def _look_after(self, databases: Iterable[str]) -> None:
        wanted = dict.fromkeys(databases)
        gone = [dsn for dsn in self.tickers if dsn not in wanted]
        self._stop([self.tickers.pop(dsn) for dsn in gone])
        for dsn in wanted:
            if dsn not in self.tickers:
                self.tickers[dsn] = DatabaseTicker(dsn, self.duty.periods, self._observer)
                self.tickers[dsn].start()
                log.info("serving %s", self.tickers[dsn].place)
        self.signals.manager.status(f"serving {len(self.tickers)} databases")

    def _stop(self, tickers: list[DatabaseTicker]) -> None:
        for ticker in tickers:
            ticker.stop()
        deadline = time.monotonic() + self.signals.stop_timeout / 2
        slow = [ticker for ticker in tickers if not ticker.join(deadline)]
        for ticker in slow:
            log.info("%s: cancelling its statements", ticker.place)
            ticker.cancel()
        for ticker in slow:
            ticker.join(time.monotonic() + 1.0)

    def served(self) -> dict[str, float]:
        """The connection strings of the databases, and when each was first served (monotonic)."""
        return {dsn: ticker.since for dsn, ticker in list(self.tickers.items())}

    def _log_statistics(self) -> None:
        recent = Counts()
        for ticker in self.tickers.values():
            recent += ticker.take_counts()
        self._sums += recent
        idle = not worked(recent, len(self.tickers))
        if idle and time.monotonic() - self._logged < self.duty.periods.keepalive:
            return
        total, self._sums, self._logged = self._sums, Counts(), time.monotonic()
        log.info(
            "%d databases: %d ticks, %d retries, %d maintenance operations",
            len(self.tickers),
            total.ticks,
            total.retries,
            total.maintenance,
            extra={"statistics": asdict(total)},
        )


def worked(counts: Counts, databases: int) -> bool:
    """Whether a period had more than the ticks of queues without events.  Pure."""
    return counts.retries > 0 or counts.ticks > _IDLE_TICKS * databases


def discover(duty: Duty, ignored: dict[str, str] | None = None) -> list[str]:
    """The databases of the configuration, and others of their servers with schema pgq.

    ignored -- logged reasons of ignored databases, so that each is logged once.

    Raises LondisteError when a server cannot be asked.
    """
    said = {} if ignored is None else ignored
    found = dict.fromkeys(duty.databases)
    asked = [*(duty.databases if duty.discover else ()), *duty.sources]
    known = {describe_dsn(dsn) for dsn in found}
    for dsn in asked:
        with session(
            dsn, name="londiste ticker: discovery", autocommit=True, answer_seconds=20
        ) as conn:
            names = [str(name) for (name,) in tuples(conn, "other_databases")]
            # A template is looked at only if it is named.
            own = conn.info.dbname
        for name in names:
            other = conninfo.make_conninfo(dsn, dbname=name)
            if describe_dsn(other) in known or (name == own and dsn in found):
                continue
            if _has_queue(other, said):
                found[other] = None
                known.add(describe_dsn(other))
    return list(found)


def _has_queue(dsn: str, said: dict[str, str]) -> bool:
    """Whether this ticker can serve a database; the reason against it is logged once."""
    where = describe_dsn(dsn)
    try:
        with session(
            dsn, name="londiste ticker: discovery", autocommit=True, answer_seconds=20
        ) as conn:
            if not ledger.read(conn, "pgq").schema_exists:
                said.pop(where, None)
                return False
            maintenance.check(conn)
    except (LondisteError, psycopg.Error) as error:
        ours = from_database(error, where=where)
        text = describe(ours)
        if said.get(where) != text:
            log.warning("%s is ignored: %s", where, text)
            said[where] = text
        return False
    said.pop(where, None)
    return True


def try_out(duty: Duty) -> None:
    """Raises the error of the first database if not one can be served, now or after a wait.

    One that lacks the SQL stops no others: its error is in the log.  A server that does not respond
    is waited for.
    """
    first: LondisteError | None = None
    for dsn in duty.databases:
        try:
            with session(dsn, name="londiste ticker", autocommit=True, answer_seconds=20) as conn:
                maintenance.check(conn)
        except (LondisteError, psycopg.Error) as error:
            reported = from_database(error, where=describe_dsn(dsn))
            if reported.retry:
                return
            first = first or reported
        else:
            return
    if first is not None and not duty.discover and not duty.sources:
        raise first


def run_once(duty: Duty) -> Counts:
    """One round for every database; raises the first error after all rounds."""
    total, first = Counts(), None
    for dsn in discover(duty):
        try:
            total += once(dsn)
        except LondisteError as error:
            if first is not None:
                report(error)
            first = first or error
    if first is not None:
        raise first
    return total
