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

from londiste.daemon import crash
from londiste.db.alone import become_the_one
from londiste.db.connection import Connection, connect, masked, place
from londiste.errors import BadOption, NodeBusy, from_database


class Sites:
    """Connections to the databases that a plan works on, opened when they are first needed.

    lock_timeout -- seconds that a statement may wait for a lock.
    extra -- connection parameters that are added to the location of every other node.
    answer_seconds -- a server that does not answer for so long is taken for unreachable.
    """

    def __init__(
        self,
        *,
        name: str,
        lock_timeout: float = 10.0,
        extra: str = "",
        answer_seconds: float | None = None,
    ) -> None:
        self.lock_timeout = lock_timeout
        self._name = name
        self._extra = extra
        self._answer_seconds = answer_seconds
        self._open: dict[str, Connection] = {}
        self._alone: dict[str, tuple[str, str]] = {}
        self._broken: set[str] = set()

    def at(self, dsn: str) -> Connection:
        """The connection for a connection string; in autocommit."""
        conn = self._open.get(dsn)
        if conn is None or conn.closed:
            if conn is not None:
                self._broken.add(dsn)
            conn = connect(
                dsn,
                name=self._name,
                autocommit=True,
                lock_timeout_ms=max(1, round(self.lock_timeout * 1000)),
                synchronous=True,
                answer_seconds=self._answer_seconds,
            )
            self._open[dsn] = conn
            if dsn in self._alone:
                self._be_alone(conn, *self._alone[dsn])
        return conn

    def alone(self, dsn: str, node: str, queue: str) -> None:
        """No other command changes the cascade at this node as long as this one has its session.

        Raises NodeBusy when one does already, TransientError when the node does not answer.  What
        must not happen twice does not rely on it: the session may end before the command does.
        """
        conn = self.at(dsn)
        if dsn not in self._alone:
            self._be_alone(conn, node, queue)
            self._alone[dsn] = node, queue

    def still_alone(self, dsn: str) -> bool:
        """Whether no other command can have changed anything there since ``alone`` was called."""
        self.at(dsn).execute("select 1")
        return dsn in self._alone and dsn not in self._broken

    def _be_alone(self, conn: Connection, node: str, queue: str) -> None:
        # The session of a command that was killed ends even while it waits for a lock.
        with contextlib.suppress(psycopg.Error):
            conn.execute("set client_connection_check_interval = '1s'")
        other = become_the_one(conn, f"change of the cascade {queue}")
        if other is not None:
            raise NodeBusy(
                f"node {node}: another command is changing the cascade of queue {queue}",
                detail=other,
                hint="wait until it is done, and look at londiste status; a command whose machine"
                " is gone ends when the server finds out, or with pg_terminate_backend",
            )

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
            crash.point("plan.before-step")
            step.run(sites)
            crash.point("plan.after-step")
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
