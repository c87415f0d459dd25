"""Error of a worker, stored in the node's database for ``status``."""

from __future__ import annotations

import logging

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import WorkerState
from londiste.daemon.loop import describe
from londiste.db.connection import Connection, connect
from londiste.errors import LondisteError
from londiste.replication.worker.sessions import Sessions

log = logging.getLogger(__name__)


class ErrorReport:
    """Stores an error once, and clears it after a unit without one."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._stored = ""

    def clear(self, node: Connection, state: WorkerState) -> None:
        """Deletes the stored error, also that of an earlier process."""
        self._stored = ""
        if state.cur_error is not None:
            nodes.set_consumer_error(node, state.queue, state.worker, None)

    def store(self, error: LondisteError) -> None:
        """Stores the error, through a session of its own where the worker has none."""
        settings = self._sessions.settings
        text = describe(error)
        if text == self._stored:
            return
        try:
            conn = self._sessions.target or connect(
                settings.db, name="londiste worker: error", autocommit=True
            )
            try:
                nodes.set_consumer_error(conn, settings.queue_name, settings.consumer, text)
            finally:
                if conn is not self._sessions.target:
                    conn.close()
            self._stored = text
        except LondisteError as second:
            log.debug("error not stored: %s", second)
