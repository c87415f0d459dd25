"""Introspection: reads the structure of tables and of the objects that their DDL names."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch, records
from londiste.db.structure.types import (
    Collation,
    Column,
    ColumnSequence,
    Constraint,
    ExtendedStatistics,
    Extension,
    Grant,
    Index,
    Need,
    RowPolicy,
    Rule,
    Schema,
    Structure,
    Structures,
    There,
    Trigger,
    UserType,
)

T = TypeVar("T")


def read(conn: Connection, names: Iterable[TableName]) -> Structures:
    """The tables, with all partitions of those that are partitioned.

    Reads the catalog in one transaction of its own snapshot where the caller has one.  A table
    that is not there, or is no table, is missing in what comes out.
    """
    wanted = json.dumps([[name.schema, name.name] for name in names])
    oids = [row["oid"] for row in fetch(conn, "structure_tree", names=wanted)]
    of = {part: _by_table(conn, part, kind, oids) for part, kind in _PARTS.items()}
    tables = records(conn, functools.partial(_structure, of), "structure_tables", oids=oids)
    types = records(conn, _type, "structure_types", oids=oids)
    collations = {need.signature for need in _needs(tables) if need.kind == "collation"}
    collations |= {name for one in types for name in one.collations}
    created = fetch(conn, "structure_collations", names=sorted(collations)) if collations else ()
    used = {need.extension for need in _needs(tables)} | {one.extension for one in types}
    used |= {name for one in types for _, name in one.needs}
    owned = extensions(conn, (name for name in used if name is not None))
    spaces = {row["schema"] for row in created} | {x.schema for x in owned.values() if x.schema}
    return Structures(
        tuple(tables),
        tuple(types),
        conn.info.server_version,
        {row["name"]: Collation(row["schema"], row["statement"]) for row in created},
        schemas(conn, _schemas_of(tables, types) | spaces),
        owned,
    )


def extensions(conn: Connection, names: Iterable[str]) -> dict[str, Extension]:
    """The extensions of the database that have these names."""
    wanted = sorted(set(names))
    found = records(conn, Extension, "extension_schemas", names=wanted) if wanted else []
    return {one.name: one for one in found}


def schemas(conn: Connection, names: Iterable[str]) -> dict[str, Schema]:
    """The schemas of the database that have these names."""
    found = records(conn, _schema, "structure_schemas", names=sorted(set(names)))
    return {one.name: one for one in found}


def there(
    conn: Connection,
    found: Structures,
    relations: Iterable[TableName],
    owners: Iterable[str] = (),
) -> There:
    """The existing objects of the database of ``conn`` that the tables and ``relations`` name.

    owners -- more roles.
    """
    wanted = list(relations)
    named = {name.schema for name in wanted} | _schemas_of(found.tables, found.types)
    roles = {t.owner for t in found.tables} | {t.owner for t in found.types} | set(owners)
    for one in found.schemas.values():
        roles |= {one.owner} | {g.grantee for g in one.grants if g.grantee is not None}
    for table in found.tables:
        roles |= {g.grantee for g in table.grants if g.grantee is not None}
        roles |= {s.owner for s in table.sequences}
        roles |= {role for policy in table.policies for role in policy.roles}
    rows = fetch(
        conn,
        "structure_there",
        schemas=sorted(named | found.schemas.keys()),
        roles=sorted(roles),
        own="SET" if conn.info.server_version >= 160000 else "MEMBER",
        types=json.dumps([list(t.name) for t in found.types]),
        relations=json.dumps([list(name) for name in wanted]),
        functions=sorted(
            {need.signature for need in _needs(found.tables) if need.kind == "function"}
            | {signature for one in found.types for signature, _ in one.needs}
        ),
        collations=sorted(found.collations),
    )

    def names(kind: str, detail: str | None = None) -> frozenset[TableName]:
        return frozenset(
            TableName(row["schema"], row["name"])
            for row in rows
            if row["kind"] == kind and detail in (None, row["detail"])
        )

    def pairs(kind: str) -> frozenset[tuple[str, str]]:
        return frozenset((row["schema"], row["name"]) for row in rows if row["kind"] == kind)

    columns: dict[TableName, tuple[str, ...]] = {}
    for row in rows:
        if row["kind"] == "column":
            name = TableName(row["schema"], row["name"])
            columns[name] = (*columns.get(name, ()), row["detail"])
    return There(
        version=conn.info.server_version,
        schemas=frozenset(row["name"] for row in rows if row["kind"] == "schema"),
        roles={row["name"]: row["detail"] == "yes" for row in rows if row["kind"] == "role"},
        superuser=any(row["kind"] == "superuser" for row in rows),
        creators=pairs("creator"),
        members=pairs("member"),
        types=names("type"),
        functions=frozenset(row["name"] for row in rows if row["kind"] == "function"),
        collations=frozenset(row["name"] for row in rows if row["kind"] == "collation"),
        extensions=extensions(conn, found.extensions),
        relations=names("relation"),
        columns=columns,
        taken=names("taken"),
        free_sequences=names("taken", "free sequence"),
        compressions=frozenset(row["name"] for row in rows if row["kind"] == "compression"),
    )


def free_sequences(conn: Connection, names: Sequence[str]) -> list[ColumnSequence]:
    """Sequences by their quoted names, as if a default named them."""
    return records(conn, _named(ColumnSequence), "free_sequences", names=list(names))


def _schemas_of(tables: Iterable[Structure], types: Iterable[UserType]) -> set[str]:
    """The schemas of tables, their sequences and statistics, and of types."""
    names = {one.name.schema for one in types}
    for table in tables:
        names |= {table.name.schema, *(one.name.schema for one in table.sequences)}
        names |= {one.name.schema for one in table.statistics}
    return names


def _needs(found: Iterable[Structure]) -> Iterator[Need]:
    return (need for table in found for need in table.needs)


def _by_table(
    conn: Connection, part: str, kind: Callable[..., Any], oids: Sequence[int]
) -> dict[int, list[Any]]:
    """One part of all the tables, by the tables' oids."""

    def of_table(oid: int, **row: Any) -> tuple[int, Any]:
        return oid, kind(**row)

    result: dict[int, list[Any]] = {}
    for oid, one in records(conn, of_table, f"structure_{part}", oids=oids):
        result.setdefault(oid, []).append(one)
    return result


def _named(kind: Callable[..., T]) -> Callable[..., T]:
    """``kind`` for rows whose name is in two columns."""
    return lambda *, schema, name, **row: kind(name=TableName(schema, name), **row)


def _other(schema: str | None, name: str | None) -> TableName | None:
    return None if schema is None or name is None else TableName(schema, name)


def _structure(
    of: Mapping[str, Mapping[int, Sequence[Any]]],
    /,
    *,
    oid: int,
    schema: str,
    name: str,
    parents: Sequence[Sequence[str]],
    **row: Any,
) -> Structure:
    row |= {part: tuple(found.get(oid, ())) for part, found in of.items()}
    return Structure(
        name=TableName(schema, name), parents=tuple(TableName(*pair) for pair in parents), **row
    )


def _constraint(*, to_schema: str | None, to_name: str | None, **row: Any) -> Constraint:
    return Constraint(to_table=_other(to_schema, to_name), **row)


def _index(
    *,
    parent_schema: str | None,
    parent_table: str | None,
    statistics: Mapping[str, int],
    **row: Any,
) -> Index:
    return Index(
        parent_table=_other(parent_schema, parent_table),
        statistics={int(number): target for number, target in statistics.items()},
        **row,
    )


def _schema(*, name: str, owner: str, grants: Sequence[Mapping[str, Any]]) -> Schema:
    return Schema(name, owner, tuple(Grant(**one) for one in grants))


def _grant(*, sequence_schema: str | None, sequence_name: str | None, **row: Any) -> Grant:
    return Grant(sequence=_other(sequence_schema, sequence_name), **row)


def _type(*, oid: int, **row: Any) -> UserType:
    row |= {part: tuple(map(tuple, row[part])) for part in ("checks", "attributes", "needs")}
    return _named(UserType)(**row)


#: What is read of each table: field of its structure, and name of the query, with its type.
_PARTS: dict[str, Callable[..., Any]] = {
    "columns": Column,
    "constraints": _constraint,
    "indexes": _index,
    "triggers": Trigger,
    "rules": Rule,
    "policies": RowPolicy,
    "grants": _grant,
    "statistics": _named(ExtendedStatistics),
    "sequences": _named(ColumnSequence),
    "needs": Need,
}
