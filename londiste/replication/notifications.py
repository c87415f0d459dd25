"""Word that tables of a queue have come, gone or changed their state, for those who wait for it.

The SQL notifies on one channel; worker and copy process listen in their own database.  Looking
goes on underneath: word may be lost, and nothing but time is lost with it.

A look reads the whole list of tables.  Where that takes a while and word comes often (a thousand
tables on their way) it is not followed at once, so that looking stays a small part of the work.
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
    """What one process hears.

    begin    a look begins; what was heard before is seen by it
    end      it has ended
    files    what ends a sleep, after ``end``
    rest     seconds after which another look is due although nothing ends the sleep
    """

    def __init__(self, conn: Connection, queue: str) -> None:
        """Listens on ``conn``, a session in autocommit mode; what it says itself is no news."""
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
        """Whether another look is due at once.  Raises NodeUnreachable."""
        now, more = time.monotonic(), self._heard()
        self.told |= more
        self.rest = rest(now - self._began) if self.told else None
        self._deaf_until = now + (self.rest or 0.0)
        return more and self.rest is None

    def files(self) -> Sequence[int]:
        """File numbers to watch while sleeping."""
        return () if time.monotonic() < self._deaf_until else (self._listener.fileno(),)

    def fileno(self) -> int:
        """The file number that gets readable with word, however much there was of it lately."""
        return self._listener.fileno()

    def _heard(self) -> bool:
        return any(payload == self._payload for _, payload in self._listener.drain())


def rest(took: float) -> float | None:
    """Seconds until the next look, after one that took so long; None: it may follow at once."""
    return None if took <= _CHEAP else min(_REST, _TIMES * took)


__all__ = ["TABLES_CHANNEL", "TableNotifications", "rest"]
