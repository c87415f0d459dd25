"""Copies go slower while the servers have too much to do.

Once a second the copy process looks at the provider's sessions and at the standbys of both
servers.  While something is over its limit, the rate of all copies together is halved from look to
look; afterwards it grows again, until it is what it was.  They never stand still: a chunk that has
begun holds a snapshot and shall end.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg.rows import dict_row

from londiste.copy import progress
from londiste.copy.sqlapi.control import copy_hold
from londiste.db.connection import Connection, describe_dsn, session
from londiste.db.queries import query
from londiste.errors import LondisteError, from_database

log = logging.getLogger(__name__)

#: Seconds between looks.
_POLL_SECONDS = 1.0
#: Bytes per second below which copies are not slowed down.
FLOOR = 256 * 1024
#: How much faster they get with each look at servers that have nothing to complain of.
_GROWTH = 1.25


@dataclass(frozen=True)
class Limits:
    """From which load on the copies go slower; 0: from none.

    source_sessions -- sessions at work on the provider, besides ours.
    replica_lag -- seconds that a standby of either server is behind.
    """

    source_sessions: int = 0
    replica_lag: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.source_sessions or self.replica_lag)


@dataclass(frozen=True)
class Load:
    """What one server has to do; hidden: it does not show all of its sessions to us."""

    where: str
    sessions: int
    lag: float
    hidden: bool = False


@dataclass(frozen=True)
class LoadLimit:
    """The copies are held back to ``rate`` bytes per second; before, they had ``full``."""

    rate: int
    full: int
    reason: str


def complaint(limits: Limits, source: Load, target: Load) -> str:
    """Which load is over its limit; '' when none is."""
    if limits.source_sessions and source.sessions > limits.source_sessions:
        return (
            f"{source.sessions} sessions work on {source.where},"
            f" copy_max_source_sessions is {limits.source_sessions}"
        )
    for one in (source, target):
        if limits.replica_lag and one.lag > limits.replica_lag:
            return (
                f"a standby of {one.where} is {one.lag:.1f} s behind,"
                f" copy_max_replica_lag is {limits.replica_lag:g}"
            )
    return ""


def decide(held: LoadLimit | None, rate: float, wrong: str) -> LoadLimit | None:
    """How far the copies are held back from now on.

    rate -- bytes per second that they really move now.
    wrong -- what ``complaint`` says.
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
    """Looks at the load while copies run, and stores how far they are held back.

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
        """Begins, if there is a limit."""
        if self._limits:
            self._thread.start()

    def stop(self) -> None:
        """Ends, and holds nobody back any more."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join(2)

    def _run(self) -> None:
        while not self._end.is_set():
            # Servers that do not answer are a matter of the copies themselves.
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
            log.info("the copies are no longer held back")
        elif held is None:
            log.warning("the copies go slower: %s", now.reason)

    def _moved(self, here: Connection) -> int:
        return sum(item.bytes for item in progress.read(here, self._queue))

    def _warn(self, source: Load) -> None:
        if source.hidden and not self._warned:
            self._warned = True
            log.warning(
                "%s does not show all of its sessions to us: grant pg_monitor to the role of the"
                " copies, or the load is not seen",
                source.where,
            )


def load(conn: Connection, where: str) -> Load:
    """What a server has to do now."""
    try:
        with conn.cursor(row_factory=dict_row) as cursor:
            row = cursor.execute(query("server_load")).fetchone()
    except psycopg.Error as error:
        raise from_database(error, where=where) from error
    assert row is not None
    return Load(where, row["sessions"], row["lag"], row["hidden"])
