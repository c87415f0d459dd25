"""Value types for the structure of a table as in the catalog.

Texts of definitions are those of the server that was asked, with every name qualified that is not
PostgreSQL's own; identifiers are unquoted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from londiste.db.names import TableName


class Part(StrEnum):
    """The parts that can be excluded when a table is created."""

    DEFAULTS = "defaults"
    SEQUENCES = "sequences"
    CHECKS = "checks"
    UNIQUE = "unique"
    INDEXES = "indexes"
    STATISTICS = "statistics"
    FOREIGN_KEYS = "foreign-keys"
    PARENTS = "parents"
    TRIGGERS = "triggers"
    RULES = "rules"
    POLICIES = "policies"
    GRANTS = "grants"
    OWNER = "owner"
    COMMENTS = "comments"
    OPTIONS = "options"
    TYPES = "types"


#: Everything there is.
WHOLE = frozenset(Part)
#: What a table needs to be written: columns and the primary key; with that go NOT NULL, identity,
#: generated columns, the types and sequences of columns, and defaults that call no function
#: outside of PostgreSQL; and of a partitioned table its partitions.
BARE = frozenset({Part.SEQUENCES, Part.TYPES})


@dataclass(frozen=True)
class Column:
    """A column; fields as in ``structure_columns``.

    identity -- a always, d by default, '' none; generated -- s stored, v virtual, '' none.
    """

    name: str
    type: str
    collation: str | None
    not_null: bool
    not_null_name: str | None
    not_null_no_inherit: bool
    not_null_valid: bool
    not_null_local: bool
    not_null_comment: str | None
    default: str | None
    default_builtin: bool
    identity: str
    generated: str
    storage: str | None
    compression: str | None
    statistics: int | None
    options: tuple[str, ...]
    comment: str | None
    is_local: bool
    inherited: bool


@dataclass(frozen=True)
class Constraint:
    """Key (p), unique (u), exclusion (x), check (c) or foreign key (f)."""

    name: str
    kind: str
    definition: str
    validated: bool
    enforced: bool
    periods: bool
    by_parent: bool
    is_local: bool
    to_table: TableName | None
    comment: str | None


@dataclass(frozen=True)
class Index:
    """An index; ``constraint`` names the one it stands behind, ``parent`` what it is part of."""

    name: str
    definition: str
    valid: bool
    nulls_not_distinct: bool
    clustered: bool
    replica_identity: bool
    options: tuple[str, ...]
    tablespace: str | None
    comment: str | None
    statistics: Mapping[int, int]
    constraint: str | None
    parent: str | None
    parent_table: TableName | None


@dataclass(frozen=True)
class Trigger:
    """A user trigger; ``cloned``: a partition inherits it from its parent."""

    name: str
    enabled: str
    definition: str
    cloned: bool
    parent_enabled: str | None
    from_other: bool
    comment: str | None


@dataclass(frozen=True)
class Rule:
    """A rewrite rule."""

    name: str
    enabled: str
    definition: str
    comment: str | None


@dataclass(frozen=True)
class RowPolicy:
    """A row security policy; ``command`` is r, a, w, d or *; no roles: PUBLIC."""

    name: str
    command: str
    permissive: bool
    roles: tuple[str, ...]
    using: str | None
    check: str | None
    comment: str | None


@dataclass(frozen=True)
class Grant:
    """One privilege; ``grantee`` None is PUBLIC; of a column or a sequence when one is named."""

    grantee: str | None
    privilege: str
    grantable: bool
    column: str | None = None
    sequence: TableName | None = None


@dataclass(frozen=True)
class Schema:
    """Owner of a schema, and what others may do there."""

    name: str
    owner: str
    grants: tuple[Grant, ...]


@dataclass(frozen=True)
class ExtendedStatistics:
    """Extended statistics."""

    name: TableName
    definition: str
    target: int | None
    comment: str | None


@dataclass(frozen=True)
class ColumnSequence:
    """A sequence that a column takes values from.

    owned -- a: dropped with the column; i: of an identity; '': only named in the default.
    literal -- the name as a default has it.
    """

    column: str
    name: TableName
    owned: str
    owner: str
    unlogged: bool
    type: str
    start: int
    increment: int
    minimum: int
    maximum: int
    cache: int
    cycle: bool
    literal: str
    comment: str | None


@dataclass(frozen=True)
class UserType:
    """A type outside of PostgreSQL's own.

    kind -- e enum, d domain, c composite, r range, b base, p pseudo, t row of a table.
    checks -- (name, definition); attributes -- (name, type, collation).
    needs -- (function that it calls, as ``to_regprocedure`` reads it, its extension).
    collations -- that it uses, quoted.
    """

    name: TableName
    kind: str
    owner: str
    comment: str | None
    extension: str | None
    labels: tuple[str, ...] = ()
    base: str | None = None
    collation: str | None = None
    not_null: bool = False
    default: str | None = None
    checks: tuple[tuple[str, str], ...] = ()
    attributes: tuple[tuple[str, str, str | None], ...] = ()
    range: Mapping[str, str | None] | None = None
    needs: tuple[tuple[str, str | None], ...] = ()
    collations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Need:
    """A function that an object of a table calls, or a collation (quoted) that it uses."""

    part: str
    object: str
    signature: str
    extension: str | None
    kind: str


@dataclass(frozen=True)
class Collation:
    """A collation; ``statement`` creates it, or those of the system in schema pg_catalog."""

    schema: str
    statement: str


@dataclass(frozen=True)
class Extension:
    """An extension; ``schema`` None: it makes its own; relocatable -- SET SCHEMA moves it."""

    name: str
    schema: str | None
    relocatable: bool = True


@dataclass(frozen=True)
class Lack:
    """A missing function, type or collation that tables need.

    name -- of a function as ``to_regprocedure`` reads it; wanted_by -- what needs it.
    sql -- statements that create it; tables -- those that need it, with their parents.
    """

    kind: str
    name: str
    wanted_by: str
    hint: str
    extension: str | None = None
    sql: tuple[str, ...] = ()
    tables: frozenset[TableName] = frozenset()

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Structure:
    """One table, whole.

    kind -- r, or p for a partitioned one; persistence -- p, u unlogged, t temporary.
    replica_identity -- d default, n nothing, f full, i index.
    bound -- of a partition; partition_key -- of a partitioned table.
    """

    name: TableName
    kind: str
    persistence: str
    owner: str
    comment: str | None
    options: tuple[str, ...]
    tablespace: str | None
    access_method: str | None
    is_typed: bool
    replica_identity: str
    row_security: bool
    force_row_security: bool
    bound: str | None
    partition_key: str | None
    parents: tuple[TableName, ...]
    columns: tuple[Column, ...]
    constraints: tuple[Constraint, ...]
    indexes: tuple[Index, ...]
    triggers: tuple[Trigger, ...]
    rules: tuple[Rule, ...]
    policies: tuple[RowPolicy, ...]
    grants: tuple[Grant, ...]
    statistics: tuple[ExtendedStatistics, ...]
    sequences: tuple[ColumnSequence, ...]
    needs: tuple[Need, ...]


@dataclass(frozen=True)
class Structures:
    """Several tables and the types of their columns, in the order of creation.

    version -- server_version_num of where they were read.
    collations -- those that are used, by quoted name.
    schemas -- those of the objects, by name; extensions -- those that are used, by name.
    """

    tables: tuple[Structure, ...]
    types: tuple[UserType, ...]
    version: int
    collations: Mapping[str, Collation]
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    extensions: Mapping[str, Extension] = field(default_factory=dict)


@dataclass(frozen=True)
class There:
    """What is in the database that the DDL is for.

    roles -- name, and whether this session may make it an owner.
    superuser -- this session may also make a role an owner that has no CREATE on the schema.
    creators -- schema, and role that has CREATE on it.
    members -- role, and role whose rights it has.
    columns -- of the relations, in their order.
    taken -- names of relations and statistics by schema; free_sequences -- those of no column.
    compressions -- methods that the server is built with.
    """

    version: int
    schemas: frozenset[str] = frozenset()
    roles: Mapping[str, bool] | None = None
    superuser: bool = False
    creators: frozenset[tuple[str, str]] = frozenset()
    members: frozenset[tuple[str, str]] = frozenset()
    types: frozenset[TableName] = frozenset()
    functions: frozenset[str] = frozenset()
    collations: frozenset[str] = frozenset()
    extensions: Mapping[str, Extension] = field(default_factory=dict)
    relations: frozenset[TableName] = frozenset()
    columns: Mapping[TableName, tuple[str, ...]] | None = None
    taken: frozenset[TableName] = frozenset()
    free_sequences: frozenset[TableName] = frozenset()
    compressions: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PendingKey:
    """A foreign key whose other table does not exist yet; ``definition`` creates it."""

    from_table: TableName
    to_table: TableName
    name: str
    definition: str


@dataclass(frozen=True)
class Made:
    """The DDL, in its order.

    notes -- what is not as it is there, one sentence each.
    objects -- sequences and types that are created with the tables, as ``type public.mood``.
    parents -- tables that exist, and get a partition or child.
    tables -- all that are created, also partitions.
    """

    statements: tuple[str, ...]
    pending: tuple[PendingKey, ...] = ()
    notes: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    parents: tuple[TableName, ...] = ()
    tables: tuple[TableName, ...] = ()
