"""Bulk catalog queries: size, columns and fingerprint of several tables at once.

``catalog`` and ``marks`` return the same for one table.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from londiste.db.catalog import Column
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch, records
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
    return {facts.name: facts for facts in records(conn, _facts, "group_tables", **_names(tables))}


def _facts(
    *,
    schema: str,
    name: str,
    oid: int,
    filenode: int,
    columns: Sequence[dict[str, Any]],
    marks: Sequence[Sequence[Any]],
    types: dict[str, Sequence[Any]],
    **row: Any,
) -> TableFacts:
    return TableFacts(
        name=TableName(schema, name),
        columns=tuple(Column(**column) for column in columns),
        mark=Fingerprint(oid, filenode, tuple(MarkedColumn(*column) for column in marks)),
        _types={column: (type_, mod, domain) for column, (type_, mod, domain) in types.items()},
        **row,
    )


def sizes(conn: Connection, tables: Collection[TableName]) -> dict[TableName, int]:
    """Size on disk of the existing ones of these tables, in bytes, without indexes."""
    return {
        TableName(row["schema"], row["name"]): row["total_bytes"]
        for row in fetch(conn, "table_sizes", **_names(tables))
    }


def _names(tables: Collection[TableName]) -> dict[str, list[str]]:
    return {"schemas": [t.schema for t in tables], "names": [t.name for t in tables]}
