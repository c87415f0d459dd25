"""Opens a session in a thread, so that a silent server causes no wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

from londiste.db.connection import Connection


class Opening:
    """A session that a thread opens; the end of the program does not wait for it.

    open_session -- opens it, or raises.  name -- of the thread.
    """

    def __init__(self, open_session: Callable[[], Connection], name: str) -> None:
        self._open = open_session
        self._lock = threading.Lock()
        self._conn: Connection | None = None
        self._error: BaseException | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def ended(self, seconds: float) -> bool:
        """Waits so many seconds at most; whether ``take`` has a result."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def take(self) -> Connection:
        """The session, after ``ended``.  Raises what opening it has raised."""
        if self._error is not None:
            raise self._error
        assert self._conn is not None
        return self._conn

    def give_up(self) -> None:
        """Nobody takes the session any more: it is closed once it is open."""
        with self._lock:
            self._given_up = True
            if self._conn is not None:
                self._conn.close()

    def _run(self) -> None:
        try:
            conn = self._open()
        except BaseException as error:
            self._error = error
            return
        with self._lock:
            self._conn = conn
            if self._given_up:
                conn.close()
