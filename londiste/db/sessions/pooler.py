"""First statements of a session: settings, where the session keeps its backend.

What a session sets, locks or listens to belongs to its backend.  Behind a pooler in transaction
mode all of it stays in a backend that serves other programs next.  So a session of ours is refused
there before it sets anything.

A session without a pooler is told the process id of its backend by the server at the start
(``direct``).  Behind a pooler it is another number, and ``keeps_backend`` looks with a second
session whether the first one's backend is given away while the first one is open.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import psycopg
from psycopg.rows import TupleRow

from londiste.errors import SharedBackend

log = logging.getLogger(__name__)

#: Process id of a backend, and the time when its server was started: two servers may have one id.
Backend: TypeAlias = tuple[int, str]

#: Rounds of looking: a pooler takes the backend that was used last, or the one that rested longest.
ROUNDS = 3

#: With the schema of each name: the session has the path of the database yet.
_BACKEND = (
    "select pg_catalog.pg_backend_pid(), pg_catalog.pg_postmaster_start_time()::pg_catalog.text"
)


#: The options of a session choose its role: ``-c role=app``, ``--role=app``.
_CHOSEN = re.compile(r"(?:^|\s)(?:-c\s*|--)role\s*=", re.IGNORECASE)

#: Whether the database sets a role, and the role that connects sets none itself.
_BY_DATABASE = """
select bool_or(s.setrole = 0) and not bool_or(s.setrole <> 0)
from pg_catalog.pg_db_role_setting as s, unnest(s.setconfig) as c
where starts_with(c, 'role=')
    and (s.setrole = 0 and s.setdatabase <> 0
        or s.setrole = (select r.oid from pg_catalog.pg_roles as r where r.rolname = session_user))
    and s.setdatabase in (
        0, (select d.oid from pg_catalog.pg_database as d where d.datname = current_database()))
"""

#: Places whose role was given up with a warning: once in a process is enough.
_warned: set[str] = set()


def pin(
    conn: psycopg.Connection[TupleRow],
    settings: Mapping[str, str],
    other: Callable[[], psycopg.Connection[TupleRow]],
    where: str,
) -> tuple[int | None, str]:
    """Sets all for a session whose backend is its own; its process id if a pooler tells another.

    Also returns the role of the session, ``none`` without one beside its user.

    Until then the path is that of the database, whose owner need not be trusted: what the statement
    names has its schema, operators and types too.  (unnest of several arrays is a part of the
    grammar.)

    other -- as ``keeps_backend``; where -- it leads, without secrets.

    Raises SharedBackend, and psycopg.Error.
    """
    names, values = list(settings), list(settings.values())
    statement = (
        "select pg_catalog.set_config(n, v, false), pg_catalog.pg_backend_pid(),"
        " pg_catalog.current_setting('role')"
        " from unnest(%s::pg_catalog.text[], %s::pg_catalog.text[]) as s(n, v)"
    )
    # Where the server answers by the id that it gave at the start, nobody is in between.
    row = conn.execute(
        statement + " where pg_catalog.pg_backend_pid() operator(pg_catalog.=) %s::pg_catalog.int4",
        [names, values, conn.info.backend_pid],
    ).fetchone()
    backend = None
    if row is None:
        if not keeps_backend(conn, other):
            raise refusal(where)
        row = conn.execute(statement, [names, values]).fetchone()
        assert row is not None
        backend = int(row[1])
    role = str(row[2])
    if role != "none" and _leave_role_of_database(conn, role, where):
        role = "none"
    return backend, role


def chooses_role(conn: psycopg.Connection[TupleRow]) -> bool:
    """Whether the connection string chooses another role than the user."""
    return _CHOSEN.search(conn.info.options) is not None


def _leave_role_of_database(conn: psycopg.Connection[TupleRow], role: str, where: str) -> bool:
    """Gives up a role that the owner of the database has chosen for every session; whether it did.

    Code of that role would run with the rights of who connects: ``set role`` leads back to them.
    A role of the connection string (``options``), or of the role that connects, stays.
    """
    if chooses_role(conn) or conn.execute(_BY_DATABASE).fetchone() != (True,):
        return False
    conn.execute("set role none")
    if where not in _warned:
        _warned.add(where)
        log.warning(
            "%s: role %s, which is set for the database, is not used; hint: to work as that role,"
            " add to the connection string: options='-c role=%s'",
            where,
            role,
            role,
        )
    return True


def shared(first: Backend, second: Backend | None, again: Backend) -> bool:
    """Whether backends are shared, by the observations of two open sessions.

    first, again -- of the session in question, before and after; second -- of the other one between
        the two; None: it got none.
    """
    return second == first or again != first


def keeps_backend(
    conn: psycopg.Connection[TupleRow], other: Callable[[], psycopg.Connection[TupleRow]]
) -> bool:
    """Whether a session behind a pooler has one backend for itself.  Sets nothing anywhere.

    conn -- in autocommit mode.
    other -- opens a second session in the same way, with a bounded time for its answers.

    Raises psycopg.Error of ``conn``.
    """
    first = _backend(conn)
    for _ in range(ROUNDS):
        with _held(other) as (second, refused):
            # When the second has the first one's, there may be none left for the first to ask with.
            if refused or shared(first, second, first) or shared(first, second, _backend(conn)):
                return False
            if second is None:
                # All backends are taken, one of them by us.
                return True
    return True


@contextlib.contextmanager
def _held(
    other: Callable[[], psycopg.Connection[TupleRow]],
) -> Iterator[tuple[Backend | None, bool]]:
    """(the backend of a second session's transaction, whether transactions are refused).

    None when the pooler has none to give.
    """
    try:
        conn = other()
    except psycopg.Error:
        yield None, False
        return
    try:
        held, refused = None, False
        try:
            conn.execute("begin")
            held = _backend(conn)
        except psycopg.Error as error:
            # In statement mode a pooler takes no transactions.
            refused = "statement pooling" in str(error)
        yield held, refused
    finally:
        with contextlib.suppress(psycopg.Error):
            if not conn.closed:
                conn.execute("rollback")
        conn.close()


def _backend(conn: psycopg.Connection[TupleRow]) -> Backend:
    row = conn.execute(_BACKEND).fetchone()
    assert row is not None
    return int(row[0]), str(row[1])


def refusal(where: str) -> SharedBackend:
    """The error of a session that does not keep its backend.

    where -- where it leads, without secrets.
    """
    return SharedBackend(
        f"{where}: a pooler gives each transaction another backend (pool_mode = transaction or"
        " statement)",
        detail=(
            "session settings, locks and LISTEN would stay in backends of other programs, whose"
            " triggers and foreign keys would not fire; nothing was set"
        ),
        hint=(
            "connect to the server directly (its own host and port), or set pool_mode = session"
            " for this database in the pooler"
        ),
    )
