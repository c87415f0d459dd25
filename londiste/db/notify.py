"""Notifications (LISTEN/NOTIFY) that end a poll interval early.

A notification only ends a sleep early.  It may be lost with a connection, and nothing but
latency depends on it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import psycopg
from psycopg import sql

from londiste.db.connection import Connection, server_pid
from londiste.db.queries import translated
from londiste.db.sessions.exchange import KEPT_NOTIFICATIONS, LONGEST_NOTIFICATION


class Listener:
    """Collects the notifications that reach a connection, also those that arrive while it works.

    The connection has to be in autocommit mode and idle between its statements: a server
    delivers nothing inside a transaction.  Use it from one thread.
    """

    def __init__(self, conn: Connection, channels: Sequence[str], *, own: bool = True) -> None:
        """Starts LISTEN.

        own -- include notifications of this connection itself.
        """
        self.conn = conn
        self._deaf_to = 0 if own else server_pid(conn)
        self._seen: deque[tuple[str, str]] = deque(maxlen=KEPT_NOTIFICATIONS)
        conn.add_notify_handler(self._note)
        with translated(conn):
            for channel in channels:
                conn.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))

    def fileno(self) -> int:
        """The file number that becomes readable on a notification or at the connection's end."""
        return self.conn.fileno()

    def drain(self) -> list[tuple[str, str]]:
        """Notifications since the last call, as (channel, payload); does not wait.

        Raises NodeUnreachable if the connection is lost.
        """
        with translated(self.conn):
            self.conn.pgconn.consume_input()
            while (notify := self.conn.pgconn.notifies()) is not None:
                self._add(
                    notify.be_pid,
                    notify.relname.decode(errors="replace"),
                    notify.extra.decode(errors="replace"),
                )
        result = list(self._seen)
        self._seen.clear()
        return result

    def close(self) -> None:
        """Stops LISTEN; the connection may be used for other work."""
        self.conn.remove_notify_handler(self._note)
        with translated(self.conn):
            self.conn.execute("unlisten *")
        self._seen.clear()

    def _note(self, notify: psycopg.Notify) -> None:
        self._add(notify.pid, notify.channel, notify.payload)

    def _add(self, pid: int, channel: str, payload: str) -> None:
        if pid != self._deaf_to and len(payload) <= LONGEST_NOTIFICATION:
            self._seen.append((channel, payload))
