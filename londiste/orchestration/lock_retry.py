"""Retries of a transaction that waits for a table lock, with short attempts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from londiste.db.connection import Connection
from londiste.errors import Deadlock, LockTimeout
from londiste.orchestration.connections import Connections

T = TypeVar("T")

#: Seconds that one attempt waits for its locks.
_TRY_SECONDS = 1.0


def retry_locked(
    sites: Connections,
    dsn: str,
    work: Callable[[Connection], T],
    *,
    before: Callable[[], object] | None = None,
) -> T:
    """Calls ``work`` in its own transaction, again after a lock timeout; returns its result.

    before -- called before each attempt.

    Raises LockTimeout or Deadlock of the last attempt after ``sites.lock_timeout`` seconds.
    """
    deadline = time.monotonic() + sites.lock_timeout
    limit = min(_TRY_SECONDS, sites.lock_timeout)
    while True:
        if before is not None:
            before()
        try:
            with sites.transaction(dsn) as conn:
                conn.execute(
                    "select pg_catalog.set_config('lock_timeout', %s, true)",
                    [f"{limit * 1000:.0f}ms"],
                )
                return work(conn)
        except (LockTimeout, Deadlock):
            if time.monotonic() >= deadline:
                raise
