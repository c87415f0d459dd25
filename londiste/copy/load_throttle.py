"""Load throttle: slows copies down while the provider or a standby is overloaded.

Once a second the copy process checks the provider's sessions and the standbys of both servers.
While a value is over its limit, each check halves the rate of all copies together; afterwards the
rate grows again to what it was.  Copies never stop: a chunk that has started holds a snapshot and
must end.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg

from londiste.copy import progress
from londiste.copy.sqlapi.control import copy_hold
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.queries import records
from londiste.errors import LondisteError

log = logging.getLogger(__name__)

#: Seconds between checks.
_POLL_SECONDS = 1.0
#: Bytes per second below which copies are not slowed down.
FLOOR = 256 * 1024
#: Growth of the rate with each check that finds the load below its limits.
_GROWTH = 1.25


@dataclass(frozen=True)
class Limits:
    """Loads above which copies are slowed down; 0: no limit.

    source_sessions -- active sessions on the provider, Londiste's excluded.
    replica_lag -- seconds by which a standby of either server lags behind.
    """

    source_sessions: int = 0
    replica_lag: float = 0.0

    def __bool__(self) -> bool:
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
    """Copies are throttled to ``rate`` bytes per second, from ``full``."""

    rate: int
    full: int
    reason: str


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
    return None if faster >= held.full else LoadLimit(faster, held.full, held.reason)


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

    def start(self) -> None:
        """Starts, if there is a limit."""
        if self._limits:
            self._thread.start()

    def stop(self) -> None:
        """Stops, and removes the throttle."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._end.is_set():
            # Unreachable servers are reported by the copies themselves.
            with contextlib.suppress(LondisteError, psycopg.Error):
                self._watch()
            self._end.wait(_POLL_SECONDS)

    def _watch(self) -> None:
        location = self._locate()
        name = "londiste copy load"
        with (
            session(self._db, name=name, autocommit=True) as here,
            session(location, name=name, autocommit=True) as there,
        ):
            # What another process has left when it was killed.
            copy_hold(here, self._queue, None, None)
            held: LoadLimit | None = None
            before, at = self._moved(here), time.monotonic()
            try:
                while not self._end.wait(_POLL_SECONDS):
                    moved, now = self._moved(here), time.monotonic()
                    rate = max(0, moved - before) / (now - at)
                    before, at = moved, now
                    source, target = (
                        load(there, describe_dsn(location)),
                        load(here, describe_dsn(self._db)),
                    )
                    self._warn(source)
                    following = decide(held, rate, complaint(self._limits, source, target))
                    if following != held:
                        self._store(here, held, following)
                    held = following
            finally:
                with contextlib.suppress(LondisteError, psycopg.Error):
                    copy_hold(here, self._queue, None, None)

    def _store(self, here: Connection, held: LoadLimit | None, now: LoadLimit | None) -> None:
        copy_hold(here, self._queue, now.rate if now else None, now.reason if now else None)
        if now is None:
            log.info("copies: load is below its limits, full speed")
        elif held is None:
            log.warning("copies: throttled: %s", now.reason)

    def _moved(self, here: Connection) -> int:
        return sum(item.bytes for item in progress.read(here, self._queue))

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
