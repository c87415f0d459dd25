"""Introspection: reads the structure of tables and of the objects that their DDL names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import fetch
from londiste.db.structure.types import (
    Column,
    ColumnSequence,
    Constraint,
    ExtendedStatistics,
    Grant,
    Index,
    Need,
    RowPolicy,
    Rule,
    Structure,
    Structures,
    There,
    Trigger,
    UserType,
)

#: What is read of each table, by the names of the queries.
_KINDS = (
    "columns",
    "constraints",
    "indexes",
    "triggers",
    "rules",
    "policies",
    "grants",
    "statistics",
    "sequences",
    "needs",
)


def read(conn: Connection, names: Iterable[TableName]) -> Structures:
    """The tables, with all partitions of those that are partitioned.

    Reads the catalog in one transaction of its own snapshot where the caller has one.  A table
    that is not there, or is no table, is missing in what comes out.
    """
    wanted = json.dumps([[name.schema, name.name] for name in names])
    oids = [row["oid"] for row in fetch(conn, "structure_tree", names=wanted)]
    of = {kind: _by_table(fetch(conn, f"structure_{kind}", oids=oids)) for kind in _KINDS}
    tables = []
    for row in fetch(conn, "structure_tables", oids=oids):
        mine = {kind: rows.get(row["oid"], []) for kind, rows in of.items()}
        tables.append(_structure(row, mine))
    types = tuple(_type(row) for row in fetch(conn, "structure_types", oids=oids))
    return Structures(tuple(tables), types, conn.info.server_version)


def there(
    conn: Connection,
    found: Structures,
    relations: Iterable[TableName],
) -> There:
    """The existing objects of the database of ``conn`` that the tables and ``relations`` name."""
    wanted = list(relations)
    schemas = {name.schema for name in wanted} | {t.name.schema for t in found.types}
    for table in found.tables:
        schemas |= {s.name.schema for s in table.sequences} | {
            s.name.schema for s in table.statistics
        }
    roles = {t.owner for t in found.tables} | {t.owner for t in found.types}
    for table in found.tables:
        roles |= {g.grantee for g in table.grants if g.grantee is not None}
        roles |= {s.owner for s in table.sequences}
        roles |= {role for policy in table.policies for role in policy.roles}
    rows = fetch(
        conn,
        "structure_there",
        schemas=sorted(schemas),
        roles=sorted(roles),
        types=json.dumps([list(t.name) for t in found.types]),
        relations=json.dumps([list(name) for name in wanted]),
        functions=sorted(
            {need.signature for table in found.tables for need in table.needs}
            | {signature for one in found.types for signature in one.needs}
        ),
    )

    def names(kind: str, detail: str | None = None) -> frozenset[TableName]:
        return frozenset(
            TableName(row["schema"], row["name"])
            for row in rows
            if row["kind"] == kind and detail in (None, row["detail"])
        )

    return There(
        version=conn.info.server_version,
        schemas=frozenset(row["name"] for row in rows if row["kind"] == "schema"),
        roles={row["name"]: row["detail"] == "yes" for row in rows if row["kind"] == "role"},
        types=names("type"),
        functions=frozenset(row["name"] for row in rows if row["kind"] == "function"),
        relations=names("relation"),
        taken=names("taken"),
        free_sequences=names("taken", "free sequence"),
    )


def _by_table(rows: Sequence[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    result: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        result.setdefault(row.pop("oid"), []).append(row)
    return result


def _structure(row: dict[str, Any], of: dict[str, list[dict[str, Any]]]) -> Structure:
    row.pop("oid")
    name = TableName(row.pop("schema"), row.pop("name"))
    row["options"] = tuple(row["options"])
    row["parents"] = tuple(TableName(*pair) for pair in row["parents"])
    return Structure(
        name=name,
        **row,
        columns=tuple(_column(r) for r in of["columns"]),
        constraints=tuple(_constraint(r) for r in of["constraints"]),
        indexes=tuple(_index(r) for r in of["indexes"]),
        triggers=tuple(Trigger(**r) for r in of["triggers"]),
        rules=tuple(Rule(**r) for r in of["rules"]),
        policies=tuple(_policy(r) for r in of["policies"]),
        grants=tuple(_grant(r) for r in of["grants"]),
        statistics=tuple(
            ExtendedStatistics(
                TableName(r["schema"], r["name"]), r["definition"], r["target"], r["comment"]
            )
            for r in of["statistics"]
        ),
        sequences=tuple(_sequence(r) for r in of["sequences"]),
        needs=tuple(Need(**r) for r in of["needs"]),
    )


def _column(row: dict[str, Any]) -> Column:
    row["default"] = row.pop("default_expression")
    row["options"] = tuple(row["options"])
    return Column(**row)


def _constraint(row: dict[str, Any]) -> Constraint:
    schema, name = row.pop("to_schema"), row.pop("to_name")
    return Constraint(**row, to_table=None if name is None else TableName(schema, name))


def _index(row: dict[str, Any]) -> Index:
    schema, table = row.pop("parent_schema"), row.pop("parent_table")
    statistics = {int(number): int(target) for number, target in row.pop("statistics").items()}
    row["options"] = tuple(row["options"])
    return Index(
        constraint=row.pop("constraint_name"),
        statistics=statistics,
        parent_table=None if table is None else TableName(schema, table),
        **row,
    )


def _policy(row: dict[str, Any]) -> RowPolicy:
    using, check = row.pop("using_expression"), row.pop("check_expression")
    return RowPolicy(using=using, check=check, roles=tuple(row.pop("roles")), **row)


def _grant(row: dict[str, Any]) -> Grant:
    schema, name = row["sequence_schema"], row["sequence_name"]
    return Grant(
        row["grantee"],
        row["privilege"],
        row["grantable"],
        row["column_name"],
        None if name is None else TableName(schema, name),
    )


def _sequence(row: dict[str, Any]) -> ColumnSequence:
    return ColumnSequence(
        column=row.pop("column_name"),
        name=TableName(row.pop("schema"), row.pop("name")),
        owned=row.pop("owned") or "",
        unlogged=row.pop("persistence") == "u",
        **row,
    )


def free_sequences(conn: Connection, names: Sequence[str]) -> list[ColumnSequence]:
    """Sequences by their quoted names, as if a default named them."""
    return [_sequence(row) for row in fetch(conn, "free_sequences", names=list(names))]


def _type(row: dict[str, Any]) -> UserType:
    row.pop("oid")
    return UserType(
        name=TableName(row.pop("schema"), row.pop("name")),
        labels=tuple(row.pop("labels")),
        needs=tuple(row.pop("needs")),
        default=row.pop("default_expression"),
        checks=tuple((c[0], c[1]) for c in row.pop("checks")),
        attributes=tuple((a[0], a[1], a[2]) for a in row.pop("attributes")),
        **row,
    )
