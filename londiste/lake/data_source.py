"""The data source of Spark for tables of a cascade, of which a branch may keep other rows."""

from __future__ import annotations

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.engine.spark.source import PgqDataSource
from londiste.replication import branch_rows


class CascadeDataSource(PgqDataSource):
    """Refuses to start a stream with rows of a branch that are not those of its events."""

    @staticmethod
    def require_rows(conn: Connection, queue: str, table: TableName) -> None:
        """Raises StateError for such a table."""
        branch_rows.require(conn, queue, table)
