"""Holds tables as they are known while rows are written into them.

A statement names its table.  Between the moment at which the table was read and the statement, the
owner of its schema can put another table under the name, with triggers that would run as the
worker.  So such tables are locked first, and all are compared with what is known.  Tables of other
roles need no lock: ``londiste.write_as_owner`` asks for their owner itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import psycopg

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.db.relation import Relation

#: A table or schema is gone, or a query has found another one.
_CHANGED = {"22P02", "42P01", "3F000"}


def hold(
    conn: Connection, tables: Sequence[Relation], emptied: Collection[TableName] = ()
) -> psycopg.Cursor[Any]:
    """Fails if a table has changed; those that another role can replace stay until the commit.

    In a pipeline the error comes later, and no statement after this one is executed.  The cursor
    is that of the last statement.

    emptied -- tables that TRUNCATE will lock: it must not wait for a session that waits for us.
    """
    exposed = [table for table in tables if table.exposed]
    if exposed:
        _lock(conn, exposed, emptied)
    known = {table.oid: table.version for table in tables}
    versions = ",".join(known[oid] for oid in sorted(known))
    return conn.execute(query("require_versions"), {"oids": list(known), "versions": versions})


def has_changed(error: psycopg.Error) -> bool:
    """Whether the error of ``hold`` says that a table has changed."""
    return error.sqlstate in _CHANGED


def _lock(conn: Connection, tables: Sequence[Relation], emptied: Collection[TableName]) -> None:
    schemas = {table.name.schema for table in tables if table.holds_schema}
    if schemas:
        conn.execute(
            "select from pg_catalog.pg_namespace where nspname = any(%s::text[]) for key share",
            [list(schemas)],
        )
    for mode, some in (
        ("access exclusive", [t for t in tables if t.name in emptied]),
        ("row exclusive", [t for t in tables if t.name not in emptied]),
    ):
        if some:
            names = ", ".join(f"only {table.name.quoted}" for table in some)
            conn.execute(f"lock table {names} in {mode} mode".encode())
    conn.execute(
        query("require_names"),
        {"oids": [t.oid for t in tables], "names": [t.name.quoted for t in tables]},
    )
