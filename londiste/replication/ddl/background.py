"""Runs non-transactional statements of scripts in a thread beside the worker.

Building an index takes time, and no row depends on it: the worker continues, and only the next
script waits.  The work and its progress are in the database; there is at most one thread.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time

from londiste.daemon.loop import pause
from londiste.db.connection import Connection, connect
from londiste.errors import LondisteError
from londiste.replication.ddl import sqlapi as state
from londiste.replication.ddl.classify import StatementTiming
from londiste.replication.ddl.failures import still_failed
from londiste.replication.ddl.non_transactional import run_alone
from londiste.replication.ddl.sqlapi import Script, State
from londiste.wording import exception_text

log = logging.getLogger(__name__)

#: Seconds between looks at the database while there is something to do or to decide.
POLL_SECONDS = 1.0
#: Seconds that a statement has to end when the worker ends.
_PATIENCE = 10.0


class Steps:
    """The background statements of one node.  The worker calls ``look_after`` repeatedly."""

    def __init__(self, dsn: str, queue: str, *, lock_timeout: float) -> None:
        self.lock_timeout = lock_timeout
        self._dsn = dsn
        self._queue = queue
        self._thread: threading.Thread | None = None
        self._conn: Connection | None = None
        self._error: LondisteError | None = None
        self._failures = 0
        self._next: float | None = 0.0
        self._stopping = False

    @property
    def busy(self) -> bool:
        """Whether a statement runs, or may have to."""
        return self._thread is not None or self._next is not None

    def wake(self) -> None:
        """Signals new work."""
        self._next = 0.0

    def rest(self) -> None:
        """Pauses until ``wake``."""
        self._next = None

    def look_after(self, conn: Connection, node: str) -> None:
        """Starts the next statement, unless one is running.

        conn -- session on the node, idle.

        Raises ScriptFailed until an operator has decided about a failed one.
        """
        if self._thread is not None:
            if self._thread.is_alive():
                return
            self._thread = None
            self._ended()
        if self._next is None or time.monotonic() < self._next:
            return
        todo = [
            script
            for script in state.get_scripts(conn, self._queue)
            if script.way is StatementTiming.AFTER and not script.state.over
        ]
        if not todo:
            self._next = None
            return
        self._next = time.monotonic() + POLL_SECONDS
        first = todo[0]
        if first.state is State.FAILED:
            self._next = 0.0
            raise still_failed(first)
        self._thread = threading.Thread(
            target=self._run, args=(first, node), name="script", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Cancels the running statement; the next worker continues it."""
        thread, self._thread = self._thread, None
        self._stopping = True
        if thread is not None and thread.is_alive():
            conn = self._conn
            if conn is not None:
                with contextlib.suppress(Exception):
                    conn.cancel_safe(timeout=_PATIENCE)
            thread.join(_PATIENCE)
        self._stopping = False
        self._error = None
        self._next = 0.0

    def _ended(self) -> None:
        error, self._error = self._error, None
        if error is None:
            self._failures = 0
            self._next = 0.0
            return
        self._next = 0.0
        if error.retry:
            self._failures += 1
            wait = pause(self._failures, longest=30.0)
            self._next = time.monotonic() + wait
            log.warning("%s; retrying in %.1f s", error.message, wait)

    def _run(self, script: Script, node: str) -> None:
        try:
            with contextlib.closing(
                connect(self._dsn, name=f"londiste: script {script.name}", autocommit=True)
            ) as conn:
                self._conn = conn
                if self._stopping:
                    return
                run_alone(
                    conn,
                    self._queue,
                    script.name,
                    script.sql,
                    script.attrs,
                    node=node,
                    root=False,
                    lock_timeout=self.lock_timeout,
                )
        except LondisteError as error:
            self._error = error
        except Exception as error:
            log.error("script %s: unexpected error", script.name, exc_info=error)
            self._error = LondisteError(
                f"unexpected {type(error).__name__}: {exception_text(error)}"
            )
        finally:
            self._conn = None
