"""Relations: what the applier needs to know about a target table (columns, key, equality).

A statement names its table.  Between the moment at which the table was read and the statement, the
owner of its schema can put another table under the name, with triggers that would run as the
worker.  So ``hold`` locks such tables, and compares all with what is known.  Tables of other
roles need no lock: ``londiste.write_as_owner`` asks for their owner itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import psycopg

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch, query, tuples

#: A table or schema is gone, or a query has found another one.
_CHANGED = {"22P02", "42P01", "3F000"}


class Folding(StrEnum):
    """How two texts compare as values of a column's type.

    TEXT -- when they are the same text.
    ZEROS -- likewise, zeros behind the decimal point left out (numeric: 1.0 = 1.00).
    BLANKS -- likewise, blanks at the end left out (char(n)).
    NEVER -- the text cannot tell: float (0 = -0), interval (1 mon = 30 days), citext, text
        with a collation that is not deterministic, types of extensions.
    """

    TEXT = "text"
    ZEROS = "zeros"
    BLANKS = "blanks"
    NEVER = "never"

    def canonical(self, text: str) -> str:
        """The normal form of all texts of the same value."""
        if self is Folding.ZEROS and "." in text:
            return text.rstrip("0").rstrip(".")
        if self is Folding.BLANKS:
            return text.rstrip(" ")
        return text


@dataclass(frozen=True)
class RelationColumn:
    """One column.

    type_name -- as format_type prints it, with its modifier.
    base_type -- type below a domain, else None; values are compared as this type.
    generated -- the server computes it; it is never written.
    identity_always -- GENERATED ALWAYS AS IDENTITY: INSERT may override it, UPDATE may not set it.
    eq_schema -- schema of the equality operator of the type.
    json_text -- json or jsonb, or a domain over one.
    byte_text -- "char" or an array of it, on a server that reads no byte above 127.
    """

    name: str
    type_name: str
    generated: bool = False
    identity_always: bool = False
    eq_schema: str = "pg_catalog"
    folding: Folding = Folding.NEVER
    json_text: bool = False
    base_type: str | None = None
    byte_text: bool = False

    @property
    def as_text(self) -> bool:
        """Whether a value is read as text, and cast then."""
        return self.json_text or self.byte_text


@dataclass(frozen=True, eq=False)
class Relation:
    """A table of this node; ``key`` is its primary key, empty without one.

    ``copied``: COPY does with it what INSERT does.
    ``owner``: the role, by its oid, as which it is written (``db/owner.py``); 0: as who we are.
    ``exposed``: it is written as who we are, and another role may put a table in its place.
    ``holds_schema``: we may prevent that its schema is renamed.
    ``version`` is a text that changes when its columns or its owner do.
    ``where`` is what this node asks of a row of the source to keep it, '' for nothing: SQL over
    the columns of the image.
    ``rows`` changes a row before anything is sent to this node; None: nothing does.
    ``on_error`` is what becomes of an event that does not fit: halt, keep, overwrite or log.

    Compared by identity: shapes are keys of caches that are asked once per row.
    """

    name: TableName
    oid: int
    partitioned: bool
    columns: tuple[RelationColumn, ...]
    key: tuple[str, ...]
    version: str = ""
    copied: bool = True
    owner: int = 0
    exposed: bool = False
    holds_schema: bool = False
    where: str = ""
    rows: Callable[[dict[str, str | None]], dict[str, str | None]] | None = None
    on_error: str = "halt"

    @cached_property
    def by_name(self) -> dict[str, RelationColumn]:
        """The columns by name."""
        return {column.name: column for column in self.columns}

    @property
    def of_other(self) -> bool:
        """Whether it is written as another role."""
        return self.owner != 0

    @cached_property
    def writable(self) -> frozenset[str]:
        """The columns that an INSERT may give a value."""
        return frozenset(column.name for column in self.columns if not column.generated)


def shapes(conn: Connection, tables: Iterable[TableName]) -> dict[TableName, Relation]:
    """The shapes of those of the tables that exist, read anew."""
    wanted = {str(table): table for table in tables}
    found: dict[str, list[dict[str, Any]]] = {}
    for row in fetch(conn, "table_shapes", tables=list(wanted)):
        found.setdefault(row["table_name"], []).append(row)
    return {wanted[name]: _shape(wanted[name], rows) for name, rows in found.items()}


def versions(conn: Connection, oids: Iterable[int]) -> dict[int, str]:
    """The present ``version`` of relations; cheaper than reading them again."""
    return dict(tuples(conn, "table_versions", oids=list(oids)))


def hold(
    conn: Connection, tables: Sequence[Relation], emptied: Collection[TableName] = ()
) -> psycopg.Cursor[Any]:
    """Fails if a table has changed; those that another role can replace stay until the commit.

    In a pipeline the error comes later, and no statement after this one is executed.  The cursor
    is that of the last statement.

    emptied -- tables that TRUNCATE will lock: it must not wait for a session that waits for us.
    """
    exposed = [table for table in tables if table.exposed]
    if exposed:
        _lock(conn, exposed, emptied)
    known = {table.oid: table.version for table in tables}
    expected = ",".join(known[oid] for oid in sorted(known))
    return conn.execute(query("require_versions"), {"oids": list(known), "versions": expected})


def has_changed(error: psycopg.Error) -> bool:
    """Whether the error of ``hold`` says that a table has changed."""
    return error.sqlstate in _CHANGED


def _lock(conn: Connection, tables: Sequence[Relation], emptied: Collection[TableName]) -> None:
    schemas = {table.name.schema for table in tables if table.holds_schema}
    if schemas:
        conn.execute(
            "select from pg_catalog.pg_namespace where nspname = any(%s::text[]) for key share",
            [list(schemas)],
        )
    for mode, some in (
        ("access exclusive", [t for t in tables if t.name in emptied]),
        ("row exclusive", [t for t in tables if t.name not in emptied]),
    ):
        if some:
            names = ", ".join(f"only {table.name.quoted}" for table in some)
            conn.execute(f"lock table {names} in {mode} mode".encode())
    conn.execute(
        query("require_names"),
        {"oids": [t.oid for t in tables], "names": [t.name.quoted for t in tables]},
    )


def _shape(table: TableName, rows: list[dict[str, Any]]) -> Relation:
    return Relation(
        name=table,
        oid=rows[0]["table_oid"],
        partitioned=rows[0]["partitioned"],
        columns=tuple(
            RelationColumn(
                name=row["column_name"],
                type_name=row["type_name"],
                generated=row["generated"],
                identity_always=row["identity_always"],
                eq_schema=row["eq_schema"],
                folding=Folding(row["folding"]),
                json_text=row["json_text"],
                byte_text=row["byte_text"],
                base_type=row["base_type"],
            )
            for row in rows
        ),
        key=tuple(row["column_name"] for row in rows if row["in_key"]),
        version=rows[0]["version"],
        copied=rows[0]["copied"],
        owner=rows[0]["owner"],
        exposed=rows[0]["exposed"],
        holds_schema=rows[0]["holds_schema"],
    )
