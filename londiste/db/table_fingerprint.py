"""Fingerprint of a table's definition, to detect DDL during a long copy.

A copy pairs columns by name once, and its chunks rely on that for as long as it takes.  They become
wrong with another table or column of the same name, or with values that ALTER TABLE has rewritten.
TRUNCATE and VACUUM FULL are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import sql
from psycopg.rows import dict_row

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import query, translated

#: For each of some columns: oid of its table, its number, oid of its type, and the type's modifier.
Shape = tuple[tuple[int, int, int, int], ...]


class MarkedColumn(NamedTuple):
    """A column; ``version`` changes whenever its definition does."""

    name: str
    number: int
    type: str
    version: str
    default: bool
    generated: bool


@dataclass(frozen=True)
class Fingerprint:
    """A table at one moment; ``tree``: it is partitioned."""

    oid: int
    filenode: int
    columns: tuple[MarkedColumn, ...]
    tree: bool = False

    def column(self, name: str) -> MarkedColumn | None:
        """The column of this name."""
        return next((column for column in self.columns if column.name == name), None)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Fingerprint:
        """Reads a row of the query ``table_mark``."""
        columns = tuple(MarkedColumn(*column) for column in data["columns"])
        return cls(int(data["oid"]), int(data["filenode"]), columns, bool(data.get("tree")))


def mark(conn: Connection, table: TableName) -> Fingerprint | None:
    """The present fingerprint of the table; None if there is no table of this name."""
    with translated(conn):
        return later(conn, table)()


def later(conn: Connection, table: TableName) -> Callable[[], Fingerprint | None]:
    """``mark`` inside the caller's pipeline; what is returned gives it after that."""
    cursor = conn.cursor(row_factory=dict_row)
    cursor.execute(query("table_mark"), {"schema": table.schema, "name": table.name})

    def found() -> Fingerprint | None:
        row = cursor.fetchone()
        return None if row is None else Fingerprint.from_json(row)

    return found


def shape(conn: Connection, table: TableName, names: Sequence[str]) -> Shape:
    """The present definition of these columns, even in a transaction with an older snapshot.

    The server names them with the answer to a query, which it plans with the catalog as it is.
    Locks the table as reading does.  Raises the server's error for a dropped column.
    """
    with translated(conn):
        return shape_later(conn, table, names)()


def shape_later(conn: Connection, table: TableName, names: Sequence[str]) -> Callable[[], Shape]:
    """``shape`` inside the caller's pipeline; what is returned gives it after that."""
    cursor = conn.execute(
        sql.SQL("select {} from only {} limit 0").format(
            sql.SQL(", ").join(map(sql.Identifier, names)), table.sql
        )
    )

    def found() -> Shape:
        result = cursor.pgresult
        assert result is not None
        return tuple(
            (result.ftable(i), result.ftablecol(i), result.ftype(i), result.fmod(i))
            for i in range(len(names))
        )

    return found


def changed(then: Fingerprint, now: Fingerprint | None, names: Sequence[str]) -> str:
    """Why rows read from these columns before and now do not fit together; '' if they do."""
    if now is None:
        return "the table was dropped"
    if now.oid != then.oid:
        return "it is another table of the same name"
    touched = False
    for name in names:
        old, new = then.column(name), now.column(name)
        if old is None or new is None or old.number != new.number:
            return f"column {name} was dropped, or is another column"
        if (old.type, old.generated) != (new.type, new.generated):
            return f"column {name} has another type: {new.type}"
        touched = touched or old.version != new.version
    if touched and now.filenode != then.filenode:
        return "ALTER TABLE has rewritten its columns"
    return ""


def added(
    source_now: Fingerprint,
    target_now: Fingerprint,
    pairs: Sequence[tuple[str, str]],
    keeps: Callable[[str], bool] | None = None,
) -> str:
    """Why columns that both sides have added since prevent a continuation; '' if they do not.

    A new column that is empty is filled by events alone.  One with a default has values that
    neither an event nor the chunks have.

    keeps -- whether a column is replicated; None: each is.
    """
    known = {target for _, target in pairs}
    for column in source_now.columns:
        there = target_now.column(column.name)
        if column.name in known or there is None or there.generated or not column.default:
            continue
        if keeps is not None and not keeps(column.name):
            continue
        return f"column {column.name} was added with a default"
    return ""
