"""Commands as lists of steps: explain them, run them, run them again after an interruption.

A step is one transaction on one node, so whether it is done is a yes/no question to that node.
``execute`` runs what is not done yet; a command that was interrupted anywhere is finished by
giving it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import psycopg
from psycopg import conninfo

from londiste.db.connection import Connection, connect, masked, place
from londiste.errors import BadOption, from_database


class Sites:
    """Connections to the databases that a plan works on, opened when they are first needed.

    lock_timeout -- seconds that a statement may wait for a lock.
    extra -- connection parameters that are added to the location of every other node.
    """

    def __init__(self, *, name: str, lock_timeout: float = 10.0, extra: str = "") -> None:
        self.lock_timeout = lock_timeout
        self._name = name
        self._extra = extra
        self._open: dict[str, Connection] = {}

    def at(self, dsn: str) -> Connection:
        """The connection for a connection string; in autocommit."""
        conn = self._open.get(dsn)
        if conn is None or conn.closed:
            conn = connect(
                dsn,
                name=self._name,
                autocommit=True,
                lock_timeout_ms=max(1, round(self.lock_timeout * 1000)),
                synchronous=True,
            )
            self._open[dsn] = conn
        return conn

    def reach(self, location: str) -> str:
        """The connection string for a stored location: with the extra parameters."""
        return reach(location, self._extra)

    @contextlib.contextmanager
    def transaction(self, dsn: str) -> Iterator[Connection]:
        """One transaction on one node; errors of the commit are ours too."""
        conn = self.at(dsn)
        try:
            with conn.transaction():
                yield conn
        except psycopg.Error as error:
            raise from_database(error, where=place(dsn)) from error

    def close(self) -> None:
        """Closes what was opened."""
        for conn in self._open.values():
            conn.close()
        self._open.clear()

    def __enter__(self) -> Sites:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Step(Protocol):
    """One transaction on one node."""

    def describe(self) -> str:
        """One line for people: ``node: what happens``."""
        ...

    def done(self, sites: Sites) -> bool:
        """Whether its effect is there already."""
        ...

    def run(self, sites: Sites) -> None:
        """Brings the effect about."""
        ...


def remaining(steps: Sequence[Step], sites: Sites) -> list[Step]:
    """The steps that are not done, for ``--explain``; changes nothing."""
    return [step for step in steps if not step.done(sites)]


def execute(
    steps: Sequence[Step], sites: Sites, report: Callable[[Step], None] = lambda step: None
) -> int:
    """Runs the steps that are not done, in their order; the number of them.

    ``report`` is called after each.  An error leaves the steps before it done.
    """
    count = 0
    for step in steps:
        if not step.done(sites):
            step.run(sites)
            report(step)
            count += 1
    return count


def reach(location: str, extra: str) -> str:
    """A stored location with ``remote_extra_connstr`` added.  Raises BadOption."""
    if not extra:
        return location
    try:
        return conninfo.make_conninfo(location, **conninfo.conninfo_to_dict(extra))
    except psycopg.Error as error:
        raise BadOption(
            f"not a connection string: {masked(location)} with {masked(extra)}",
            hint="remote_extra_connstr takes libpq parameters: user=… sslmode=…",
        ) from error
