"""Facts about both databases, collected before and during a migration."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from londiste.db.connection import Connection, session, whereabouts
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.errors import AccessDenied, from_database


@dataclass(frozen=True)
class Object:
    """An object that is no table and belongs to none.

    kind -- function, view, …; signature -- as SQL writes it; definition -- the statement that
        creates it, None where only pg_dump has it; place -- the order of creation.
    """

    kind: str
    schema: str | None
    name: str | None
    signature: str
    definition: str | None
    place: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {self.signature}"


@dataclass(frozen=True)
class ColumnFacts:
    """A column; fields as in ``migrate_tables``."""

    name: str
    type: str = "integer"
    required: bool = False
    generated: str = ""
    identity: bool = False
    key: int | None = None


@dataclass(frozen=True)
class Table:
    """A table of the user; fields as in ``migrate_tables``."""

    name: TableName
    kind: str = "r"
    persistence: str = "p"
    partition: bool = False
    rows: int = 0
    bytes: int = 0
    keyed: bool = True
    mine: bool = True
    owner: str = ""
    always: tuple[str, ...] = ()
    forced: bool = False
    columns: tuple[ColumnFacts, ...] = (ColumnFacts("id"),)

    @property
    def replicated(self) -> bool:
        """Whether it can be replicated."""
        return self.persistence == "p" and bool(self.columns) and "." not in self.name.schema


@dataclass(frozen=True)
class SequenceKind:
    """A sequence of the user, without its value."""

    name: TableName
    type: str = "bigint"
    increment: int = 1
    low: int = 1
    high: int = 2**63 - 1
    cycle: bool = False

    @property
    def words(self) -> str:
        cycle = ", cycle" if self.cycle else ""
        return f"{self.type} from {self.low} to {self.high} by {self.increment}{cycle}"


@dataclass(frozen=True)
class DatabaseFacts:
    """One database; fields as in ``migrate_server``.

    bypasses -- row-level security does not hold for this user, even where it is forced.
    replica -- this user may set session_replication_role.
    replica_function -- what may help where the server has no right for that: missing; powerless, it
        does not belong to a superuser; refused, this user may not call it; there.
    """

    version: int = 180000
    version_text: str = "18"
    encoding: str = "UTF8"
    collate: str = "C"
    ctype: str = "C"
    bytes: int = 0
    standby: bool = False
    read_only: bool = False
    user: str = ""
    superuser: bool = True
    makes_roles: bool = True
    bypasses: bool = True
    makes_schemas: bool = True
    makes_in_public: bool = True
    missing_roles: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()
    extensions: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    large_objects: int = 0
    publications: int = 0
    prepared: int = 0
    oldest_transaction: float = 0.0
    hidden_sequences: tuple[str, ...] = ()
    named_roles: frozenset[str] = frozenset()
    replica_function: str = "missing"
    replica: bool = True
    tables: tuple[Table, ...] = ()
    objects: tuple[Object, ...] = ()


def collect(conn: Connection, dsn: str) -> DatabaseFacts:
    """Collects the facts about one database.  Changes nothing and blocks no session.

    dsn -- connection string of the same database.
    """
    (server,) = _rows(conn, "migrate_server")
    for key in ("extensions", "roles", "named_roles"):
        server[key] = frozenset(server[key])
    for key in ("missing_roles", "installed", "hidden_sequences"):
        server[key] = tuple(server[key])
    return DatabaseFacts(
        **server,
        replica=_may_be_replica(dsn),
        tables=tables(conn),
        objects=objects(conn),
    )


def tables(conn: Connection) -> tuple[Table, ...]:
    """The tables of the user."""
    return tuple(
        Table(
            TableName(row.pop("schema"), row.pop("name")),
            **{
                **row,
                "always": tuple(row["always"]),
                "columns": tuple(ColumnFacts(**column) for column in row["columns"]),
            },
        )
        for row in _rows(conn, "migrate_tables")
    )


def objects(conn: Connection) -> tuple[Object, ...]:
    """Objects other than tables, in the order of creation."""
    return tuple(Object(**row) for row in _rows(conn, "migrate_objects"))


def sequences(conn: Connection) -> tuple[SequenceKind, ...]:
    """The sequences of the user."""
    return tuple(
        SequenceKind(TableName(row.pop("schema"), row.pop("name")), **row)
        for row in _rows(conn, "migrate_sequences")
    )


def pending_keys(conn: Connection) -> frozenset[tuple[str, str]]:
    """Foreign keys that are dropped during a copy: table and name."""
    return frozenset((row["from_table"], row["name"]) for row in _rows(conn, "pending_keys"))


def materialized_views(conn: Connection) -> tuple[str, ...]:
    """The materialized views of the user, as SQL writes them: each after those that it reads."""
    mine = {one.signature for one in objects(conn) if one.kind == "materialized view"}
    names = (row["name"] for row in _rows(conn, "migrate_refreshed"))
    return tuple(name for name in names if name in mine)


def with_rows(conn: Connection, names: list[TableName]) -> list[TableName]:
    """The tables that exist and have a row."""
    wanted = json.dumps([list(name) for name in names])
    found = []
    for row in _rows(conn, "migrate_relations", names=wanted):
        name = TableName(row["schema"], row["name"])
        try:
            cursor = conn.execute(f"select from {name.quoted} limit 1".encode())
            held = cursor.fetchone() is not None
        except psycopg.Error as error:
            raise from_database(error, where=whereabouts(conn)) from error
        if held:
            found.append(name)
    return found


def _may_be_replica(dsn: str) -> bool:
    # In a session of its own: where it may be set, it need not be possible to take it back.
    try:
        with session(
            dsn, name="londiste migrate", autocommit=True, replica=True, answer_seconds=30
        ):
            return True
    except AccessDenied:
        return False


def _rows(conn: Connection, name: str, **parameters: Any) -> list[dict[str, Any]]:
    try:
        with conn.cursor(row_factory=dict_row) as cursor:
            cursor.execute(query(name), parameters or None)
            return cursor.fetchall()
    except psycopg.Error as error:
        raise from_database(error, where=whereabouts(conn)) from error
