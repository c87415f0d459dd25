"""Notifications about changes of the table list: LISTEN, with polling as a fallback.

The SQL notifies on one channel; worker and copy process listen in their own database and keep
polling, so a lost notification costs time only.

A poll reads the whole list of tables.  Where that takes long and notifications are frequent (a
thousand tables being copied), the next poll is delayed, so that polling stays a small part of the
work.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from londiste.db.connection import Connection
from londiste.db.notify import Listener

TABLES_CHANNEL = "londiste_tables"

#: Looks that take up to so many seconds may follow each other at once.
_CHEAP = 0.005
#: After a longer one: so many times as long without another, but not more seconds than ``_REST``.
_TIMES = 4.0
_REST = 0.2


class TableNotifications:
    """The notifications of one process.

    begin    a poll starts; it covers all notifications before it
    end      it has ended
    files    what ends a sleep, after ``end``
    rest     seconds after which another poll is due without a notification
    """

    def __init__(self, conn: Connection, queue: str) -> None:
        """Listens on ``conn``, a session in autocommit mode; its own notifications are ignored."""
        self._listener = Listener(conn, [TABLES_CHANNEL], own=False)
        self._payload = queue[:1000]
        self._began = 0.0
        self._deaf_until = 0.0
        self.told = False
        self.rest: float | None = None

    def begin(self) -> None:
        """Raises NodeUnreachable when the connection is gone."""
        self.told = self._heard()
        self._began = time.monotonic()

    def end(self) -> bool:
        """Whether another poll is due at once.  Raises NodeUnreachable."""
        now, more = time.monotonic(), self._heard()
        self.told |= more
        self.rest = rest(now - self._began) if self.told else None
        self._deaf_until = now + (self.rest or 0.0)
        return more and self.rest is None

    def files(self) -> Sequence[int]:
        """File numbers to watch while sleeping."""
        return () if time.monotonic() < self._deaf_until else (self._listener.fileno(),)

    def fileno(self) -> int:
        """The file that becomes readable with a notification, whatever the delay."""
        return self._listener.fileno()

    def _heard(self) -> bool:
        return any(payload == self._payload for _, payload in self._listener.drain())


def rest(took: float) -> float | None:
    """Seconds until the next poll, after one of this duration; None: at once."""
    return None if took <= _CHEAP else min(_REST, _TIMES * took)
