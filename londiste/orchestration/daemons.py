"""Daemons that a command runs as its children: ticker and workers.

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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psycopg

from londiste.daemon.child import Child
from londiste.daemon.waiting import wait_until
from londiste.db.advisory_lock import job_holder
from londiste.db.connection import Connection
from londiste.db.queries import first
from londiste.errors import LondisteError, TransientError, from_database
from londiste.orchestration.connections import side_by_side

log = logging.getLogger(__name__)

TICKER = "ticker"
#: Exit code of a daemon whose process could not be created, as shells have it.
EXIT_NOT_STARTED = 126
#: Seconds between checks of the daemons.
PERIOD = 1.0
#: Seconds in which daemons have to be at work, where one of them has ended; and where all live:
#: several programs begin at once, and a machine may be busy.
_START_SECONDS, _BUSY_SECONDS = 30.0, 300.0
#: Seconds for the end of a command that stays: its children have five each before they are killed.
STOP_SECONDS = 20.0
#: Seconds in which workers notice that their nodes are dropped.
_QUIET_SECONDS = 30.0


@dataclass(frozen=True)
class Need:
    """A daemon that has to run: name, command, and settings as environment."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str] = field(repr=False)


@dataclass(frozen=True)
class Question:
    """Whether a daemon runs, as one of its databases knows it."""

    daemon: str
    dsn: str = field(repr=False)
    runs: Callable[[Connection], bool]


@dataclass(frozen=True)
class Found:
    """What the databases know about the daemons.

    running -- started by any process.  unknown -- their database does not answer: the error.
    """

    running: Collection[str] = frozenset()
    unknown: Mapping[str, LondisteError] = field(default_factory=dict)

    def certain(self) -> set[str]:
        """The daemons that run.  Raises the error of a database that does not answer."""
        for error in self.unknown.values():
            raise error
        return set(self.running)


def ask(questions: Iterable[Question], at: Callable[[str], Connection]) -> Found:
    """Asks each database on its own: one that does not answer conceals nothing about others.

    at -- the connection for a connection string; used by a thread for each string.
    """
    of_database: dict[str, list[Question]] = {}
    for one in questions:
        of_database.setdefault(one.dsn, []).append(one)
    answers: dict[str, list[bool | LondisteError]] = {}
    for given in side_by_side(partial(_answers, at=at), list(of_database.values())):
        for daemon, answer in given:
            answers.setdefault(daemon, []).append(answer)
    return concluded(answers)


def _answers(
    questions: Iterable[Question], at: Callable[[str], Connection]
) -> list[tuple[str, bool | LondisteError]]:
    """The answers of one database, each with its daemon; after an error it is not asked again."""
    silent: LondisteError | None = None
    found: list[tuple[str, bool | LondisteError]] = []
    for one in questions:
        try:
            found.append((one.daemon, silent or one.runs(at(one.dsn))))
        except (LondisteError, psycopg.Error) as error:
            silent = from_database(error)
            found.append((one.daemon, silent))
    return found


def concluded(answers: Mapping[str, Sequence[bool | LondisteError]]) -> Found:
    """Pure: a daemon runs if all of its databases say so; one that denies it is enough."""
    running, unknown = set(), {}
    for daemon, given in answers.items():
        errors = [one for one in given if isinstance(one, LondisteError)]
        if False in given:
            continue
        if errors:
            unknown[daemon] = errors[0]
        else:
            running.add(daemon)
    return Found(running, unknown)


def need(
    name: str,
    command: str,
    settings: Mapping[str, Any],
    known: Collection[str],
    *,
    verbose: Sequence[str] = ("-q",),
) -> Need:
    """A daemon with these settings instead of all other ones.

    Connection strings are in the environment, not in arguments, which every user can list.

    command -- ``ticker`` or ``worker``.  known -- the keys that the environment may hold.
    """
    spark = [f"--set={key}={value}" for key, value in (settings.get("spark") or {}).items()]
    argv = (sys.executable, "-m", "londiste", *verbose, *spark, command)
    return Need(name, argv, _environment(settings, known))


def ticker_runs(conn: Connection) -> bool:
    """Whether a ticker has a session in the database."""
    row = first(conn, "ticker_sessions")
    return row is not None and int(row[0]) > 0


def worker_runs(conn: Connection, queue: str) -> bool:
    """Whether the worker of this database's node runs, started by any process.

    A session whose role could not run it is no worker, although it can take the worker's lock.
    """
    holder = job_holder(conn, f"worker {queue}")
    return holder is not None and holder.entitled


def worker_blocked(conn: Connection, queue: str) -> str:
    """Which session of another role keeps the worker of this node from running; '' if none."""
    holder = job_holder(conn, f"worker {queue}")
    if holder is None or holder.entitled:
        return ""
    return (
        f"its lock is held by {holder.text}, not a member of pgq_admin, not the SQL's owner;"
        f" end that session: select pg_terminate_backend({holder.pid})"
    )


class Daemons:
    """The children of one command; ``look`` starts those that are missing.

    asked -- returns which daemons run, started by any process.
    hint -- for the error when one does not start.
    """

    def __init__(self, needs: Sequence[Need], asked: Callable[[], Found], *, hint: str) -> None:
        self._needs = needs
        self._asked = asked
        self._hint = hint
        self._children: dict[str, Child] = {}
        self._next_start: dict[str, float] = {}
        self._ended: dict[str, int] = {}
        self._unknown: dict[str, str] = {}

    def look(self) -> Found:
        """Starts the daemons that do not run; returns those that ran already.

        A daemon whose database does not answer is not started until it does: it may run.
        """
        for name, child in list(self._children.items()):
            code = child.exit_code()
            if code is not None:
                log.warning("%s ended with exit code %s", name, code)
                self._ended[name] = code
                del self._children[name]
                self._next_start[name] = time.monotonic() + 2 * PERIOD
        found = self._asked()
        for need in self._needs:
            late = time.monotonic() >= self._next_start.get(need.name, 0.0)
            there = {*self._children, *found.running, *found.unknown}
            if need.name not in there and late:
                try:
                    self._children[need.name] = Child.start(need.argv, env=need.environment)
                except OSError as error:
                    log.warning("%s cannot start: %s", need.name, error.strerror or error)
                    self._ended[need.name] = EXIT_NOT_STARTED
                    self._next_start[need.name] = time.monotonic() + 2 * PERIOD
        self._report(found)
        return found

    def _report(self, found: Found) -> None:
        """Logs which daemons are not monitored, when it changes."""
        now = {
            need.name: str(found.unknown[need.name])
            for need in self._needs
            if need.name in found.unknown
        }
        for text in dict.fromkeys(now.values()):
            names = [name for name, other in now.items() if other == text]
            if any(self._unknown.get(name) != text for name in names):
                log.warning("%s: not monitored: %s", ", ".join(names), text)
        again = [name for name in self._unknown if name not in now]
        if again:
            log.info("%s: monitored again", ", ".join(again))
        self._unknown = now

    def wait(self) -> None:
        """Waits until all run.

        Raises TransientError when one does not start, and the error of a database that does not
        answer.
        """
        began = time.monotonic()
        wanted = {need.name for need in self._needs}
        while True:
            missing = wanted - self.look().certain()
            if not missing:
                return
            limit = _START_SECONDS if missing & set(self._ended) else _BUSY_SECONDS
            if time.monotonic() - began >= limit:
                ended = [f"{n} ended with exit code {c}" for n, c in sorted(self._ended.items())]
                raise TransientError(
                    f"{', '.join(sorted(missing))} did not start within {limit:g} s",
                    detail="; ".join(ended),
                    hint=self._hint,
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


def still_running(asked: Callable[[], Found]) -> set[str]:
    """The workers that have not ended half a minute after their nodes were dropped.

    asked -- as for ``Daemons``.  Raises the error of a database that does not answer.
    """

    left = set[str]()

    def quiet() -> bool:
        left.clear()
        left.update(asked().certain() - {TICKER})
        return not left

    wait_until(quiet, _QUIET_SECONDS)
    return left


@contextlib.contextmanager
def kept(daemons: Daemons) -> Iterator[Daemons]:
    """For a command that monitors the daemons itself; its children end with the block."""
    try:
        yield daemons
    finally:
        daemons.close()


def _environment(settings: Mapping[str, Any], known: Collection[str]) -> dict[str, str]:
    others = {f"LONDISTE_{key.upper()}" for key in known}
    found = {key: value for key, value in os.environ.items() if key not in others}
    # A file of the directory is about other nodes.
    found["LONDISTE_CONFIG"] = ""
    for key, value in settings.items():
        if value is None or key == "spark":
            continue
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        found[f"LONDISTE_{key.upper()}"] = text
    return found
