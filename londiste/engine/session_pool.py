"""Pool of idle sessions, for the next table of a copy process and the next chunk of a table.

To open two sessions, and have the servers read their catalogs into them, takes 30 ms of processors,
as long as 5 MB of rows.  Only sessions that ended their work without an error are kept.
"""

from __future__ import annotations

import contextlib
import select
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg

from londiste.db.connection import Connection, connect, limit_silence, usable

#: Seconds for which a session of a task waits for the next chunk.
KEEP = 2.0


@dataclass
class _Idle:
    """A session that waits for its next use."""

    conn: Connection
    name: str
    timer: threading.Timer | None = None


class SessionPool:
    """Idle sessions, by connection string and role.

    expires -- a session that is not taken within ``KEEP`` seconds is closed.
    """

    def __init__(self, *, expires: bool = False) -> None:
        self._expires = expires
        self._lock = threading.Lock()
        self._idle: dict[tuple[str, bool], list[_Idle]] = {}

    def take(self, dsn: str, name: str, *, target: bool) -> Connection | None:
        """An idle session in the state of a new one, or None; ``name`` becomes its name.

        target -- with the replica role.
        """
        while True:
            with self._lock:
                waiting = self._idle.get((dsn, target))
                idle = waiting.pop() if waiting else None
            if idle is None:
                return None
            if idle.timer is not None:
                idle.timer.cancel()
            with contextlib.suppress(psycopg.Error, OSError, ValueError):
                # A server that has sent something has ended the session.
                if usable(idle.conn) and not select.select([idle.conn.fileno()], [], [], 0)[0]:
                    if idle.name != name:
                        idle.conn.execute(
                            "select pg_catalog.set_config('application_name', %s, false)", [name]
                        )
                    return idle.conn
            idle.conn.close()

    def keep(
        self, dsn: str, conn: Connection, *, target: bool, name: str = "", most: int | None = None
    ) -> None:
        """Keeps a session for its next use, or closes it.

        name -- its application_name, if known; most -- idle sessions of this kind, None: no limit.
        """
        idle = _Idle(conn, name)
        if self._expires:
            idle.timer = threading.Timer(KEEP, self._expired, ((dsn, target), idle))
            idle.timer.daemon = True
        with self._lock:
            waiting = self._idle.setdefault((dsn, target), [])
            kept = usable(conn) and (most is None or len(waiting) < most)
            if kept:
                waiting.append(idle)
        if not kept:
            conn.close()
        elif idle.timer is not None:
            idle.timer.start()

    def close(self) -> None:
        """Closes the idle sessions."""
        with self._lock:
            for waiting in self._idle.values():
                for idle in waiting:
                    idle.conn.close()
            self._idle.clear()

    def _expired(self, key: tuple[str, bool], idle: _Idle) -> None:
        with self._lock:
            waiting = self._idle.get(key, [])
            if idle not in waiting:
                return  # it was taken
            waiting.remove(idle)
        idle.conn.close()


_tasks = SessionPool(expires=True)


@contextlib.contextmanager
def lent(
    dsn: str,
    *,
    name: str,
    replica: bool = False,
    keep: bool,
    answer_seconds: float | None = None,
) -> Iterator[Connection]:
    """A session like ``session(dsn, name=…, replica=…)`` opens, for the length of a with block.

    In autocommit mode; to be left without a transaction.

    keep -- it may be one that was used before, and it may be used again.
    answer_seconds -- see ``connect``; a server that works may take longer.
    """
    conn = _tasks.take(dsn, name, target=replica) if keep else None
    if conn is None:
        conn = connect(dsn, name=name, replica=replica, autocommit=True)
    limit_silence(conn, answer_seconds)
    try:
        yield conn
    except BaseException:
        conn.close()
        raise
    if keep:
        _tasks.keep(dsn, conn, target=replica, name=name)
    else:
        conn.close()
