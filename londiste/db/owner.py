"""Writes to tables with the rights of their owners.

What is attached to a table runs when rows are written: triggers, checks, defaults, expressions of
indexes.  A worker is often a superuser, and must not lend its rights to the owner of a table.  So
statements on such tables go through ``londiste.write_as_owner``, which has the reasons why nothing
less would do.
"""

from __future__ import annotations

from typing import Any

import psycopg

from londiste.db import call, copy
from londiste.db.connection import Connection, pins
from londiste.db.names import TableName
from londiste.db.queries import query, translated
from londiste.db.relation import Relation, has_changed, hold, shapes
from londiste.errors import TransientError

#: Settings that the program gives a session or a transaction apart from those of ``connect``.
_OTHERS = (
    "application_name",
    "synchronous_commit",
    "session_replication_role",
    "work_mem",
    "maintenance_work_mem",
    "client_connection_check_interval",
)

_STATEMENT = (
    "select londiste.write_as_owner($1::pg_catalog.oid, $2::pg_catalog.text, $3::pg_catalog.text,"
    " $4::pg_catalog.bool, $5::pg_catalog.text[], $6::pg_catalog.text[])"
)


def guarded(
    conn: Connection, table: int, statement: str, data: str | None = None, *, answer: bool = False
) -> tuple[str, list[Any]]:
    """The statement with ``$1`` … that runs ``statement`` as the owner of ``table``, an oid.

    It answers with one array of texts: the number of rows, or, with ``answer``, the array that the
    statement selects.
    """
    call.expect_code(conn)
    kept = pins(conn)
    names = [*kept, *(name for name in _OTHERS if name not in kept)]
    return _STATEMENT, [table, statement, data, answer, names, [kept.get(n) for n in names]]


def hit(cursor: psycopg.Cursor[Any]) -> int:
    """The number of rows that a guarded statement changed."""
    row = cursor.fetchone()
    return int(row[0][0]) if row is not None else 0


def ask(conn: Connection, shape: Relation, statement: str, data: str) -> list[str | None]:
    """Makes a query that returns one array of texts, run as the owner of the table."""
    cursor = psycopg.RawCursor(conn)
    if shape.of_other:
        cursor.execute(*guarded(conn, shape.oid, statement, data, answer=True))
    else:
        cursor.execute(statement, [data])
    row = cursor.fetchone()
    return list(row[0]) if row is not None and row[0] is not None else []


def run(conn: Connection, table: TableName, statement: str) -> int:
    """Runs a statement as the owner of the table it writes; the number of rows it changed.

    The errors of the statement come as psycopg raises them.
    """
    found = conn.execute(query("table_oid"), table._asdict()).fetchone()
    if found is None:
        # The statement says that it is not there.
        return conn.execute(statement.encode()).rowcount
    if not found[1]:
        if not found[2]:
            return conn.execute(statement.encode()).rowcount
        with conn.transaction():
            _hold(conn, table)
            return conn.execute(statement.encode()).rowcount
    return hit(psycopg.RawCursor(conn).execute(*guarded(conn, int(found[0]), statement)))


def _hold(conn: Connection, table: TableName) -> None:
    """Keeps the name of a table for it until the transaction ends.  Raises TransientError."""
    known = list(shapes(conn, [table]).values())
    try:
        if not known or known[0].of_other:
            raise _replaced(table)
        hold(conn, known)
    except psycopg.Error as error:
        if has_changed(error):
            raise _replaced(table) from error
        raise


def _replaced(table: TableName) -> TransientError:
    return TransientError(f"table {table} was replaced by another one", hint="repeat the command")


class OwnerStatement:
    """The table that COPY writes: the target itself, or a temporary table instead of it.

    Made in the transaction of the COPY; ``finish`` follows in it.
    """

    def __init__(self, conn: Connection, table: TableName, columns: list[str]) -> None:
        self._conn = conn
        self._insert: str | None = None
        self.into = table
        with translated(conn):
            found = conn.execute(query("table_oid"), table._asdict()).fetchone()
            if found is None or not found[1]:
                if found is not None and found[2]:
                    _hold(conn, table)
                return
            self._oid = int(found[0])
            self._insert = call.value(conn, "londiste.stage_for_owner", self._oid, columns)
        if self._insert is not None:
            self.into = TableName("pg_temp", "londiste_stage")

    @property
    def direct(self) -> bool:
        """COPY writes the table itself."""
        return self._insert is None

    def finish(self, rows: int) -> None:
        """Moves the staged rows into the table.  Raises StateError if their number differs."""
        if self._insert is None:
            return
        with translated(self._conn):
            cursor = psycopg.RawCursor(self._conn)
            written = hit(cursor.execute(*guarded(self._conn, self._oid, self._insert)))
            self._conn.execute("drop table pg_temp.londiste_stage")
        if written != rows:
            raise copy.miscounted(rows, written)


def copies_directly(conn: Connection, table: int) -> bool:
    """Whether COPY may write a table of another role: it runs no code of its owner.

    The table is locked so that it stays so until the transaction ends.
    """
    return bool(call.value(conn, "londiste.copies_directly", table))


def truncate(conn: Connection, table: TableName, *, tree: bool) -> None:
    """Empties a table as its owner.

    tree -- it is partitioned: with its partitions.
    """
    run(conn, table, f"truncate {table.own(tree).as_string(conn)}")
