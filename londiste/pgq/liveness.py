"""Signs of life: daemons report themselves in the database that they work in.

A report is one HOT update of the daemon's own row, every few seconds at most:
docs/design/liveness.md.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from psycopg.pq import TransactionStatus

from londiste import __version__
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.queries import has_function, translated, tuples
from londiste.errors import InstallError, LondisteError

log = logging.getLogger(__name__)

#: Seconds between two reports of an idle daemon, and of one that has worked since the last.
PERIOD = 10.0
BUSY_PERIOD = 5.0
#: A daemon counts as hung after so many times the seconds between two reports.
MISSED = 3.0
#: Seconds until a report that was refused is tried again.
REFUSED_PERIOD = 300.0
#: Seconds between two looks for the function, where the SQL is older or not installed.
MISSING_PERIOD = 30.0
#: SQLSTATE of a write in a session, or on a server, that is read only.
READ_ONLY = "25006"
_REPORT = (
    "pgq.report_daemon(text,text,text,text,text,integer,text,"
    "double precision,double precision,double precision,double precision,double precision,"
    "boolean,text)"
)

_STARTED = time.monotonic()


@dataclass(frozen=True)
class Daemon:
    """A daemon and its last signs of life; ages in seconds by the server's clock.

    seen_age -- since its last report.  worked_age -- since its last batch or tick.
    fetch_seconds, apply_seconds -- of its last batch: from its tick until it was opened, and the
        time it took.
    stopped -- when it ended as requested.
    has_session -- whether the session of the report exists; None: unknown.
    error -- what it cannot do at present.
    session_age -- since that session began or ended a statement; None: not visible.
    is_executing -- whether the server works for it now.
    """

    kind: str
    queue: str
    name: str
    part: str
    role: str
    host: str
    pid: int
    version: str
    started: datetime
    seen: datetime
    period: float
    seen_age: float
    worked_age: float | None
    fetch_seconds: float | None
    apply_seconds: float | None
    stopped: datetime | None
    has_session: bool | None
    session_age: float | None
    is_executing: bool
    error: str | None = None


def period(longest: float = 0.0) -> float:
    """Pure: what a daemon reports as the seconds between two reports.

    longest -- seconds for which one step may keep it from reporting: a wait for another server.
    """
    return max(PERIOD, (PERIOD + longest) / MISSED)


class Beat:
    """Reports one daemon; never raises.  Where the SQL lacks the function, it looks again.

    longest -- as in ``period``.
    """

    def __init__(
        self, kind: str, queue: str, name: str, part: str = "", *, longest: float = 0.0
    ) -> None:
        self.kind = kind
        self.queue = queue
        self.name = name
        self.part = part
        self.longest = longest
        #: False: runs that end by themselves report nothing.
        self.enabled = True
        #: What it cannot do at present, for ``status``; '' if all is well.
        self.error = ""
        self._told = ""
        self._conn: Connection | None = None
        self._missing = False
        self._next = 0.0
        self._worked: float | None = None
        self._fresh = False
        self._reported = 0.0
        self._fetch: float | None = None
        self._apply: float | None = None

    def worked(self, *, apply: float | None = None) -> None:
        """A batch or tick was finished now; ``apply``: seconds that it took."""
        self._worked = time.monotonic()
        self._fresh = True
        if apply is not None:
            self._apply = apply

    @property
    def fetch_wanted(self) -> bool:
        """Whether the next report is due and would contain the time to fetch a batch."""
        return self._fresh and time.monotonic() - self._reported >= BUSY_PERIOD

    def fetched(self, seconds: float) -> None:
        """Seconds from the tick of the last batch until it was opened."""
        self._fetch = max(0.0, seconds)

    def beat(self, conn: Connection | None) -> None:
        """Reports, if it is due.  ``conn`` must be outside of a transaction."""
        now = time.monotonic()
        if conn is None or conn.closed or not self.enabled:
            return
        if conn is not self._conn:
            self._conn, self._next = conn, now
        early = self._fresh and now - self._reported >= BUSY_PERIOD and self._next < now + PERIOD
        if now >= self._next or early or (self.error != self._told and self._next < now + PERIOD):
            self._report(conn, now, stopped=False)

    def stop(self, conn: Connection | None) -> None:
        """Reports the requested end of the daemon."""
        if conn is not None and conn is self._conn and not conn.closed:
            self._report(conn, time.monotonic(), stopped=True)
        self._conn = None

    def _report(self, conn: Connection, now: float, *, stopped: bool) -> None:
        if conn.info.transaction_status is not TransactionStatus.IDLE:
            return
        idle = None if self._worked is None else now - self._worked
        try:
            if self._missing and not has_function(conn, _REPORT):
                self._next = now + MISSING_PERIOD
                return
            self._missing = False
            with translated(conn), reporting(conn):
                call.value(
                    conn,
                    "pgq.report_daemon",
                    self.kind,
                    self.queue,
                    self.name,
                    self.part,
                    socket.gethostname(),
                    os.getpid(),
                    __version__,
                    now - _STARTED,
                    period(self.longest),
                    idle,
                    self._fetch,
                    self._apply,
                    stopped,
                    self.error or None,
                )
            self._told = self.error
            self._next, self._reported, self._fresh = now + PERIOD, now, False
            self._fetch = self._apply = None
        except InstallError:
            # No SQL, or that of Londiste 3 or an older version: it may be installed meanwhile.
            self._missing, self._next = True, now + MISSING_PERIOD
        except LondisteError as error:
            log.debug("not reported that this %s lives: %s", self.kind, error.message)
            self._next = now + REFUSED_PERIOD


def read_only(conn: Connection) -> bool:
    """Whether transactions of a session are read only by default; the server reports it.

    A session keeps that default until it ends, also when it was reset for the database or the role.
    """
    return conn.pgconn.parameter_status(b"default_transaction_read_only") == b"on"


@contextlib.contextmanager
def reporting(conn: Connection) -> Iterator[None]:
    """For reports of a daemon about itself: they are written although sessions are read only.

    conn -- idle.
    """
    if not read_only(conn):
        yield
        return
    conn.read_only = False
    try:
        with conn.transaction():
            yield
    finally:
        if not conn.closed:
            conn.read_only = None


def server_now(conn: Connection) -> datetime:
    """The time of the server of a session."""
    ((now,),) = tuples(conn, "now")
    return cast(datetime, now)


def get_daemons(conn: Connection, queue: str | None = None) -> list[Daemon]:
    """The daemons of a queue, or all, with the tickers.  Raises InstallError on older schemas."""
    return call.records(conn, Daemon, "pgq.get_daemons", queue)
