"""Indexes of event tables by which batches are read: those that are missing, and their return."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.connection import Connection
from londiste.db.names import TableName, quote
from londiste.db.queries import records, translated


@dataclass(frozen=True)
class UnindexedTable:
    """An event table without its index.

    broken -- an index of that name exists and is not valid.
    """

    queue: str
    schema: str
    name: str
    broken: bool

    @property
    def statements(self) -> tuple[str, ...]:
        """What creates the index while producers insert; not in a transaction."""
        index = f"{self.name}_txid_idx"
        table = TableName(self.schema, self.name).quoted
        drop = f"drop index concurrently {TableName(self.schema, index).quoted}"
        create = f"create index concurrently {quote(index)} on {table} (ev_txid)"
        return (drop, create) if self.broken else (create,)


def find(conn: Connection, queue: str | None = None) -> list[UnindexedTable]:
    """The event tables of a queue, or of all, that lack their index."""
    return records(conn, UnindexedTable, "unindexed_event_tables", queue=queue)


def restore(conn: Connection) -> list[UnindexedTable]:
    """Creates all missing indexes; returns their tables.

    conn -- in autocommit mode and not inside a transaction.
    """
    found = find(conn)
    for one in found:
        for statement in one.statements:
            with translated(conn):
                conn.execute(statement.encode())
    return found
