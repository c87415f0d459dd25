"""The database, the page of rows and the open batch of the commands about queues."""

from __future__ import annotations

from contextlib import AbstractContextManager

import click

from londiste.cli import options
from londiste.db.connection import IDLE_SECONDS, Connection, session
from londiste.db.names import word
from londiste.errors import BadOption, StateError
from londiste.pgq import batches
from londiste.pgq.types import Batch
from londiste.settings import DatabaseSettings

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
