"""Catalog of one table: columns, constraints, indexes, triggers, size.

Every function reads one query of ``sql/queries``; a table that does not exist has no columns
and ``info`` gives None.  Texts of definitions are schema-qualified, because sessions of this
program have an empty search_path.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch, records
from londiste.errors import UnknownTable

T = TypeVar("T")


#: The release from which on type "char" writes and reads a byte above 127 as three octal digits.
CHAR_ESCAPES = 150000


@dataclass(frozen=True)
class TableInfo:
    """A relation and its present size on disk.

    kind -- ``r`` table, ``p`` partitioned table, ``v`` view, …
    pages, bytes -- of the heap; ``total_bytes`` with its TOAST table, without indexes.
    rows_estimate -- of the last ANALYZE, 0 when there was none.
    filenode -- changes when the table is rewritten, and with it every ctid.
    leaf_pages -- of a partitioned table: blocks of each partition; other figures are their sums.
    partition -- it is itself a partition.
    """

    name: TableName
    oid: int
    kind: str
    pages: int
    bytes: int
    total_bytes: int
    block_size: int
    rows_estimate: float
    filenode: int | None
    leaf_pages: tuple[int, ...] = ()
    partition: bool = False

    @property
    def tree(self) -> bool:
        """Whether partitions contain its rows."""
        return self.kind == "p"


@dataclass(frozen=True)
class Column:
    """A column.

    type -- as format_type prints it, with its modifier.
    identity -- ``a`` always, ``d`` by default, empty for none.
    generated -- ``s`` stored, ``v`` virtual, empty for none; a generated column is never written.
    builtin -- a base type of PostgreSQL itself, or an array of one.
    number -- stays the same when it is renamed, and is never given to another column.
    plain -- the type without domains: a cast to it runs no check.  '' if not read.
    """

    name: str
    type: str
    not_null: bool
    default: str | None
    identity: str
    generated: str
    builtin: bool
    number: int = 0
    plain: str = ""

    @property
    def read_as(self) -> str:
        """The type as which a text is read to be compared with values of the column."""
        return self.plain or self.type


@dataclass(frozen=True)
class Constraint:
    """A primary key (``p``), unique (``u``), exclusion (``x``) or check (``c``) constraint.

    by_index -- an existing unique index can be turned into it.
    inherited -- belongs to a parent table and cannot be dropped here.
    """

    name: str
    kind: str
    definition: str
    deferrable: bool
    deferred: bool
    validated: bool
    inherited: bool
    by_index: bool
    columns: tuple[str, ...]
    comment: str | None


@dataclass(frozen=True)
class Index:
    """An index; ``constraint`` names the constraint that it implements.

    key -- the columns that it orders by, empty if it has expressions or a condition.
    attached -- part of an index of a partitioned parent, which alone can drop it.
    statistics -- (column number, statistics target) of expression columns that have one.
    """

    schema: str
    name: str
    definition: str
    unique: bool
    primary: bool
    valid: bool
    clustered: bool
    replica_identity: bool
    attached: bool
    options: tuple[str, ...]
    tablespace: str | None
    comment: str | None
    statistics: tuple[tuple[int, int], ...]
    constraint: str | None
    key: tuple[str, ...]


@dataclass(frozen=True)
class Trigger:
    """A user trigger; ``enabled`` is O, R, A or D as in pg_trigger."""

    name: str
    enabled: str
    definition: str
    function: str


def info(conn: Connection, table: TableName) -> TableInfo | None:
    """Kind and size of a relation, None when there is none of this name."""
    kind = functools.partial(TableInfo, table)
    found = records(conn, kind, "table_info", schema=table.schema, name=table.name)
    return found[0] if found else None


#: What to do about a missing table of a node.
_OF_A_NODE = "create it, or remove it from replication: londiste remove-table"
#: The same, where settings or options name the tables.
OF_SETTINGS = "create it, or remove it from the tables of the settings"
OF_OPTIONS = "create it, or correct the name"


def require(conn: Connection, table: TableName, *, hint: str = _OF_A_NODE) -> TableInfo:
    """Like ``info``; raises UnknownTable, with this hint."""
    found = info(conn, table)
    if found is None:
        raise UnknownTable(f"table {table} does not exist in {conn.info.dbname}", hint=hint)
    return found


def moved(conn: Connection, table: TableName) -> bool:
    """Whether this REPEATABLE READ transaction may read wrong rows of a table.

    TRUNCATE and ALTER TABLE make a table look empty to older snapshots, and so does another table
    that takes its name.  Ask after reading: the lock that reading takes keeps all of them out until
    the transaction ends.
    """
    found = fetch(conn, "table_moved", schema=table.schema, name=table.name)
    return not found or bool(found[0]["moved"])


def columns(conn: Connection, table: TableName, known: TableInfo | None = None) -> list[Column]:
    """The columns in their order; empty if the table does not exist.

    known -- of the table, if the caller has just read it.
    """
    return _of_table(conn, Column, "table_columns", table, known)


def filled(conn: Connection, oid: int) -> frozenset[str]:
    """Names of columns whose first default may be in rows that are older than the column.

    A table that is rewritten forgets it; its ``filenode`` changes then.
    """
    return frozenset(row["name"] for row in fetch(conn, "filled_columns", oid=oid))


def constraints(
    conn: Connection, table: TableName, known: TableInfo | None = None
) -> list[Constraint]:
    """All constraints but foreign keys and NOT NULL; known -- as in ``columns``."""
    return _of_table(conn, Constraint, "table_constraints", table, known)


def key(conn: Connection, table: TableName) -> tuple[str, ...]:
    """Columns of the primary key; empty without one."""
    for constraint in constraints(conn, table):
        if constraint.kind == "p":
            return constraint.columns
    return ()


def correlation(conn: Connection, table: TableName, column: str) -> float | None:
    """Correlation of a column's values with the order of rows, -1 to 1; None: unknown."""
    found = fetch(conn, "key_correlation", schema=table.schema, name=table.name, column=column)
    return float(found[0]["correlation"]) if found else None


def indexes(conn: Connection, table: TableName) -> list[Index]:
    """All indexes, including those of constraints; the primary key's first."""
    return _of_table(conn, _index, "table_indexes", table)


def _index(*, statistics: Iterable[Sequence[int]], **row: Any) -> Index:
    return Index(statistics=tuple((number, target) for number, target in statistics), **row)


def triggers(conn: Connection, table: TableName) -> list[Trigger]:
    """User triggers of the table."""
    return records(conn, Trigger, "table_triggers", schema=table.schema, name=table.name)


def _of_table(
    conn: Connection,
    kind: Callable[..., T],
    name: str,
    table: TableName,
    known: TableInfo | None = None,
) -> list[T]:
    found = known or info(conn, table)
    return [] if found is None else records(conn, kind, name, oid=found.oid)
