"""Local tables that were renamed by hand: how to go back to the old name, or on to the new one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from londiste.cascade.commands.install_sql import has_nodes
from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import TableName, argument, quote
from londiste.db.queries import tuples
from londiste.errors import InstallError, StateError
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable


@dataclass(frozen=True)
class RenamedTable:
    """A replicated table that has another name; ``back`` is the SQL that restores the old one."""

    now: TableName
    back: str


@dataclass(frozen=True)
class CopiedTable:
    """The table that was copied to this node, by its oid; ``now``: its name, None: it is gone."""

    oid: int
    now: TableName | None


def replaced(
    conn: Connection, queue: str, found: Mapping[TableName, int]
) -> dict[TableName, CopiedTable]:
    """Those of these tables of a node, by name and oid, that have the name of a copied table.

    Each with the table that was copied.
    """
    result = {}
    rows = tuples(conn, "copied_tables", queue=queue, tables=list(map(str, found)))
    for name, oid, schema, table in rows:
        if found[TableName.parse(name)] != oid:
            now = None if schema is None else TableName(schema, table)
            result[TableName.parse(name)] = CopiedTable(oid, now)
    return result


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


def swap(name: TableName, other: TableName) -> str:
    """Pure: SQL that gives each of two tables the name of the other one, in one transaction."""
    before = after = list[str]()
    if name.schema == other.schema:
        between = TableName(name.schema, "londiste_swap")
    else:
        # Tables take their indexes along, which may have the same names.
        between = TableName("londiste_swap", name.name)
        before, after = [f"create schema {between.schema}"], [f"drop schema {between.schema}"]
    steps = [(between, name), (name, other), (other, between)]
    statements = [rename_back(new, old, "there") for new, old in steps]
    return "; ".join(["begin", *before, *statements, *after, "commit"])


def accept(queue: str, name: TableName | str) -> str:
    """Pure: SQL that accepts a table that DDL has rewritten, or that has the name of another."""
    return f"select londiste.accept_rewrite({literal(queue)}, {literal(str(name))})"


def after_rename(name: TableName, renamed: RenamedTable, *, root: bool, lost: bool) -> str:
    """Hint for a replicated table that was renamed by hand.

    Pure.

    root -- on the root of the queue, where a rename can be carried to all nodes.
    lost -- its events carry the new name, which other nodes do not know.
    """
    back = renamed.back
    if lost:
        back += f"; then on each node below: londiste resync {argument(name)}"
    if not root:
        return f"{back}; to keep the new name on all nodes, start with londiste check on the root"
    return f"{back}; or keep the new name: {keep_new_name(name, renamed.now)}"


def keep_new_name(name: TableName, now: TableName) -> str:
    """Pure: how to replicate a renamed table of the root under its new name."""
    return (
        f"londiste remove-table {argument(name)}, londiste add-table {argument(now)}, and on each"
        " node below: londiste wait-root, then rename the table there, londiste add-table"
        f" {argument(now)}"
    )


def require_current_name(conn: Connection, queue: str, added: Collection[TableName]) -> None:
    """Refuses to add tables of the root that it replicates by their old names.

    The removal of the old name would end the capture of the table.  Raises StateError.
    """
    for now, old in _old_names(conn, queue, added).items():
        raise StateError(
            f"table {now} {_BY_OLD_NAME} {old}",
            detail="nothing was added",
            hint=keep_new_name(old, now),
        )


def require_own_captures(
    conn: Connection,
    queue: str,
    known: Mapping[TableName, ReplicatedTable],
    removed: Collection[TableName],
) -> None:
    """Refuses to remove one of two tables that have exchanged their names, and so their captures.

    The removal would end the capture of the other one, too.  Raises StateError.

    known -- the tables of the queue.
    """
    for one, two in tuples(conn, "swapped_captures", queue=queue):
        name, other = TableName.parse(one), TableName.parse(two)
        if (name in removed) != (other in removed):
            raise StateError(
                f"table {name}: its changes are captured as those of table {other}",
                detail="they have exchanged their names, and the removal of one would end the"
                " capture of both; nothing was removed",
                hint=f"once for both tables: {swap(known[name].dest, known[other].dest)};"
                " then repeat the command",
            )


def left_out(conn: Connection, queue: str, names: Collection[TableName]) -> dict[TableName, str]:
    """Those of these tables that are not added because they are replicated by their old names.

    Each with the reason.  The database may be no node yet, or have older SQL.
    """
    if not has_nodes(conn):
        return {}
    try:
        there = {table.name for table in tables.get_table_list(conn, queue) if table.local}
        found = _old_names(conn, queue, set(names) - there)
    except InstallError:
        return {}
    return {
        now: f"it {_BY_OLD_NAME} {old}; {keep_new_name(old, now)}" for now, old in found.items()
    }


#: Of a table that was renamed; its old name follows.
_BY_OLD_NAME = "is replicated by its old name"


def _old_names(
    conn: Connection, queue: str, names: Collection[TableName]
) -> dict[TableName, TableName]:
    """Those of these tables that were renamed, with the names that are replicated."""
    present = tables.renamed_tables(conn, queue) if names else {}
    return {now: old for old, now in present.items() if now in names}
