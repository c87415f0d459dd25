"""What both threads of a database's ticker have in common: a session, and rounds of work on it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from londiste.daemon import logcontext
from londiste.daemon.loop import Loop
from londiste.daemon.service_manager import watched
from londiste.daemon.signals import Signals
from londiste.db.connection import Connection, connect, describe_dsn, usable
from londiste.db.server_text import named
from londiste.errors import LondisteError
from londiste.ticker import maintenance

log = logging.getLogger(__name__)


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


class Round:
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
