"""A session that is kept from statement to statement, and is like a new one for each."""

from __future__ import annotations

import os
import threading
from typing import Any

import psycopg

from tests.support.waiting import readable

#: What only a new session sees, or what closes a session at its end.
_FOR_NEW_SESSIONS = ("alter role", "alter database", "alter system", "pg_reload_conf")


class Session:
    """Runs statements in one session: a new one costs the server a fork and empty caches.

    It is replaced when the server has ended it, in a forked process, and by a second one while
    another thread uses it.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._lock = threading.Lock()
        self._pid = 0
        self._conn: psycopg.Connection[Any] | None = None

    def execute(self, statement: str, parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a statement, if it has any."""
        if not self._lock.acquire(blocking=False):
            with psycopg.connect(self._dsn, autocommit=True) as conn:
                return _rows(conn, statement, parameters)
        try:
            conn = self._alive()
            try:
                return _rows(conn, statement, parameters)
            finally:
                self._forget(conn, statement)
        finally:
            self._lock.release()

    def close(self) -> None:
        """Ends the session, if this process has begun it."""
        with self._lock:
            if self._conn is not None and self._pid == os.getpid():
                self._conn.close()
            self._conn = None

    def __del__(self) -> None:
        self.close()

    def _alive(self) -> psycopg.Connection[Any]:
        conn = self._conn
        if conn is None or conn.closed or self._pid != os.getpid() or _was_ended(conn):
            if conn is not None and self._pid == os.getpid():
                conn.close()
            conn = psycopg.connect(self._dsn, autocommit=True, prepare_threshold=None)
            self._conn, self._pid = conn, os.getpid()
        return conn

    def _forget(self, conn: psycopg.Connection[Any], statement: str) -> None:
        words = statement.lower()
        idle = conn.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        if not idle or any(word in words for word in _FOR_NEW_SESSIONS):
            conn.close()
        if not conn.closed:
            conn.execute("discard all")


def _rows(conn: psycopg.Connection[Any], statement: str, parameters: Any) -> list[tuple[Any, ...]]:
    cursor = conn.execute(statement, parameters)
    return cursor.fetchall() if cursor.description else []


def _was_ended(conn: psycopg.Connection[Any]) -> bool:
    """Whether the server has closed the connection: there is something to read."""
    return bool(readable([conn.fileno()], 0))
