"""Statements that make a table like one of another database: columns and primary key.

Types, collations, NOT NULL, generated and identity columns come along, and defaults that need
nothing but PostgreSQL itself.  Everything else (indexes, foreign keys, checks, defaults that
call functions or sequences, triggers, grants) is left to the administrator.
"""

from __future__ import annotations

import psycopg
from psycopg.rows import DictRow, dict_row

from londiste.db import catalog
from londiste.db.connection import Connection, place
from londiste.db.names import TableName, quote
from londiste.db.queries import query
from londiste.errors import UnknownTable, from_database

#: Since this version a generated column can be virtual.
_VIRTUAL = 180000


def statements(
    source: Connection, table: TableName, dest: TableName, *, target_version: int
) -> list[str]:
    """SQL that makes ``dest`` like ``table`` of the database of ``source``.

    target_version -- server_version_num of the database that the statements are for.
    Raises UnknownTable when there is no such plain table.
    """
    info = catalog.info(source, table)
    if info is None or info.kind != "r":
        raise UnknownTable(
            f"table {table} does not exist in {place(source.info.dsn)}",
            hint="create the table here by hand, or correct the name",
        )
    try:
        with source.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(query("table_definition"), {"oid": info.oid}).fetchall()
    except psycopg.Error as error:
        raise from_database(error, where=place(source.info.dsn)) from error
    lines = [_column(row, target_version) for row in rows]
    for constraint in catalog.constraints(source, table):
        if constraint.kind == "p":
            # Under another name the table may stand beside one that has the index's name already.
            named = f"constraint {quote(constraint.name)} " if dest == table else ""
            lines.append(named + constraint.definition)
    body = ",\n    ".join(lines)
    result = [f"create table {dest.quoted} (\n    {body}\n)"]
    if dest.schema != "public":
        result.insert(0, f"create schema if not exists {quote(dest.schema)}")
    return result


def _column(row: DictRow, target_version: int) -> str:
    parts = [quote(row["name"]), row["type"]]
    if row["collation"]:
        parts.append(f"collate {row['collation']}")
    if row["not_null"]:
        parts.append("not null")
    if row["identity"]:
        when = "always" if row["identity"] == "a" else "by default"
        parts.append(f"generated {when} as identity")
    elif row["generated"]:
        virtual = row["generated"] == "v" and target_version >= _VIRTUAL
        kind = "virtual" if virtual else "stored"
        parts.append(f"generated always as ({row['default_expression']}) {kind}")
    elif row["default_expression"] and row["default_builtin"]:
        parts.append(f"default {row['default_expression']}")
    return " ".join(parts)
