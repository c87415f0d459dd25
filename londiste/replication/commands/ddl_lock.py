"""Lock retry: locks a table for DDL in short attempts, so that writers never wait long.

Writers queue behind a requested lock, so each attempt waits at most a second.  One table per
transaction: holding one lock while waiting for the next could deadlock with an application, and the
server might choose the application as the victim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.errors import Deadlock, LockTimeout
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import retry_locked

T = TypeVar("T")


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
