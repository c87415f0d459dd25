"""Facts about a database that may become a source or a target: values without behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from londiste.db.names import TableName, quote
from londiste.db.structure.types import Extension, Schema
from londiste.install.default_rights import Excess
from londiste.orchestration.lock_retry import LockedTable
from londiste.replication.replication_role import RoleSetting


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
    root: TableName | None = None
    rows: int = 0
    bytes: int = 0
    keyed: bool = True
    mine: bool = True
    owner: str = ""
    always: tuple[str, ...] = ()
    forced: bool = False
    hidden: bool = False
    columns: tuple[ColumnFacts, ...] = (ColumnFacts("id"),)
    unique_key: Mapping[str, Any] | None = None
    deferrable: Mapping[str, Any] | None = None
    exclusions: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()

    @property
    def tree(self) -> TableName:
        """The partitioned table at the top of its partitions, or itself."""
        return self.root or self.name

    @property
    def replicated(self) -> bool:
        """Whether it can be replicated."""
        return self.persistence == "p" and bool(self.columns) and "." not in self.name.schema

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the primary key, in its order."""
        named = sorted((c.key, c.name) for c in self.columns if c.key is not None)
        return tuple(name for _, name in named)


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
class TypeFacts:
    """A type of a column: an enum, or one that is created by C functions, not by an extension.

    text -- as the type of a column is written.  labels -- of an enum, in their order.
    """

    schema: str
    name: str
    text: str
    labels: tuple[str, ...] | None = None

    @property
    def quoted(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"


@dataclass(frozen=True)
class TypeOwner:
    """A type of a column to which a role without the rights of the table's owner can add code.

    Fields as in ``types_of_others``.
    """

    table_name: str
    type: str
    owner: str
    writer: str
    remedy: str


@dataclass(frozen=True)
class TableOwner:
    """A table that is written as its owner, whom its writer cannot become.

    Fields as in ``owners_without_set``.
    """

    table_name: str
    owner: str
    writer: str
    remedy: str


@dataclass(frozen=True)
class Override:
    """A setting that was given to a role, to a database, or to a role in one database."""

    role: str | None
    database: str | None
    name: str
    value: str


@dataclass(frozen=True)
class SqlState:
    """The SQL of Londiste in a database.

    outdated -- components that ``londiste install`` upgrades.
    londiste3 -- schemas of Londiste 3; extension -- whether they belong to its extensions.
    refused -- why ``londiste install`` would refuse, and its hint.
    """

    outdated: tuple[str, ...] = ()
    londiste3: tuple[str, ...] = ()
    extension: bool = False
    refused: tuple[str, str] | None = None


@dataclass(frozen=True)
class MoreFacts:
    """What only the doctor asks a database for; fields as in ``doctor_server``.

    settings -- values that a new session of this user has.
    silenced -- settings with which captures do not fire.
    silent -- tables whose replicated rows are not captured: queue, kind, table, what brings them,
        and the name of the node if it is a branch.
    subscribed -- tables into which subscriptions of PostgreSQL write, and one of these each.
    excess -- roles that can write what is for administrators.
    place -- directory of the database; None where this user may not see it.
    free_bytes -- on the disk of that directory, where this process can see it.
    address -- of the server, '' for a socket; encrypted -- the session to it.
    clock -- seconds by which the server's clock is ahead of this host's; spread -- its uncertainty.
    extensions_at -- the extensions by name; extension_schemas -- their schemas by name.
    with_rows -- tables with rows, also in their partitions.
    replicated -- tables that this database has in a queue, without their partitions;
        copying -- of these, tables whose keys a copy has dropped.
    xml -- the server has values of type xml: it was built with libxml.
    locked -- tables that another session has locked, so that not all is known of them.
    icu -- the server was built with ICU; icu_users -- what only such a server can have.
    unreadable -- tables that this user may not read, as phrases.
    unreadable_sql -- the same of what the functions of Londiste tell.
    dsn -- without a password.
    """

    dsn: str = ""
    database: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    overrides: tuple[Override, ...] = ()
    silenced: tuple[RoleSetting, ...] = ()
    silent: tuple[tuple[str, str, str, str, str], ...] = ()
    subscribed: Mapping[TableName, str] = field(default_factory=dict)
    excess: tuple[Excess, ...] = ()
    server_free: int = 100
    database_limit: int = -1
    database_used: int = 0
    role_limit: int = -1
    role_used: int = 0
    unseen_sessions: int = 0
    temporary: tuple[str, ...] = ()
    subscriptions: int = 0
    place: str | None = None
    free_bytes: int | None = None
    address: str = ""
    encrypted: bool = True
    clock: float = 0.0
    spread: float = 0.0
    types: tuple[TypeFacts, ...] = ()
    type_owners: tuple[TypeOwner, ...] = ()
    table_owners: tuple[TableOwner, ...] = ()
    sequences: tuple[SequenceKind, ...] = ()
    extensions_at: Mapping[str, Extension] = field(default_factory=dict)
    extension_schemas: Mapping[str, Schema] = field(default_factory=dict)
    with_rows: frozenset[TableName] = frozenset()
    replicated: frozenset[TableName] = frozenset()
    copying: frozenset[TableName] = frozenset()
    sql: SqlState = SqlState()
    xml: bool = True
    locked: tuple[LockedTable, ...] = ()
    icu: bool = True
    icu_users: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    unreadable_sql: tuple[str, ...] = ()


@dataclass(frozen=True)
class DatabaseFacts:
    """One database; fields as in ``migrate_server``.

    user, login -- the role with whose rights the session works, and the one that connects.
    role_reset -- the statement that takes back a setting by which they differ; '' for none.
    administers -- this user may write events that replication applies; also without group roles.
    owns_installed -- no schema of Londiste belongs to a role whose rights this user has not.
    bypasses -- row-level security does not hold for this user, even where it is forced.
    replica -- this user may set session_replication_role.
    collate_provider -- who compares text: c libc, i ICU, b PostgreSQL itself.
    replica_function -- what may help where the server has no right for that: missing; powerless, it
        does not belong to a superuser; refused, this user may not call it; there.
    powerful -- roles whose members could act as an administrator of the server.
    inherits -- this user is a role with INHERIT.
    uninherited -- roles of which this user is a member without having their rights.
    more -- what only the doctor asks for.
    """

    version: int = 180000
    version_text: str = "18"
    encoding: str = "UTF8"
    collate: str = "C"
    ctype: str = "C"
    collate_provider: str = "c"
    standby: bool = False
    read_only: bool = False
    user: str = ""
    login: str = ""
    role_reset: str = ""
    superuser: bool = True
    makes_roles: bool = True
    bypasses: bool = True
    makes_schemas: bool = True
    makes_in_public: bool = True
    missing_roles: tuple[str, ...] = ()
    administers: bool = True
    owns_installed: bool = True
    installed: tuple[str, ...] = ()
    extensions: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    powerful: frozenset[str] = frozenset()
    inherits: bool = True
    uninherited: frozenset[str] = frozenset()
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
    more: MoreFacts = MoreFacts()

    def replicates(self, table: Table) -> bool:
        """Whether this database has a table, or the one whose partition it is, in a queue."""
        return not self.more.replicated.isdisjoint((table.name, table.tree))
