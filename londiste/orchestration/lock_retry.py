"""Lock retry: a transaction that waits for a table lock, in short attempts.

Writers queue behind a requested lock, so each attempt waits at most a second.  One table per
transaction: holding one lock while waiting for the next could deadlock with an application, and the
server might choose the application as the victim.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from londiste.db.connection import Connection
from londiste.db.names import TableName
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


def with_table(
    sites: Connections, dsn: str, table: TableName, node: str, work: Callable[[Connection], T]
) -> T:
    """Calls ``work`` in its own transaction, in which it may lock ``table``; returns its result.

    Raises LockTimeout when the table stays locked for ``sites.lock_timeout`` seconds.
    """
    try:
        return retry_locked(sites, dsn, work)
    except (LockTimeout, Deadlock) as error:
        raise LockTimeout(
            f"node {node}: table {table} stays locked",
            detail=f"waited {sites.lock_timeout:g} s for its lock; earlier tables of the list are"
            " done",
            hint="end the long transaction (see pg_stat_activity, pg_locks), then run the command"
            " again",
        ) from error
