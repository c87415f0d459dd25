"""Pooler detection: whether a session keeps its backend.

What a session sets, locks or listens to belongs to its backend.  Behind a pooler in transaction
mode all of it stays in a backend that serves other programs next.  So a session of ours is refused
there before it sets anything.

A session without a pooler is told the process id of its backend by the server at the start
(``direct``).  Behind a pooler it is another number, and ``keeps_backend`` looks with a second
session whether the first one's backend is given away while the first one is open.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

import psycopg
from psycopg.rows import TupleRow

from londiste.errors import SharedBackend

#: Process id of a backend, and the time when its server was started: two servers may have one id.
Backend: TypeAlias = tuple[int, str]

#: Rounds of looking: a pooler takes the backend that was used last, or the one that rested longest.
ROUNDS = 3

_BACKEND = "select pg_catalog.pg_backend_pid(), pg_catalog.pg_postmaster_start_time()::text"


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
