"""Rows that a handler has stored in child tables: a copy or a comparison of the table misses them.

Both read the table itself.  A branch with such a table may become the root, so the handler and the
child tables decide, whatever the node is.
"""

from __future__ import annotations

from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import TableName, quote
from londiste.db.queries import fetch, tuples
from londiste.replication.model import ReplicatedTable, decode_attrs


def has_some(conn: Connection, table: ReplicatedTable, *, root: bool) -> bool:
    """Whether rows of a table of this node are, or may be at any time, in child tables.

    root -- the node is the root, whose handlers store nothing: it has those of its time as branch.
    """
    if not table.in_children:
        return False
    return not root or bool(tuples(conn, "has_children", relation=table.dest.quoted)[0][0])


def no_reference(name: object) -> str:
    """Why no foreign key to a table of ``unreferable`` is valid."""
    return (
        f"the rows of table {name} are in partitions, where PostgreSQL does not look for referenced"
        " rows"
    )


def unreferable(conn: Connection) -> frozenset[TableName]:
    """Tables of this node whose rows are in child tables, by their names in this database."""
    found = set()
    for row in fetch(conn, "tables_of_handlers"):
        name = TableName.parse(row["name"])
        table = ReplicatedTable(name, name, local=True, attrs=decode_attrs(row["attrs"]))
        if table.in_children and (row["children"] or not row["root"]):
            found.add(name)
    return frozenset(found)


def collect(conn: Connection, table: ReplicatedTable, node: str) -> str:
    """How the rows get into the table of a root.

    Not by TRUNCATE, which a foreign key to the table refuses.  The replica role deletes no rows
    that refer to it.
    """
    dest = table.dest.quoted
    written = (c for c in catalog.columns(conn, table.dest) if not c.generated)
    names = ", ".join(quote(column.name) for column in written)
    return (
        f"on node {node}, as the owner of the table, who may set session_replication_role: begin;"  # noqa: S608
        f" set local session_replication_role = replica; with kept as (delete from {dest}"
        f" where tableoid <> {literal(dest)}::pg_catalog.regclass returning {names})"
        f" insert into {dest} ({names}) overriding system value select {names} from kept; commit;"
        " then drop its partitions, which are empty"
    )
