"""What the set-up commands share: a connection, and connection strings without passwords."""

from __future__ import annotations

from collections.abc import Sequence

from londiste.cli import options
from londiste.daemon import child
from londiste.db.connection import Connection, connect
from londiste.dsn import masked, secrets_of
from londiste.settings import DatabaseSettings


def connection(ctx: options.Context, db: str | None) -> Connection:
    """The database of the settings or of ``--db``; autocommit."""
    settings = ctx.settings(DatabaseSettings, db=db)
    return connect(settings.db, name="londiste install", autocommit=True)


def without_passwords(dsns: Sequence[str]) -> list[str]:
    """The connection strings as they were given; the list of processes shows no password of them.

    Raises BadOption.
    """
    known = child.given()
    if not known:
        child.hide({dsn: masked(dsn) for dsn in dsns if secrets_of(dsn)})
    return [known.get(dsn, dsn) for dsn in dsns]
