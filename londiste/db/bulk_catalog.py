"""Bulk catalog queries: size, columns and fingerprint of several tables at once.

``catalog`` and ``marks`` return the same for one table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from londiste.db.catalog import Column
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch
from londiste.db.table_fingerprint import Fingerprint, MarkedColumn, Shape


@dataclass(frozen=True)
class TableFacts:
    """Catalog facts of one table.

    kind -- ``r`` table, ``p`` partitioned table, ``v`` view, …
    bytes -- of the heap; ``total_bytes`` with its TOAST table.
    has_sequence -- a sequence belongs to one of the columns.
    """

    name: TableName
    kind: str
    bytes: int
    total_bytes: int
    rows_estimate: float
    has_sequence: bool
    columns: tuple[Column, ...]
    mark: Fingerprint
    _types: dict[str, tuple[int, int, bool]]

    def has_domain(self, names: Collection[str]) -> bool:
        """Whether one of these columns has a domain as its type."""
        return any(self._types[name][2] for name in names)

    def shape(self, names: Sequence[str]) -> Shape:
        """What ``marks.shape`` has to say of these columns, as long as they are the same.

        Not for columns of domains, of which the server tells the type below.
        """
        numbers = {column.name: column.number for column in self.mark.columns}
        return tuple((self.mark.oid, numbers[name], *self._types[name][:2]) for name in names)


def known(conn: Connection, tables: Collection[TableName]) -> dict[TableName, TableFacts]:
    """The facts of the existing ones of these tables."""
    found = {}
    for row in fetch(conn, "group_tables", **_names(tables)):
        name = TableName(row["schema"], row["name"])
        columns = row["columns"]
        found[name] = TableFacts(
            name=name,
            kind=row["kind"],
            bytes=row["bytes"],
            total_bytes=row["total_bytes"],
            rows_estimate=row["rows_estimate"],
            has_sequence=row["has_sequence"],
            columns=tuple(
                Column(
                    name=c["name"],
                    type=c["type"],
                    not_null=c["not_null"],
                    default=c["default"],
                    identity=c["identity"],
                    generated=c["generated"],
                    builtin=c["builtin"],
                )
                for c in columns
            ),
            mark=Fingerprint(
                row["oid"],
                row["filenode"],
                tuple(
                    MarkedColumn(
                        c["name"],
                        c["number"],
                        c["type"],
                        c["version"],
                        c["has_default"],
                        c["generated"] != "",
                    )
                    for c in columns
                ),
            ),
            _types={c["name"]: (c["type_oid"], c["modifier"], c["domain"]) for c in columns},
        )
    return found


def sizes(conn: Connection, tables: Collection[TableName]) -> dict[TableName, int]:
    """Size on disk of the existing ones of these tables, in bytes, without indexes."""
    return {
        TableName(row["schema"], row["name"]): row["total_bytes"]
        for row in fetch(conn, "table_sizes", **_names(tables))
    }


def _names(tables: Collection[TableName]) -> dict[str, list[str]]:
    return {"schemas": [t.schema for t in tables], "names": [t.name for t in tables]}
