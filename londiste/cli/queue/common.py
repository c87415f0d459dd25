"""How the commands that change a queue end: explained, or done in one transaction, and reported."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from londiste.cli import options, output
from londiste.db.connection import Connection, session
from londiste.pgq.admin import QueueChange
from londiste.settings import DatabaseSettings


def opened(ctx: options.Context, db: str | None) -> AbstractContextManager[Connection]:
    """The database of the settings or of ``--db``, for the length of a with block; autocommit."""
    settings = ctx.settings(DatabaseSettings, db=db)
    return session(settings.db, name="londiste queue", autocommit=True, synchronous=True)


def execute_changes(
    conn: Connection, changes: Sequence[QueueChange], *, explain: bool, as_json: bool
) -> None:
    """Prints the changes, or makes all of them or none.  ``conn`` is in autocommit."""
    if explain:
        output.steps(changes, json_wanted=as_json)
        return
    with conn.transaction():
        for change in changes:
            change.act(conn)
    for change in changes:
        output.message(change.text)
    if as_json:
        output.as_json({"done": [change.text for change in changes]})
