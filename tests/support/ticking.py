"""A ticker for tests of processes that consume a queue."""

from __future__ import annotations

import threading

from londiste.db.connection import session
from londiste.pgq import queues
from tests.fixtures.cluster import Database


class Ticker:
    """Ticks a queue and moves its retries, again and again, until the block ends."""

    def __init__(self, db: Database, queue: str) -> None:
        self._db = db
        self._queue = queue
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Ticker:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _run(self) -> None:
        with session(self._db.dsn, autocommit=True) as conn:
            while not self._over.wait(0.05):
                queues.maint_retry_events(conn)
                queues.force_tick(conn, self._queue)
                queues.ticker(conn, self._queue)
