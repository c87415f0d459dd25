"""Tables of a subscriber that lack rows: another one of the name, or a partition was detached."""

from __future__ import annotations

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import tuples


def find(conn: Connection, queue: str) -> dict[TableName, str]:
    """The tables of a node, and what is wrong.  Raises InstallError for an older node."""
    found: dict[TableName, str] = {}
    for name, partition in tuples(conn, "lost_rows", queue=queue):
        detached = f"has lost its partition {partition}" if partition else ""
        found.setdefault(TableName.parse(name), detached or "is not the table that was copied")
    return found
