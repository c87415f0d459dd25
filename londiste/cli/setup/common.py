"""What the set-up commands share: a connection."""

from __future__ import annotations

from londiste.cli import options
from londiste.db.connection import IDLE_SECONDS, Connection, connect
from londiste.settings import DatabaseSettings


def connection(ctx: options.Context, db: str | None) -> Connection:
    """The database of the settings or of ``--db``; autocommit."""
    settings = ctx.settings(DatabaseSettings, db=db)
    return connect(
        settings.db,
        name="londiste install",
        autocommit=True,
        idle_timeout_ms=IDLE_SECONDS * 1000,
    )
