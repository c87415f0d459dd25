"""Adds a foreign key that a copy has dropped.

A statement that reads the rows of the table runs as its owner: casts that he has created, which may
be functions of any kind, are called for each row.
"""

from __future__ import annotations

import re

from londiste.db import owner
from londiste.db.connection import Connection
from londiste.db.names import TableName, quote
from londiste.db.queries import first
from londiste.dsn import describe_dsn
from londiste.errors import AccessDenied
from londiste.replication.model import PendingForeignKey

_READS_NOTHING = re.compile(r" NOT (VALID|ENFORCED)$")


def reads_rows(statement: str) -> bool:
    """Whether the first statement of ``londiste.restore_table_fkey`` reads the rows of the table.

    Before PostgreSQL 18 that of a partitioned table does.
    """
    return _READS_NOTHING.search(statement) is None


def add_foreign_key(conn: Connection, key: PendingForeignKey, statement: str) -> None:
    """Runs the first statement of ``londiste.restore_table_fkey``.

    Raises AccessDenied if the owner of the table has to run it and lacks rights on the other one.
    """
    if not reads_rows(statement):
        conn.execute(statement.encode())
        return
    _require_rights(conn, key.from_table, key.to_table)
    owner.run(conn, key.from_table, statement)


def _require_rights(conn: Connection, table: TableName, other: TableName) -> None:
    names = {**table._asdict(), "to_schema": other.schema, "to_name": other.name}
    row = first(conn, "key_rights", **names)
    if row is None or (row[1] and row[2]):
        return
    # regrole has quoted it.
    role = row[0]
    grants = [] if row[1] else [f"grant usage on schema {quote(other.schema)} to {role}"]
    if not row[2]:
        grants.append(f"grant references on {other.quoted} to {role}")
    what = f"REFERENCES on table {other}" if not row[2] else f"USAGE on schema {other.schema}"
    raise AccessDenied(
        f"table {table}: its owner {role} lacks {what}",
        detail="a foreign key of a partitioned table is added with the rights of its owner",
        hint=f"as an administrator of {describe_dsn(conn.info.dsn)}: {'; '.join(grants)}",
    )
