"""Views that have the names of tables: they are not read.

A table is read by its name, with the rights of the reader, who is often a superuser.  Its owner can
rename it and give the name to a view, whose functions would run with these rights.  The server
refuses to read views while a parameter says so; no check before the read is complete.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator

from psycopg import sql

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import translated, tuples
from londiste.errors import StateError, TransientError


def refuse_views(conn: Connection, *names: TableName, conditions: Iterable[str] = ()) -> None:
    """Until the transaction ends, or the next call in it, the session reads no view of a user.

    names -- the tables that are read.
    conditions -- those of users over their rows.  They may read views, so only the tables are
        looked at, and locked as a read does; so they are where the server has no such parameter.

    Raises StateError for a view, TransientError for a table that has been replaced.
    """
    own = any(conditions)
    if not _refused(conn, names, own) and names:
        with translated(conn):
            conn.execute(
                sql.SQL("lock table {} in access share mode").format(
                    sql.SQL(", ").join(sql.SQL("only {}").format(name.sql) for name in names)
                )
            )
        _refused(conn, names, own)


@contextlib.contextmanager
def reading(conn: Connection, *names: TableName, conditions: Iterable[str] = ()) -> Iterator[None]:
    """Around statements that read tables and change nothing: as ``refuse_views``, for them only."""
    with conn.transaction(force_rollback=True):
        refuse_views(conn, *names, conditions=conditions)
        yield


def _refused(conn: Connection, names: Iterable[TableName], own: bool) -> bool:
    """Whether the server refuses views now.  Raises the errors of ``refuse_views``."""
    known = list(names)
    ((restricted, views, replaced),) = tuples(
        conn,
        "refuse_views",
        views=own,
        schemas=[name.schema for name in known],
        names=[name.name for name in known],
    )
    if views:
        raise StateError(
            f"{views[0]} is a view, and not the table that is read",
            detail="reading it could run functions of its owner with the rights of this session",
            hint="find out who has made it; then drop it and give its name to the table:"
            " alter table … rename to …",
        )
    if replaced and not restricted:
        raise TransientError(
            f"table {replaced[0]} was replaced by another one", hint="repeat the command"
        )
    return bool(restricted)
