"""The database, the page of rows and the open batch of the commands about queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

import click

from londiste.cli import options
from londiste.db.connection import IDLE_SECONDS, Connection, session
from londiste.db.names import word
from londiste.errors import BadOption, Deadlock, LockTimeout, StateError
from londiste.orchestration.connections import Connections
from londiste.orchestration.lock_retry import lock_holders, retry_locked
from londiste.pgq import batches, queues
from londiste.pgq.types import Batch
from londiste.settings import DatabaseSettings

T = TypeVar("T")

limit_option = click.option(
    "--limit", metavar="N", default=20, show_default=True, help="Maximum rows to print (0 = all)."
)
offset_option = click.option("--offset", metavar="N", default=0, help="Rows to skip.")


def require_page(limit: int, offset: int) -> None:
    """Raises BadOption for a negative ``--limit`` or ``--offset``."""
    if limit < 0 or offset < 0:
        raise BadOption(
            "--limit and --offset must not be negative", hint="use 0 for no limit or no offset"
        )


def opened(ctx: options.Context, db: str | None) -> AbstractContextManager[Connection]:
    """The database of the settings or of ``--db`` during a with block; autocommit."""
    settings = ctx.settings(DatabaseSettings, db=db)
    return session(
        settings.db,
        name="londiste queue",
        autocommit=True,
        synchronous=True,
        idle_timeout_ms=IDLE_SECONDS * 1000,
    )


def without_writers(
    sites: Connections,
    dsn: str,
    names: Sequence[str],
    work: Callable[[Connection], T],
    state: str = "nothing was changed",
) -> T:
    """Calls ``work`` in its own transaction, while no other open one has written into these queues.

    state -- of the queues, for the error.

    Raises LockTimeout, which names the transactions that do not end in time.
    """

    def locked(conn: Connection) -> T:
        for name in names:
            queues.lock_out_writers(conn, name)
        return work(conn)

    try:
        return retry_locked(sites, dsn, locked)
    except (LockTimeout, Deadlock) as error:
        tables = [queues.event_table(sites.at(dsn), name) for name in names]
        held = [one for table in tables for one in lock_holders(sites, dsn, table, writers=True)]
        end = "; ".join(one.remedy for one in held)
        raise LockTimeout(
            f"a transaction that has written into queue {', '.join(names)} is open; {state}",
            detail="; ".join([error.message, *(f"locked by {one}" for one in held)]),
            hint=f"end it: {end}; then repeat the command" if end else "repeat the command",
        ) from error


def open_batch(conn: Connection, batch_id: int, queue: str | None = None) -> Batch:
    """An open batch by number; StateError if it is not open, or of another queue."""
    batch = batches.get_batch_info(conn, batch_id)
    if batch is None or queue not in (None, batch.queue):
        raise StateError(
            f"batch {batch_id} is not open" + (f" on queue {queue}" if queue else ""),
            detail="" if batch is None else f"it belongs to queue {batch.queue}",
            hint=f"londiste queue consumers{f' {word(queue)}' if queue else ''} lists the open"
            " batches",
        )
    return batch
