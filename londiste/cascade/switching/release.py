"""Tables of a node that is dropped while they are copied become ordinary tables again.

A copy drops indexes, keys and foreign keys of its table, and stores how to restore them.  The
stored statements are lost with the node, so they run before it is dropped, in its transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.ddl import restoring
from londiste.db.names import TableName
from londiste.db.queries import fetch, first, has_function, translated
from londiste.errors import LockTimeout
from londiste.install import locks

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReleasedKey:
    """A foreign key that needs an operator; fields as in ``londiste.release_tables``."""

    from_table: str
    fkey_name: str
    statement: str
    reason: str | None

    def __str__(self) -> str:
        key = f"table {self.from_table}: foreign key {self.fkey_name}"
        if self.reason is None:
            return f"{key} is restored, its older rows are not validated: {self.statement};"
        return f"{key} is not restored ({self.reason}): {self.statement};"


def stop_copies(conn: Connection, queue: str) -> None:
    """Asks the copies of a node to release their tables; ends what they build there."""
    if not _is_there(conn):
        return
    for row in fetch(conn, "stop_copies", queue=queue):
        dest = TableName.parse(row["dest"])
        fetch(conn, "cancel_table_work", schema=dest.schema, name=dest.name)


def lock_tables(
    conn: Connection, queue: str, lock_timeout: float, table: TableName | None = None
) -> None:
    """Locks the tables of a node, or one of them, and their partitions that have its triggers.

    Each attempt gives way to writers, so many tables get more time than one: ``locks.PATIENCE``,
    or more by the setting ``lock_timeout``.

    Raises LockTimeout.
    """
    if not _is_there(conn):
        return
    named = None if table is None else str(table)
    found = fetch(conn, "tables_of_node", queue=queue, table=named)
    if table is not None and len(found) == 1:
        # The change waits for it.
        return
    patience = max(locks.PATIENCE, lock_timeout)
    try:
        with translated(conn):
            names = [TableName(row["schema"], row["name"]) for row in found]
            locks.take(conn, (), tables=names, patience=patience)
    except LockTimeout as error:
        error.say_more(
            f"waited {patience:g} s for it",
            f"{error.hint}; to wait longer: --set lock_timeout={5 * patience:.0f}",
        )
        raise


def release_tables(conn: Connection, queue: str) -> list[ReleasedKey]:
    """Restores what the copies of a node have dropped, in the open transaction.

    Returns the keys to report when it is committed.
    """
    if not any(_unfinished(conn, queue)):
        return []
    with restoring():
        return call.records(conn, ReleasedKey, "londiste.release_tables", queue)


def copies_left(conn: Connection, queue: str) -> bool:
    """Whether tables of a node are not in sync: something may have to be restored."""
    return _unfinished(conn, queue)[0]


def _unfinished(conn: Connection, queue: str) -> tuple[bool, bool]:
    """Whether there are such tables, and foreign keys that are dropped."""
    row = first(conn, "unfinished_copies", queue=queue) if _is_there(conn) else None
    return (False, False) if row is None else (bool(row[0]), bool(row[1]))


def report(keys: Sequence[ReleasedKey]) -> None:
    """Logs each key with the statement that an operator may run."""
    for key in keys:
        log.warning("%s", key)


def _is_there(conn: Connection) -> bool:
    """Whether the database has tables of Londiste; an older version cannot release them."""
    return has_function(conn, "londiste.release_tables(text)")
