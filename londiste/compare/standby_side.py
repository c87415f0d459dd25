"""The standby on which a comparison reads the root's rows.

A tick of the queue is made for the standby's snapshot, as ``pause_at_tick`` does for the root's:

    root      tick A ─────────── lock_ticks ─────────────────────── tick T with S ── commit
    standby   A is replayed ──── newest tick is replayed ── snapshot S exported, worked out

While ticks are locked the standby is waited for, one second at most; writers never wait.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import psycopg

from londiste.db.connection import Connection, describe_dsn, limit_answers, limit_silence, usable
from londiste.db.queries import translated
from londiste.errors import BadOption, LondisteError, TransientError
from londiste.pgq import queues, ticks
from londiste.pgq.types import Tick
from londiste.standby import health as states
from londiste.standby import server
from londiste.standby.health import Health
from londiste.standby.snapshot import export, wait_for_tick
from londiste.standby.ticks import looks

log = logging.getLogger(__name__)

#: Seconds for which ticks are locked at most: for the replay, and until the root has finished what
#: the standby sees as committed.
_LOCKED = 1.0
#: Seconds in which the standby answers meanwhile, or counts as lost.
_LOCKED_ANSWER = 2.0
#: Maximum seconds until a standby that failed is tried again.
_LONGEST_PAUSE = 60.0


class StandbySide:
    """One standby of the root; while it fails, the root is read.

    dsn -- connection string of the standby.
    wait -- seconds to wait for its replay.
    answer_seconds -- see ``connect``.
    """

    def __init__(self, dsn: str, wait: float, answer_seconds: float) -> None:
        self.dsn = dsn
        self.place = describe_dsn(dsn)
        self.wait = wait
        self._answer_seconds = answer_seconds
        self._health = Health()
        self._conn: Connection | None = None

    def tick(
        self, root: Connection, queue: str, halt: Callable[[], None]
    ) -> tuple[str, int] | None:
        """Makes a tick at a snapshot of the standby, which stays open: its name, and the tick.

        root -- an idle session on the root.
        halt -- called before ticks are locked: pauses the worker.
        None: the standby cannot be read now, and the log says why.
        """
        if not states.may_ask(self._health, time.monotonic()):
            return None
        try:
            conn = self._session(root)
            queues.create_tick(root, queue)
            wait_for_tick(conn, queue, self._newest(root, queue), self.wait)
            halt()
            with translated(root), root.transaction():
                queues.lock_ticks(root, queue)
                # One that is silent must not make that longer.
                limit_answers(conn, _LOCKED_ANSWER)
                last = self._newest(root, queue)
                wait_for_tick(conn, queue, last, _LOCKED)
                exported = export(conn, queue, last)
                tick = _tick_at(root, queue, exported.snapshot)
            limit_silence(conn, self._answer_seconds)
        except (LondisteError, psycopg.Error) as error:
            self.fail(error)
            return None
        return exported.name, tick

    @property
    def failures(self) -> int:
        """Failures since it was last read."""
        return self._health.failures

    def answered(self) -> None:
        """What was to be read was read."""
        self._health = states.answers()

    def fail(self, error: Exception) -> None:
        """Notes and logs a failure of what reads there."""
        text, hint = server.reason(error, self.place)
        self._health = states.failed(self._health, time.monotonic(), text, _LONGEST_PAUSE)
        log.warning("standby %s: %s; reading from the root%s", self.place, text, hint)
        self.close()

    def release(self) -> None:
        """Ends the snapshot."""
        if self._conn is not None and not self._conn.closed:
            try:
                self._conn.rollback()
            except psycopg.Error:
                self.close()

    def close(self) -> None:
        """Ends the session."""
        conn, self._conn = self._conn, None
        if conn is not None:
            conn.close()

    def _session(self, root: Connection) -> Connection:
        if self._conn is None or not usable(self._conn):
            self.close()
            self._conn = server.open_session(
                self.dsn,
                server.look(root),
                name="londiste compare: standby",
                answer_seconds=self._answer_seconds,
            )
        return self._conn

    @staticmethod
    def _newest(root: Connection, queue: str) -> Tick:
        found = ticks.newest(root, queue)
        if found is None:
            raise TransientError(f"queue {queue}: no tick yet")
        return found


def _tick_at(root: Connection, queue: str, snapshot: str) -> int:
    """Creates the tick.  The standby may see a commit before the root has finished it."""
    refused: BadOption | None = None
    for _ in looks(time.monotonic() + _LOCKED):
        try:
            with root.transaction():
                return queues.tick_at_snapshot(root, queue, snapshot)
        except BadOption as error:
            refused = error
    raise TransientError("it sees transactions that the root has not finished") from refused
