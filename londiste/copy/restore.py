"""Restores indexes and constraints after a copy, and analyzes the table.

One transaction: a process that dies in it leaves the statements stored, so the next process
starts from the first of them.
"""

from __future__ import annotations

import logging
import re
import time

import psycopg
from psycopg import sql

from londiste.changes.row_values import format_detail
from londiste.copy.prepare import find
from londiste.db import ddl
from londiste.db.connection import Connection, whereabouts
from londiste.db.ddl import NOT_UNIQUE, run_stored
from londiste.db.names import TableName
from londiste.db.queries import query, translated
from londiste.error_values import Values, server_text
from londiste.errors import EventError, LondisteError, from_database
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable

log = logging.getLogger(__name__)


def restore(conn: Connection, queue: str, table: ReplicatedTable) -> bool:
    """Runs the stored statements and deletes them.

    Returns False when nothing was stored.  ``conn`` in autocommit mode.

    Raises EventError when the rows do not fit a unique or exclusion constraint, LockTimeout.
    """
    started = time.monotonic()
    try:
        with conn.transaction():
            conn.execute(
                sql.SQL("lock table only {} in access exclusive mode").format(table.dest.sql)
            )
            now = find(conn, queue, table)
            if now is None or not now.dropped_ddl:
                return False
            more_sort_memory(conn)
            run_stored(conn, now.dropped_ddl)
            tables.local_set_table_struct(conn, queue, table.name, None)
    except psycopg.Error as error:
        raise not_built(conn, queue, table, error) from error
    log.info("table %s: built indexes in %.1f s", table.dest, time.monotonic() - started)
    return True


def build_key(conn: Connection, queue: str, table: ReplicatedTable, key_ddl: str) -> bool:
    """Runs the first of the stored statements, which restore the key, and deletes them.

    Returns False when they were run before.  ``conn`` in autocommit mode.

    Raises EventError when the rows do not fit the key, LockTimeout.
    """
    started = time.monotonic()
    try:
        with conn.transaction():
            conn.execute(
                sql.SQL("lock table only {} in access exclusive mode").format(table.dest.sql)
            )
            now = find(conn, queue, table)
            stored = (now.dropped_ddl if now is not None else None) or ""
            if not key_ddl or not stored.startswith(key_ddl):
                return False
            more_sort_memory(conn)
            conn.execute(key_ddl.encode())
            rest = stored.removeprefix(key_ddl)
            # Without ANALYZE, which comes with the last of the indexes: the build has told the
            # planner how large the table is, and rows are looked for by a unique index.
            tables.local_set_table_struct(conn, queue, table.name, rest or None)
    except psycopg.Error as error:
        raise not_built(conn, queue, table, error) from error
    log.info("table %s: built the key in %.1f s", table.dest, time.monotonic() - started)
    return True


def not_built(
    conn: Connection, queue: str, table: ReplicatedTable, error: psycopg.Error
) -> LondisteError:
    """The Londiste error for an index or key that could not be built."""
    if error.sqlstate in NOT_UNIQUE:
        detail = format_detail(error)
        return EventError(
            f"table {table.dest}: {server_text(error)}",
            detail=detail,
            # A trigger refuses other writes: the table is a copy.
            hint="correct the rows of the target table in a session with: set"
            " session_replication_role = replica"
            + _duplicates(detail, table.dest)
            + "; the index is then built again automatically"
            + _given_up(conn, queue, table, error.diag.constraint_name or ""),
            queue=queue,
        )
    return from_database(error, where=whereabouts(conn), values=Values.APART)


_DUPLICATED = re.compile(r"(?s)Key \((.*)\)=\(…\) is duplicated\.")


def _duplicates(detail: str, dest: TableName) -> str:
    """Pure: the part of the hint with the statement that finds rows with equal keys; or ''."""
    found = _DUPLICATED.fullmatch(detail)
    if found is None:
        return ""
    keys = found[1]
    return (
        f", which this statement finds: select {keys}, count(*) from {dest.quoted}"  # noqa: S608
        f" group by {keys} having count(*) > 1"
    )


def _given_up(conn: Connection, queue: str, table: ReplicatedTable, name: str) -> str:
    """The end of the hint: the statement that gives up an index which the provider does not have.

    Its definition is stored, so it cannot be dropped.
    """
    now = find(conn, queue, table)
    parts = ddl.named((now.dropped_ddl if now is not None else None) or "", name)
    if not parts:
        return ""
    calls = ", ".join(
        f"londiste.copy_piece_done({', '.join(map(_constant, (queue, str(table.name), part)))})"
        for part in parts
    )
    return f"; if the table of the provider has no {name}, give it up on this node: select {calls}"


def _constant(text: str) -> str:
    """A string constant in one line."""
    return ddl.literal(text).replace("\n", "\\n")


def more_sort_memory(conn: Connection) -> None:
    """At least 256 MB for building indexes, until the transaction ends."""
    conn.execute(query("more_sort_memory"))


def analyze(conn: Connection, table: ReplicatedTable) -> None:
    """Runs ANALYZE on a table."""
    with translated(conn):
        conn.execute(sql.SQL("analyze {}").format(table.dest.sql))
