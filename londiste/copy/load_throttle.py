"""Load throttle: copies give way to the writers of the provider, and to overloaded servers.

Once a second the copy process checks how long a commit takes on the provider, its sessions, and
the standbys of both servers.  While a value is over its limit, the rate of all copies together is
halved; afterwards it grows again to what it was.  Copies never stop: a chunk that has started
holds a snapshot and must end.

The limit of commits follows from what they take without the copies.  That is measured when the
copy process starts, and again whenever the copies are as slow as writers can make them: what
commits take then is not the copies' doing.  So a wrong measure lasts for some checks only.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import psycopg

from londiste.copy import progress
from londiste.copy.sqlapi.control import copy_hold, get_copy_control
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.queries import query, records
from londiste.error_values import server_text
from londiste.errors import LondisteError

log = logging.getLogger(__name__)

#: application_name of the sessions that look.
_NAME = "londiste copy load"

#: Seconds of silence of the provider after which a new session is opened.
_ANSWER_SECONDS = 30.0

#: Seconds between checks.
_POLL_SECONDS = 1.0
#: Bytes per second below which copies are not slowed down.
FLOOR = 256 * 1024
#: Growth of the rate with each check that finds the load below its limits.
_GROWTH = 1.25

#: Transactions per second above which a provider has writers; ticks and batches are below.
WRITERS = 50
#: Commits that take this many times the usual seconds, and some more, make copies give way.
_MUCH, _MORE = 1.5, 0.0005
#: Checks with such commits after which the rate is halved: one may be noise, or not yet show what
#: the last change of the rate has brought.
_CHECKS = 2
#: Writers slow copies down to this share of their rate, at which copies disturb nobody.
_LEAST = 1 / 16
#: Seconds between two commits that are measured, and the same before the first chunk.
_SPACING, _FIRST_SPACING = 0.1, 0.01
#: Commits that are measured before the first chunk: no chunk waits for them.
_FIRST = 7


@dataclass(frozen=True)
class Limits:
    """Loads above which copies are slowed down; 0: no limit.

    source_sessions -- active sessions on the provider, Londiste's excluded.
    replica_lag -- seconds by which a standby of either server lags behind.
    full_speed -- copies do not give way to writers.
    """

    source_sessions: int = 0
    replica_lag: float = 0.0
    full_speed: bool = False

    @property
    def loads(self) -> bool:
        """Whether sessions or standbys have a limit."""
        return bool(self.source_sessions or self.replica_lag)


@dataclass(frozen=True)
class Load:
    """Load of one server; hidden: not all of its sessions are visible to this role."""

    where: str
    sessions: int
    lag: float
    hidden: bool = False


@dataclass(frozen=True)
class LoadLimit:
    """Copies are throttled to ``rate`` bytes per second, from ``full``.

    writers -- they give way to writers; else a load is over its limit.
    """

    rate: int
    full: int
    reason: str
    writers: bool = False

    @property
    def least(self) -> int:
        """Bytes per second below which copies do not give way to writers."""
        return max(FLOOR, int(self.full * _LEAST))


@dataclass(frozen=True)
class Commits:
    """Commits of the provider during one check.

    seconds -- median of those that were measured.
    others -- transactions per second, without those of the measurement.
    """

    seconds: float
    others: float


@dataclass(frozen=True)
class CommitHistory:
    """What earlier checks have found.

    usual -- seconds of a commit without copies.
    above -- successive checks in which commits took much longer, while others wrote.
    """

    usual: float
    above: int = 0

    def slow(self, now: Commits) -> bool:
        """Whether the writers of others wait for the copies."""
        return now.others > WRITERS and now.seconds > self.usual * _MUCH + _MORE

    def after(self, now: Commits, *, calm: bool) -> CommitHistory:
        """The history with one more check.

        calm -- copies move little or nothing, so commits are what they are without them.
        """
        usual = self.usual
        if calm:
            usual += (now.seconds - usual) / 2
        elif now.seconds < usual:
            # Copies make no commit faster.  Noise counts for little.
            usual += (now.seconds - usual) / 32
        return CommitHistory(usual, self.above + 1 if self.slow(now) else 0)


def complaint(limits: Limits, source: Load, target: Load) -> str:
    """The load that is over its limit; '' when none is."""
    if limits.source_sessions and source.sessions > limits.source_sessions:
        return (
            f"{source.where}: {source.sessions} active sessions, above copy_max_source_sessions"
            f" ({limits.source_sessions})"
        )
    for one in (source, target):
        if limits.replica_lag and one.lag > limits.replica_lag:
            return (
                f"{one.where}: standby lag is {one.lag:.1f} s, above copy_max_replica_lag"
                f" ({limits.replica_lag:g})"
            )
    return ""


def decide(held: LoadLimit | None, rate: float, wrong: str) -> LoadLimit | None:
    """The throttle from now on.

    rate -- bytes per second that copies move now.
    wrong -- result of ``complaint``.
    """
    if wrong:
        full = max(FLOOR, held.full if held else int(rate))
        now = min(rate, held.rate) if held and rate else (held.rate if held else rate)
        return LoadLimit(max(FLOOR, int(now / 2)), full, wrong)
    if held is None:
        return None
    faster = int(held.rate * _GROWTH)
    return None if faster >= held.full else replace(held, rate=faster)


def calm(held: LoadLimit | None, rate: float | None) -> bool:
    """Whether commits take as long as without copies.

    rate -- bytes per second that copies move now; None: unknown.
    """
    return rate == 0 or (held is not None and held.rate <= held.least)


def give_way(
    held: LoadLimit | None, rate: float | None, history: CommitHistory, now: Commits, where: str
) -> LoadLimit | None:
    """The throttle from now on, where no load is over its limit.

    rate -- as in ``calm``.
    history -- with the check ``now``.
    where -- the provider.
    """
    if now.others <= WRITERS and (held is None or held.writers):
        return None
    if not history.above:
        return decide(held, rate or 0.0, "")
    if history.above % _CHECKS or not (held or rate):
        return held
    slower = decide(
        held,
        rate or 0.0,
        f"writers of {where} wait {now.seconds * 1e3:.1f} ms for a commit,"
        f" {history.usual * 1e3:.1f} ms before; to copy at full speed:"
        " londiste copy throttle --full-speed",
    )
    assert slower is not None
    return replace(slower, rate=max(slower.rate, slower.least), writers=True)


class CommitProbe:
    """Commits small transactions on the provider, and measures how long that takes.

    conn -- autocommit, and synchronous as the commits of applications are.
    end -- set when the measurement is to end.
    """

    def __init__(self, conn: Connection, end: threading.Event) -> None:
        self._conn = conn
        self._end = end
        self._statements = query("commit_seconds")
        self._rates: deque[float] = deque(maxlen=3)
        self._last: tuple[float, int] | None = None

    @property
    def lost(self) -> bool:
        """Whether the session has ended."""
        return self._conn.closed

    def check(self, count: int, spacing: float) -> Commits:
        """Measures so many commits, so many seconds apart.

        Raises errors of the driver; the session is usable afterwards unless it is lost.
        """
        took = []
        for _ in range(count):
            started, ended, next_id = self._commit()
            took.append(ended - started)
            if self._end.wait(spacing):
                break
        if self._last is not None and ended > self._last[0]:
            others = next_id - self._last[1] - len(took)
            self._rates.append(max(0, others) / (ended - self._last[0]))
        self._last = ended, next_id
        # Writers that wait for a disk which stands still are writers.
        return Commits(statistics.median(took), max(self._rates, default=0.0))

    def _commit(self) -> tuple[float, float, int]:
        """Start and end by the server's clock, and the next transaction id."""
        try:
            cursor = self._conn.execute(self._statements.encode(), prepare=False)
        except psycopg.Error:
            if not self._conn.closed:
                self._conn.rollback()
            raise
        cursor.nextset()
        started, _ = cursor.fetchone() or (0.0, None)
        cursor.nextset()
        cursor.nextset()
        ended, next_id = cursor.fetchone() or (0.0, 0)
        return started, ended, next_id


class _Moved:
    """Bytes per second that the copies of a node move."""

    def __init__(self, here: Connection, queue: str) -> None:
        self._here = here
        self._queue = queue
        self._last: tuple[float, int] | None = None

    def rate(self, *, wanted: bool = True) -> float | None:
        """The rate since the last call; None when it is unknown.

        wanted -- False: the rate is of no interest now, which saves a query.
        """
        if not wanted:
            self._last = None
            return None
        now = time.monotonic(), sum(item.bytes for item in progress.read(self._here, self._queue))
        last, self._last = self._last, now
        return None if last is None else max(0, now[1] - last[1]) / (now[0] - last[0])


class LoadWatch:
    """Checks the load while copies run, and stores the throttle.

    db -- this node; locate -- where its provider is now.
    """

    def __init__(self, db: str, queue: str, locate: Callable[[], str], limits: Limits) -> None:
        self._db = db
        self._queue = queue
        self._locate = locate
        self._limits = limits
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)
        self._warned = False
        self._measures = not limits.full_speed
        self._announced = False

    def start(self, here: Connection) -> None:
        """Removes what a killed process has left, and starts if there is anything to check."""
        copy_hold(here, self._queue, None, None)
        if self._limits.loads or self._measures:
            self._thread.start()

    def stop(self) -> None:
        """Stops, and removes the throttle."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._end.is_set() and (self._limits.loads or self._measures):
            # Unreachable servers are reported by the copies themselves.
            with contextlib.suppress(LondisteError, psycopg.Error):
                self._watch()
            self._end.wait(_POLL_SECONDS)

    def _watch(self) -> None:
        location = self._locate()
        where = describe_dsn(location)
        with session(
            location,
            name=_NAME,
            autocommit=True,
            synchronous=True,
            silent_seconds=_ANSWER_SECONDS,
        ) as there:
            probe = CommitProbe(there, self._end)
            first = self._commits(probe, where, _FIRST, _FIRST_SPACING)
            history = CommitHistory(first.seconds) if first is not None else None
            with session(
                self._db, name=_NAME, autocommit=True, answer_seconds=_ANSWER_SECONDS
            ) as here:
                try:
                    self._check(there, here, where, probe, history)
                finally:
                    with contextlib.suppress(LondisteError, psycopg.Error):
                        copy_hold(here, self._queue, None, None)

    def _check(
        self,
        there: Connection,
        here: Connection,
        where: str,
        probe: CommitProbe,
        history: CommitHistory | None,
    ) -> None:
        held: LoadLimit | None = None
        moved = _Moved(here, self._queue)
        if self._limits.loads:
            moved.rate()
        while True:
            commits = self._commits(probe, where, round(_POLL_SECONDS / _SPACING), _SPACING)
            if self._end.is_set() or (commits is None and not self._limits.loads):
                return
            if commits is None and self._end.wait(_POLL_SECONDS):
                return
            slow = commits is not None and history is not None and history.slow(commits)
            rate = moved.rate(wanted=bool(slow or held or self._limits.loads))
            wrong = self._complaint(there, here, where)
            if wrong or commits is None or history is None:
                following = decide(held, rate or 0.0, wrong)
            else:
                history = history.after(commits, calm=calm(held, rate))
                following = give_way(held, rate, history, commits, where)
            # Asked for only when it matters.
            if following and following.writers and get_copy_control(here, self._queue).full_speed:
                following = None
            if following != held:
                self._store(here, held, following)
            held = following

    def _commits(
        self, probe: CommitProbe, where: str, count: int, spacing: float
    ) -> Commits | None:
        """One check of the commits; None where they cannot be measured."""
        if not self._measures:
            return None
        try:
            return probe.check(count, spacing)
        except psycopg.Error as error:
            if probe.lost:
                raise
            # A standby, or a role that may only read.
            self._measures = False
            log.info(
                "%s: copies do not give way to writers, a commit cannot be measured: %s",
                where,
                server_text(error),
            )
            return None

    def _complaint(self, there: Connection, here: Connection, where: str) -> str:
        if not self._limits.loads:
            return ""
        source, target = load(there, where), load(here, describe_dsn(self._db))
        self._warn(source)
        return complaint(self._limits, source, target)

    def _store(self, here: Connection, held: LoadLimit | None, now: LoadLimit | None) -> None:
        copy_hold(here, self._queue, now.rate if now else None, now.reason if now else None)
        if now is None:
            level = logging.DEBUG if held and held.writers else logging.INFO
            log.log(level, "copies: load is below its limits, full speed")
        elif now.writers:
            # Writers come and go: one line in the log is enough.
            if not self._announced:
                self._announced = True
                log.info("copies: throttled: %s", now.reason)
        elif held is None or held.writers:
            log.warning("copies: throttled: %s", now.reason)

    def _warn(self, source: Load) -> None:
        if source.hidden and not self._warned:
            self._warned = True
            log.warning(
                "%s: not all sessions are visible to the role of the copies, load is not"
                " measured; grant pg_monitor to it",
                source.where,
            )


def load(conn: Connection, where: str) -> Load:
    """The current load of a server."""
    return records(conn, functools.partial(Load, where), "server_load")[0]
