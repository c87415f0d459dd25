"""Pool of idle sessions, passed from chunk to chunk of a table.

To open two sessions, and have the servers read their catalogs into them, takes 30 ms of processors,
as long as 5 MB of rows.  A session that nobody takes within ``KEEP`` seconds is closed, and one
whose task has failed at once.
"""

from __future__ import annotations

import contextlib
import select
import threading
from collections.abc import Iterator

import psycopg

from londiste.db.connection import Connection, connect, usable

#: Seconds for which a session waits for the next chunk.
KEEP = 2.0

_Key = tuple[str, str, bool]

_lock = threading.Lock()
_waiting: dict[_Key, list[tuple[Connection, threading.Timer]]] = {}


@contextlib.contextmanager
def lent(dsn: str, *, name: str, replica: bool = False, keep: bool) -> Iterator[Connection]:
    """A session like ``session(dsn, name=…, replica=…)`` opens, for the length of a with block.

    In autocommit mode; to be left without a transaction.

    keep -- it may be one that was used before, and it may be used again.
    """
    key = (dsn, name, replica)
    conn = _take(key) if keep else None
    if conn is None:
        conn = connect(dsn, name=name, replica=replica, autocommit=True)
    try:
        yield conn
    except BaseException:
        conn.close()
        raise
    if keep and usable(conn):
        _put(key, conn)
    else:
        conn.close()


def _take(key: _Key) -> Connection | None:
    """One that waits and is still alive."""
    while True:
        with _lock:
            found = _waiting.get(key)
            if not found:
                return None
            conn, timer = found.pop()
            if not found:
                del _waiting[key]
        timer.cancel()
        # A server that has said something meanwhile has ended the session.
        with contextlib.suppress(psycopg.Error, OSError, ValueError):
            if not select.select([conn.pgconn.socket], [], [], 0)[0]:
                return conn
        conn.close()


def _put(key: _Key, conn: Connection) -> None:
    timer = threading.Timer(KEEP, _expired, (key, conn))
    timer.daemon = True
    with _lock:
        _waiting.setdefault(key, []).append((conn, timer))
    timer.start()


def _expired(key: _Key, conn: Connection) -> None:
    with _lock:
        found = _waiting.get(key, [])
        left = [entry for entry in found if entry[0] is not conn]
        if len(left) == len(found):
            return  # somebody has taken it
        if left:
            _waiting[key] = left
        else:
            del _waiting[key]
    conn.close()
