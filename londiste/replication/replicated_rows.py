"""Captures of rows that replication writes into a table: they fire if they are ENABLE ALWAYS."""

from __future__ import annotations

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName


def fire_always(conn: Connection, queue: str, dest: TableName) -> bool:
    """Lets the capture of a table fire for replicated rows, too; False when it did already."""
    return bool(call.value(conn, "londiste.fire_always", queue, str(dest)))
