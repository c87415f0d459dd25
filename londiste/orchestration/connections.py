"""Connections of one command: one per database, with timeouts and locks."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import TypeAlias, TypeVar

import psycopg

from londiste.db.advisory_lock import acquire_singleton_lock
from londiste.db.connection import (
    IDLE_SECONDS,
    Connection,
    belongs_to,
    connect,
    describe_dsn,
    limit_answers,
    limit_silence,
    server_pid,
)
from londiste.db.connstr.locations import reach as reach
from londiste.db.queries import query, translated
from londiste.errors import NodeBusy, NodeUnreachable

#: How a limit of time is set on a session.
_Limiting: TypeAlias = Callable[[Connection, float | None], None]

S = TypeVar("S")
T = TypeVar("T")
#: Servers that are asked at the same time.
_THREADS = 16

#: server_version_num of the first release with the setting event_triggers.
_SWITCH_FOR_EVENT_TRIGGERS = 170000


class Connections:
    """Connections to the databases of a plan, opened when they are first needed.

    lock_timeout -- seconds that a statement may wait for a lock.
    extra -- connection parameters that are added to the location of every other node.
    known -- connection strings that replace stored locations, which contain no password.
    answer_seconds -- a server that does not answer for this time counts as unreachable; None: as
        in ``connect``.
    event_triggers -- False: they do not fire for the DDL of the command, where the server (from
        PostgreSQL 17 on) allows it to this user.

    The server ends a session that is left idle in a transaction, as others may wait for its locks.
    """

    def __init__(
        self,
        *,
        name: str,
        lock_timeout: float = 10.0,
        extra: str = "",
        answer_seconds: float | None = None,
        known: Mapping[str, str] | None = None,
        event_triggers: bool = True,
    ) -> None:
        self.lock_timeout = lock_timeout
        self.answer_seconds = answer_seconds
        self._name = name
        self._event_triggers = event_triggers
        self.extra = extra
        self._known = dict(known or {})
        self._names: dict[str, str] = {}
        self._limiting: _Limiting = limit_answers
        self._open: dict[str, Connection] = {}
        self._alone: dict[str, tuple[str, str, bool]] = {}
        self._pids: dict[str, int] = {}
        self._broken: set[str] = set()

    def at(self, dsn: str) -> Connection:
        """The connection for a connection string, in autocommit mode."""
        conn = self._open.get(dsn)
        if conn is None or conn.closed:
            if conn is not None:
                self._broken.add(dsn)
            try:
                conn = connect(
                    dsn,
                    name=self._name,
                    autocommit=True,
                    lock_timeout_ms=max(1, round(self.lock_timeout * 1000)),
                    idle_timeout_ms=IDLE_SECONDS * 1000,
                    synchronous=True,
                    answer_seconds=self.answer_seconds,
                )
            except NodeUnreachable as error:
                name = self._names.get(dsn)
                words = f"node {name} does not answer: " if name else ""
                raise NodeUnreachable(
                    words + error.message, detail=error.detail, hint=error.hint
                ) from error
            belongs_to(conn, self._names.get(dsn, ""))
            self._limiting(conn, self.answer_seconds)
            if not self._event_triggers:
                without_event_triggers(conn)
            if dsn in self._pids:
                # It may hold locks, and execute late statements that were sent before.
                _end_session(conn, self._pids[dsn], self._name)
            self._pids[dsn] = server_pid(conn)
            self._open[dsn] = conn
            if dsn in self._alone:
                self._be_alone(conn, dsn, *self._alone[dsn])
        return conn

    def call_them(self, names: Mapping[str, str]) -> None:
        """Names the nodes of connection strings, for messages about their sessions."""
        self._names.update(names)
        for dsn, conn in self._open.items():
            belongs_to(conn, self._names.get(dsn, ""))

    def _where(self, dsn: str) -> str:
        name = self._names.get(dsn)
        return f"node {name} ({describe_dsn(dsn)})" if name else describe_dsn(dsn)

    @contextlib.contextmanager
    def answering(self, seconds: float) -> Iterator[None]:
        """Limits the response time of all servers in the with block; never extends it."""
        before = self.answer_seconds
        self._limit(seconds if before is None else min(before, seconds))
        try:
            yield
        finally:
            self._limit(before)

    @contextlib.contextmanager
    def at_length(self) -> Iterator[None]:
        """Waits in the with block for long statements, as long as their server is alive."""
        self._limit(self.answer_seconds, limit_silence)
        try:
            yield
        finally:
            self._limit(self.answer_seconds)

    def _limit(self, seconds: float | None, limiting: _Limiting = limit_answers) -> None:
        self.answer_seconds, self._limiting = seconds, limiting
        for conn in self._open.values():
            limiting(conn, seconds)

    def alone(self, dsn: str, node: str, queue: str, *, shared: bool = False) -> None:
        """Locks changes of the cascade at this node, for as long as the session lasts.

        shared -- beside others that share it: a node is created below this one.

        Raises NodeBusy when another command has the lock, TransientError when the node does not
        answer.  Steps that must not happen twice do not rely on it: the session may end early.
        """
        conn = self.at(dsn)
        if dsn not in self._alone:
            self._be_alone(conn, dsn, node, queue, shared)
            self._alone[dsn] = node, queue, shared

    def kept(self, dsn: str) -> Connection | None:
        """The session that has held the lock since ``alone``, or None.

        Statements in it run under the lock: a session that breaks executes nothing more.
        """
        conn = self._open.get(dsn)
        if conn is None or conn.closed or dsn not in self._alone or dsn in self._broken:
            return None
        return conn

    def release(self) -> None:
        """Ends the sessions that hold a lock of ``alone``, and with them the locks."""
        for dsn in self._alone:
            if (conn := self._open.pop(dsn, None)) is not None:
                conn.close()
            self._pids.pop(dsn, None)
            self._broken.discard(dsn)
        self._alone.clear()

    def _be_alone(self, conn: Connection, dsn: str, node: str, queue: str, shared: bool) -> None:
        # The session of a command that was killed ends even while it waits for a lock.
        with contextlib.suppress(psycopg.Error):
            conn.execute("set client_connection_check_interval = '1s'")
        other = acquire_singleton_lock(conn, f"change of the cascade {queue}", shared=shared)
        if other is not None and dsn in self._broken:
            raise NodeUnreachable(
                f"node {node}: the connection of this command broke; its session holds the lock",
                detail=other,
                hint="wait for its end, or use pg_terminate_backend; then repeat the command",
            )
        if other is not None:
            raise NodeBusy(
                f"node {node}: another command is changing the cascade of queue {queue}",
                detail=other,
                hint="wait until it is done, and check londiste status; the lock of a command whose"
                " host is down ends by a timeout of the server, or with pg_terminate_backend",
            )

    def reach(self, location: str, node: str = "") -> str:
        """The connection string for a stored location: the known one, or with ``extra``.

        Raises StateError for a location that must not be used as it is (``locations.reach``).
        """
        return self._known.get(location) or reach(location, self.extra, node=node)

    @contextlib.contextmanager
    def transaction(self, dsn: str) -> Iterator[Connection]:
        """One transaction on one node; translates errors of the commit, too."""
        conn = self.at(dsn)
        with translated(self._where(dsn)), conn.transaction():
            yield conn

    def close(self) -> None:
        """Closes all connections."""
        for conn in self._open.values():
            conn.close()
        self._open.clear()

    def __enter__(self) -> Connections:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def side_by_side(ask: Callable[[S], T], servers: Sequence[S]) -> list[T]:
    """The answers of all, in their order, from threads: one that is silent delays no other.

    An interrupt leaves the threads behind; the end of the program does not wait for them either, as
    it would for those of a ThreadPoolExecutor.
    """
    if len(servers) < 2:
        return [ask(one) for one in servers]
    answers: list[Future[T]] = [Future() for _ in servers]
    left = deque(zip(answers, servers, strict=True))

    def work() -> None:
        with contextlib.suppress(IndexError):
            while True:
                answer, server = left.popleft()
                _answer(answer, ask, server)

    try:
        for _ in range(min(_THREADS, len(servers))):
            threading.Thread(target=work, daemon=True).start()
        wait(answers)
    finally:
        left.clear()
    return [answer.result() for answer in answers]


def _answer(answer: Future[T], ask: Callable[[S], T], server: S) -> None:
    try:
        answer.set_result(ask(server))
    except BaseException as error:
        answer.set_exception(error)


def without_event_triggers(conn: Connection) -> bool:
    """Switches event triggers off for the session, if this user may; whether they are."""
    if conn.info.server_version < _SWITCH_FOR_EVENT_TRIGGERS:
        return False
    done = conn.execute(
        "select pg_catalog.set_config('event_triggers', 'off', false)"
        " where pg_catalog.has_parameter_privilege('event_triggers', 'SET')"
    )
    return done.fetchone() is not None


def _end_session(conn: Connection, pid: int, name: str) -> None:
    """Terminates a previous session of this command that its server still has."""
    with contextlib.suppress(psycopg.Error):
        conn.execute(query("end_own_session"), {"pid": pid, "name": name})
