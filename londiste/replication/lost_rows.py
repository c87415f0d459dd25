"""Tables that may lack rows: replaced, without a partition, or changed without events."""

from __future__ import annotations

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import tuples

#: Of a table with the name of another one.
REPLACED = "is not the table that was copied"
#: Of a table of a subscriber, with the name of the partition.
DETACHED = "has lost its partition"
#: Of a table whose old rows may differ from those of the other nodes.
REWRITTEN = "was changed on this node without events"


def find(conn: Connection, queue: str) -> dict[TableName, str]:
    """The tables of a node, and what is wrong.  Raises InstallError for an older node."""
    found: dict[TableName, str] = {}
    for name, partition in tuples(conn, "lost_rows", queue=queue):
        what = f"{DETACHED} {partition}" if partition else REPLACED
        found.setdefault(TableName.parse(name), what)
    return found


def note(conn: Connection, queue: str, table: TableName) -> None:
    """Stores that a table in sync was changed without events; a comparison or a copy ends it."""
    call.value(conn, "londiste.note_rewrite", queue, str(table))
