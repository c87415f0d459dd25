"""Local tables that were renamed by hand, and the SQL that gives them their old names."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.connection import Connection
from londiste.db.names import TableName, quote
from londiste.db.queries import tuples
from londiste.replication import sqlapi as tables


@dataclass(frozen=True)
class RenamedTable:
    """A replicated table that has another name; ``back`` is the SQL that restores the old one."""

    now: TableName
    back: str


def find(conn: Connection, queue: str) -> dict[TableName, RenamedTable]:
    """The renamed tables of this database, by the name that is replicated."""
    present = tables.renamed_tables(conn, queue)
    if not present:
        return {}
    targets = {table.name: table.dest for table in tables.get_table_list(conn, queue)}
    result = {}
    for name, now in present.items():
        old = targets.get(name, name)
        schema = "there"
        if now.schema != old.schema:
            ((schema,),) = tuples(conn, "schema_of_renamed", old=old.schema, new=now.schema)
        result[name] = RenamedTable(now, rename_back(old, now, schema))
    return result


def rename_back(old: TableName, new: TableName, schema: str) -> str:
    """SQL that gives a renamed table its old name and schema.

    Pure.

    schema -- what has become of the old schema: ``there``, ``renamed`` or ``dropped``.
    """
    statements = []
    if new.schema != old.schema and schema == "renamed":
        statements.append(f"alter schema {quote(new.schema)} rename to {quote(old.schema)}")
    elif new.schema != old.schema:
        if schema == "dropped":
            statements.append(f"create schema {quote(old.schema)}")
        statements.append(f"alter table {new.quoted} set schema {quote(old.schema)}")
    if new.name != old.name:
        moved = TableName(old.schema, new.name)
        statements.append(f"alter table {moved.quoted} rename to {quote(old.name)}")
    return "; ".join(statements)
