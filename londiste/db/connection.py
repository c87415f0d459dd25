"""Connections whose behaviour does not depend on settings of role, database or environment.

Every session of the program pins what changes the text of values, and bounds how long it
can wait for a lock or sit idle in a transaction.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager
from typing import Any, LiteralString, NoReturn, TypeAlias

import psycopg
from psycopg.rows import TupleRow

from londiste.db import tls
from londiste.db.session_role import replica_statement
from londiste.db.sessions import pooler
from londiste.db.sessions.exchange import (
    KEPT_NOTIFICATIONS,
    Aside,
    Exchange,
    no_answer,
    unread,
    unsent,
)
from londiste.db.sessions.schema_guard import GuardedConnection, GuardedCursor, guard
from londiste.db.sessions.settings import NETWORK, of_session
from londiste.dsn import describe_dsn as describe_dsn
from londiste.dsn import masked as masked
from londiste.dsn import parsed
from londiste.error_origin import remember_user
from londiste.errors import AccessDenied, LondisteError, NotSecured, UsageError, from_database
from londiste.wording import is_used_up

Connection: TypeAlias = psycopg.Connection[TupleRow]

log = logging.getLogger(__name__)

#: In the options of a connection string: its sessions write every table as themselves.
_AS_ITSELF = "londiste.run_as_owner=off"

#: Seconds for which a session that gives up asks the server, in a session of its own.
_ASK_SECONDS = 10.0

#: Seconds in which a pooler gives a session a backend, or has none.
_PROBE_SECONDS = 1.0

#: Seconds after which the server ends a transaction whose locks others wait for, if its session is
#: idle: the process has stopped, or the connection is lost.
IDLE_SECONDS = 10

#: Seconds after which a session looks whether its server works for it, where nothing else is said.
SILENT_SECONDS = 60.0


def limit_answers(conn: Connection, seconds: float | None) -> None:
    """Changes the ``answer_seconds`` of a session (``connect``)."""
    assert isinstance(conn, _Patient)
    conn.limit_seconds = SILENT_SECONDS if seconds is None else seconds
    conn.unless_busy = seconds is None


def limit_silence(conn: Connection, seconds: float | None) -> None:
    """Changes the ``silent_seconds`` of a session (``connect``)."""
    limit_answers(conn, seconds)
    assert isinstance(conn, _Patient)
    conn.unless_busy = True


def given_up_after(answer_seconds: float) -> float:
    """Seconds after which a session is given up whose server cannot be reached any more.

    It asks twice (``limit_silence``): whether the server works, and to end its process.
    """
    return answer_seconds + 2 * _ASK_SECONDS


def messages_aside(conn: Connection) -> int:
    """How many messages have come that are no part of an answer; for waits outside the driver."""
    if not isinstance(conn, _Patient):
        return 0
    conn.aside.read(conn.pgconn)
    return conn.aside.count


def end_if_silent(
    conn: Connection, seconds: float, came: Callable[[], bool], *, heard: bool = False
) -> bool:
    """In a wait outside the driver, of so many seconds: whether to count them anew.

    came -- whether something has come meanwhile.  heard -- messages come that are no part of the
        answer.  Raises psycopg.OperationalError when the limit of the session has passed, and the
        server does not work for it.
    """
    if not isinstance(conn, _Patient):
        return True
    if seconds < conn.limit_seconds:
        return False
    if not ((conn.unless_busy and conn._is_busy(came=heard)) or (came() and not heard)):
        conn._give_up(no_answer(conn.limit_seconds, heard=heard))
    return True


def ask_backend(conn: Connection) -> None:
    """Finds the server process of the session: a pooler reports another id.

    For a session with ``limit_silence``.  Raises NodeUnreachable.
    """
    assert isinstance(conn, _Patient)
    try:
        row = conn.execute("select pg_catalog.pg_backend_pid()").fetchone()
    except psycopg.Error as error:
        raise from_database(error, where=conn.place) from error
    conn.backend = row[0] if row is not None else None


def pins(conn: Connection) -> dict[str, str]:
    """The settings that ``connect`` has given the session, with their values."""
    assert isinstance(conn, _Patient)
    return conn.settings


def belongs_to(conn: Connection, node: str) -> None:
    """Sets the name of the node in all later descriptions of the session."""
    assert isinstance(conn, _Patient)
    conn.node = node


def connect(
    dsn: str,
    *,
    name: str = "londiste",
    autocommit: bool = False,
    lock_timeout_ms: int = 10_000,
    statement_timeout_ms: int = 0,
    idle_timeout_ms: int = 0,
    replica: bool = False,
    synchronous: bool = False,
    answer_seconds: float | None = None,
    silent_seconds: float | None = None,
    guarded: bool = True,
) -> Connection:
    """Opens a session on ``dsn`` (libpq connection string, URI or ``service=…``).

    name -- application_name, at most 63 bytes are kept.
    lock_timeout_ms, statement_timeout_ms, idle_timeout_ms -- 0 means no limit; idle is
        the server's idle_in_transaction_session_timeout.
    replica -- triggers of the application stay silent (session_replication_role) in each
        transaction that ``transaction()`` begins; in others after ``keep_role``.
    synchronous -- commits are flushed whatever the role's default says, and whatever the server's
        settings become; never weaker than what the database asks for now.
    answer_seconds -- the session breaks when a statement has no answer for so long, also where
        something on the way keeps the connection and lets nothing through.  ``limit_answers``
        changes it.
    silent_seconds -- the same for statements that may take long: after this time another session
        asks the server whether it is working, and ends this one, on both sides, only if it is not.
        So it is after SILENT_SECONDS when both are None.  ``limit_silence`` changes it.
    guarded -- the session of a superuser uses only schemas of Londiste whose owners are trusted;
        False: the caller looks at them itself, or uses none.

    Raises AccessDenied, NodeUnreachable, UsageError or BadOption, NotTrusted, and SharedBackend
    behind a pooler that gives the session no backend of its own; none contains a password.
    """
    given = parsed(dsn)
    params: dict[str, Any] = {**NETWORK, **{k: v for k, v in given.items() if v is not None}}
    params.update(tls.mode_for(given))
    params["application_name"] = name[:63]
    params["autocommit"] = True
    params["cursor_factory"] = GuardedCursor
    try:
        conn: _Patient = _Patient.connect(**params)
    except psycopg.Error as error:
        ours = from_database(error, where=describe_dsn(dsn))
        if not isinstance(ours, AccessDenied) and tls.is_about_tls(ours.message):
            raise NotSecured(
                ours.message, detail=ours.detail, hint=tls.hint_for(ours.message)
            ) from None
        raise ours from None
    limit_answers(conn, answer_seconds)
    if silent_seconds is not None:
        limit_silence(conn, silent_seconds)
    conn.dsn, conn.place = dsn, describe_dsn(dsn)
    tls.warn_of_exposure(conn.info.hostaddr, conn.place, encrypted=conn.pgconn.ssl_in_use)
    conn.settings = {
        "londiste.run_as_owner": "off" if _AS_ITSELF in str(given.get("options", "")) else "on"
    }
    settings = of_session(
        conn.info.server_version,
        lock_timeout=str(lock_timeout_ms),
        statement_timeout=str(statement_timeout_ms),
        idle_in_transaction_session_timeout=str(idle_timeout_ms),
    )
    conn.settings |= settings
    settings = conn.settings
    try:
        conn.backend, role = pooler.pin(conn, settings, lambda: _probe(params), conn.place)
        if guarded and (role != "none" or conn.info.parameter_status("is_superuser") != "off"):
            guard(conn)
        if synchronous:
            # Set in any case: a reload of the server's settings would change one that is not.
            conn.execute(
                "select pg_catalog.set_config(s.name,"
                " case when s.now in ('off', 'local') then 'on' else s.now end, false)"
                " from (select 'synchronous_commit' as name,"
                " pg_catalog.current_setting('synchronous_commit') as now) as s"
            )
        if replica:
            conn.role = replica_statement(conn)
    except psycopg.Error as error:
        conn.close()
        raise from_database(error, where=describe_dsn(dsn)) from error
    except Exception:
        conn.close()
        raise
    conn.autocommit = autocommit
    return conn


#: Context of every exchange with a server, for the watchdog of a daemon.
around_exchange: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext


def _probe(params: dict[str, Any]) -> _Patient:
    """A second session with the same parameters, which a pooler may keep waiting."""
    probe = _Patient.connect(**{**params, "connect_timeout": "2"})
    limit_answers(probe, _PROBE_SECONDS)
    return probe


#: A question is under way.
_ASKED = psycopg.pq.TransactionStatus.ACTIVE
_INPUT = int(psycopg.waiting.Ready.R)

#: Looks at a server that waits for what was sent, until it is given up.
_LOOKS = 4
#: Whether the server works for a session, or cannot get rid of its rows: nothing has come here; is
#: idle, or what it has got of the session's statements.
#: Without track_activities the state is disabled, and what it waits for still known.
_WORKS, _WRITES, _IDLE = "works", "writes", "idle"
_WORK: LiteralString = """
    case when wait_event = 'ClientWrite' then 'writes'
    when state not in ('active', 'disabled') then pg_catalog.concat_ws(' ', 'idle', state_change)
    when wait_event is distinct from 'ClientRead' then 'works'
    else pg_catalog.concat_ws(' ', 'got', query_start, state_change, (
        select c.bytes_processed from pg_catalog.pg_stat_progress_copy as c
        where c.pid = pg_stat_activity.pid))
    end"""


class _Patient(GuardedConnection):
    """A session with a time limit for the server's responses.

    limit_seconds -- after them it is given up; with ``unless_busy`` if the server does not work.
    role -- statement for the beginning of each transaction; '' for none.
    backend -- process id on the server, where a pooler tells another one.
    """

    role: str = ""
    limit_seconds: float = SILENT_SECONDS
    unless_busy: bool = True
    #: What was seen while the server waited for this side, and how often in a row.
    seen: tuple[str, int] = ("", 0)
    backend: int | None = None
    node: str = ""
    dsn: str = ""
    #: What the session was given when it was opened.
    settings: dict[str, str]

    def __init__(self, pgconn: psycopg.pq.abc.PGconn, *args: Any, **named: Any) -> None:
        super().__init__(pgconn, *args, **named)
        self.aside = Aside(pgconn)
        if hasattr(self, "_notifies_backlog"):
            # Nobody may ever ask for them (psycopg before 3.2.4 keeps none).
            self._notifies_backlog = deque(maxlen=KEPT_NOTIFICATIONS)

    @contextlib.contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        """As psycopg's; the outermost has the role of the session."""
        outermost = self.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with super().transaction(savepoint_name, force_rollback) as transaction:
            if outermost:
                keep_role(self)
            yield transaction

    def wait(self, gen: Any, *args: Any, **named: Any) -> Any:
        """The driver's entry point for every exchange with the server."""
        try:
            with around_exchange():
                return super().wait(self._bounded(gen, self.limit_seconds), *args, **named)
        except psycopg.errors.InsufficientPrivilege as error:
            if not pooler.chooses_role(self):
                remember_user(error, self.info.user)
            raise

    def _bounded(self, gen: Any, seconds: float) -> Generator[Any, Any, Any]:
        """The same exchange with several checks per second."""
        pgconn, aside, whole, given_up = self.pgconn, self.aside, not self.unless_busy, False
        try:
            wanted = next(gen)
            exchange = Exchange(time.monotonic(), seconds, whole=whole)
            while True:
                if ready := (yield wanted):
                    before = aside.count
                    if whole and exchange.is_counted():
                        waiting = unread(pgconn.socket)
                        wanted = gen.send(ready)
                        exchange.count(waiting, unread(pgconn.socket))
                    else:
                        wanted = gen.send(ready)
                    aside.read(pgconn)
                    now = time.monotonic()
                    exchange.got(now, answer=aside.count == before)
                    if ready & _INPUT and exchange.is_late(now):
                        log.warning(
                            "%s: the server has been answering for %g s, and has not finished",
                            whereabouts(self),
                            seconds,
                        )
                else:
                    now = time.monotonic()
                if not exchange.is_over(now):
                    given_up = False
                elif pgconn.transaction_status != _ASKED:
                    # It is a wait for notifications.
                    exchange.wait_again(now)
                elif given_up:
                    self._give_up(exchange.why())
                elif self.unless_busy and self._is_busy(came=exchange.heard):
                    exchange.wait_again(time.monotonic())
                else:
                    # Not before what came while the other session asked.
                    given_up = True
        except StopIteration as end:
            return end.value

    def _give_up(self, why: str) -> NoReturn:
        """Ends the session, if possible also on the server, with its transaction and locks."""
        if self.unless_busy:
            self._ask("pg_catalog.pg_terminate_backend(pid)::text")
        self.pgconn.finish()
        raise psycopg.OperationalError(why)

    def _is_busy(self, *, came: bool = False) -> bool:
        """Whether the server is executing a statement of this session; False if unreachable.

        One that cannot get rid of its rows does not work: nothing has come here.  One that waits,
        in a pipeline or COPY, for what was sent may get it over a slow line: it is given up when
        several looks see no progress.  One that refuses the question is there, and may work.

        came -- something has come, be it notices of the statement.
        """
        found, left = self._ask(_WORK, refused=_WORKS), unsent(self.fileno())
        if came or not found or found == _WORKS:
            return bool(found)
        if found == _WRITES:
            return False
        sign = f"{found} {left}"
        before, times = self.seen
        self.seen = (sign, times + 1 if sign == before else 1)
        if found.startswith(_IDLE) and not left:
            # Nothing has come there; or it has ended since the last look, and its answer comes.
            return sign != before != ""
        return self.seen[1] < _LOOKS

    def _ask(self, what: LiteralString, refused: str = "") -> str:
        """An expression over this session's row in pg_stat_activity; '' if unreachable.

        refused -- the answer of a server that lets no other session in.
        """
        statement = "select {} from pg_catalog.pg_stat_activity where pid = %s"
        # The process of a session that has ended may have a successor of the same number.
        statement += " and backend_type = 'client backend' and application_name = %s"
        name = self.info.parameter_status("application_name")
        try:
            with session(
                self.dsn,
                name="londiste watch",
                autocommit=True,
                answer_seconds=_ASK_SECONDS,
                guarded=False,
            ) as conn:
                ours = [server_pid(self), name]
                row = conn.execute(statement.format(what).encode(), ours).fetchone()
        except (LondisteError, psycopg.Error) as error:
            is_there = isinstance(error, UsageError) or is_used_up(str(error))
            return refused if is_there else ""
        return str(row[0] or "") if row is not None else ""


def keep_role(conn: Connection) -> None:
    """In a transaction that was begun by hand: the role that the session was opened with."""
    if isinstance(conn, _Patient) and conn.role:
        conn.execute(conn.role.encode())


def server_pid(conn: Connection) -> int:
    """The server process of the session, also behind a pooler."""
    known = conn.backend if isinstance(conn, _Patient) else None
    return known or conn.info.backend_pid


def whereabouts(conn: Connection) -> str:
    """Where an open connection leads, for messages; works for a broken connection."""
    try:
        where = f"{conn.info.dbname}@{conn.info.host or 'local socket'}"
    except psycopg.Error:
        where = conn.place if isinstance(conn, _Patient) else "lost connection"
    node = conn.node if isinstance(conn, _Patient) else ""
    return f"node {node} ({where})" if node else where


def dsn_of(conn: Connection) -> str:
    """The connection string that ``connect`` was given, password included; '' without one."""
    return conn.dsn if isinstance(conn, _Patient) else ""


def usable(conn: Connection | None) -> bool:
    """Whether a session is usable: open, and in no transaction."""
    idle = psycopg.pq.TransactionStatus.IDLE
    return conn is not None and not conn.closed and conn.info.transaction_status == idle


def use_own_names(conn: Connection) -> None:
    """Resets search_path and row security to the user's own.

    For sessions in which the user's own statements run.
    """
    conn.execute("reset search_path")
    conn.execute("reset row_security")


@contextlib.contextmanager
def session(dsn: str, **options: Any) -> Iterator[Connection]:
    """``connect`` for the length of a with block; closes whatever happens."""
    conn = connect(dsn, **options)
    try:
        yield conn
    finally:
        conn.close()
