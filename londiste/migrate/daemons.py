"""Daemons of a migration: the ticker and two workers, as children of the command.

A daemon that runs already is kept: the worker of a node holds a lock in its database, the ticker
is found among the sessions.  Daemons that end are restarted.  The children end with this process;
the next command starts them again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from londiste.daemon.child import Child
from londiste.db.connection import Connection, session
from londiste.db.queries import query
from londiste.errors import LondisteError, TransientError
from londiste.migrate.databases import MigrateSettings, Pair
from londiste.settings import TickerSettings

log = logging.getLogger(__name__)

TICKER = "ticker"
#: Seconds between checks of the daemons.
PERIOD = 1.0
#: Seconds in which daemons have to be at work, where one of them has ended; and where all live:
#: three programs begin at once, and a machine may be busy.
_START_SECONDS, _BUSY_SECONDS = 30.0, 300.0
#: Seconds for the end of a command that stays: its children have five each before they are killed.
STOP_SECONDS = 20.0


@dataclass(frozen=True)
class Need:
    """A daemon of the migration: name, command, and settings as environment."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str] = field(repr=False)


def needs(pair: Pair, *, verbose: Sequence[str] = ("-q",)) -> list[Need]:
    """The daemons of a migration.  Connection strings are in the environment, not in arguments."""
    program = (sys.executable, "-m", "londiste", *verbose)
    databases = "\n".join((pair.old.dsn, pair.new.dsn))
    found = [Need(TICKER, (*program, "ticker"), _environment({"databases": databases}))]
    for side in (pair.old, pair.new):
        settings = pair.worker_settings(side)
        values = {key: getattr(settings, key) for key in settings.model_fields_set}
        spark = [f"--set={key}={value}" for key, value in settings.spark.items()]
        found.append(Need(side.worker, (*program, *spark, "worker"), _environment(values)))
    return found


def running(pair: Pair, conn: dict[str, Connection]) -> set[str]:
    """The daemons that run, started by any process; ``conn`` by the names of the nodes."""
    found = set()
    if all(_ticks(conn[side.name]) for side in (pair.old, pair.new)):
        found.add(TICKER)
    found |= {s.worker for s in (pair.old, pair.new) if _works(conn[s.name], pair.queue)}
    return found


class Daemons:
    """The children of one command; ``look`` starts those that are missing."""

    def __init__(self, pair: Pair, *, verbose: Sequence[str] = ("-q",)) -> None:
        self._pair = pair
        self._needs = needs(pair, verbose=verbose)
        self._children: dict[str, Child] = {}
        self._next_start: dict[str, float] = {}
        self._ended: dict[str, int] = {}

    def look(self) -> set[str]:
        """Starts the daemons that do not run; returns those that ran already."""
        with contextlib.ExitStack() as stack:
            conn = {
                side.name: stack.enter_context(
                    session(
                        side.dsn,
                        name="londiste migrate",
                        autocommit=True,
                        answer_seconds=self._pair.answer_seconds,
                    )
                )
                for side in (self._pair.old, self._pair.new)
            }
            found = running(self._pair, conn)
        for need in self._needs:
            child = self._children.get(need.name)
            code = None if child is None else child.exit_code()
            if code is not None:
                log.warning("%s ended with exit code %s", need.name, code)
                self._ended[need.name] = code
                del self._children[need.name]
                self._next_start[need.name] = time.monotonic() + 2 * PERIOD
                child = None
            late = time.monotonic() >= self._next_start.get(need.name, 0.0)
            if child is None and need.name not in found and late:
                self._children[need.name] = Child.start(need.argv, env=need.environment)
        return found

    def wait(self) -> None:
        """Waits until all run.  Raises TransientError when one does not start."""
        began = time.monotonic()
        wanted = {need.name for need in self._needs}
        while True:
            missing = wanted - self.look()
            if not missing:
                return
            limit = _START_SECONDS if missing & set(self._ended) else _BUSY_SECONDS
            if time.monotonic() - began >= limit:
                ended = [f"{n} ended with exit code {c}" for n, c in sorted(self._ended.items())]
                raise TransientError(
                    f"{', '.join(sorted(missing))} did not start within {limit:g} s",
                    detail="; ".join(ended),
                    hint="check its log, here or where londiste migrate start runs;"
                    " then repeat the command",
                )
            time.sleep(0.1)

    @property
    def own(self) -> list[str]:
        """The daemons that are children of this process."""
        return list(self._children)

    def close(self) -> None:
        """Ends all children in parallel."""
        for child in self._children.values():
            child.signal(signal.SIGTERM)
        for child in self._children.values():
            child.terminate()
        self._children.clear()


@contextlib.contextmanager
def at_work(pair: Pair, *, verbose: Sequence[str] = ("-q",)) -> Iterator[Daemons]:
    """Ticker and workers run in the with block: running ones, and children of this process."""
    daemons = Daemons(pair, verbose=verbose)
    try:
        daemons.wait()
        yield daemons
    finally:
        daemons.close()


@contextlib.contextmanager
def kept(pair: Pair, *, verbose: Sequence[str] = ("-q",)) -> Iterator[Daemons]:
    """For a command that monitors the daemons itself; its children end with the block."""
    daemons = Daemons(pair, verbose=verbose)
    try:
        yield daemons
    finally:
        daemons.close()


def watch(daemons: Daemons) -> None:
    """Checks the daemons once; retries later if a database does not answer."""
    try:
        daemons.look()
    except (LondisteError, psycopg.Error) as error:
        log.warning("the daemons are not monitored: %s", error)


def _ticks(conn: Connection) -> bool:
    row = conn.execute(query("ticker_sessions").encode()).fetchone()
    return row is not None and int(row[0]) > 0


def _works(conn: Connection, queue: str) -> bool:
    row = conn.execute(query("job_lock_holder"), [f"worker {queue}"]).fetchone()
    return row is not None


def _environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """The environment with these settings instead of all other ones."""
    keys = set(MigrateSettings.model_fields) | set(TickerSettings.model_fields)
    others = {f"LONDISTE_{key.upper()}" for key in keys}
    found = {key: value for key, value in os.environ.items() if key not in others}
    # A file of the directory is about other nodes.
    found["LONDISTE_CONFIG"] = ""
    for key, value in settings.items():
        if value is None or key == "spark":
            continue
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        found[f"LONDISTE_{key.upper()}"] = text
    return found


__all__ = ["STOP_SECONDS", "Daemons", "at_work", "kept", "needs", "running", "watch"]
