"""Facts about the captured tables of a queue on one node."""

from __future__ import annotations

from collections.abc import Collection

import psycopg
from psycopg import sql

from londiste.cascade import sqlapi as nodes
from londiste.cascade.model import NodeInfo, NodeType
from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.queries import tuples
from londiste.db.relation import Folding, Relation, shapes
from londiste.errors import from_database
from londiste.monitor.captures.rules import BrokenCapture, CaptureFacts
from londiste.orchestration.lock_retry import LockedTable, locked_tables, with_holders
from londiste.replication import renamed_tables
from londiste.replication import sqlapi as tables
from londiste.replication.commands import add_table_checks, change_form
from londiste.replication.model import TRIGGERS, ReplicatedTable
from londiste.replication.renamed_tables import RenamedTable

#: Their length is in their head: it is known without reading the value.
_LENGTH_TYPES = ("text", "character varying", "bytea")


def collect(conn: Connection, queue: str, *, sizes: bool = False) -> list[CaptureFacts]:
    """The facts of all local tables of the queue.

    sizes -- measure the largest value and row of each table: reads every table once, but not
        values that are stored out of line.
    """
    node = nodes.get_node_info(conn, queue)
    known = [t for t in tables.get_table_list(conn, queue) if t.local]
    lost = {str(table): reason for table, reason in tables.lost_captures(conn, queue)}
    renamed = renamed_tables.find(conn, queue)
    dests = {str(table.name): str(table.dest) for table in known}
    swapped = {name: dests[other] for name, other in tuples(conn, "swapped_captures", queue=queue)}
    strays: dict[str, str] = dict(tuples(conn, "stray_captures", queue=queue))
    stale = tables.stale_captures(conn, queue)
    broken = {
        one.table: one
        for one in call.records(conn, BrokenCapture, "londiste.broken_captures", queue)
    }
    locked: dict[str, LockedTable] = {}
    if any(one.kind == "locked" for one in stale.values()):
        those = [one for one in locked_tables(conn) if str(one.name) in stale]
        locked = {str(one.name): one for one in with_holders(conn, those)}
    triggers = change_form.triggers(conn, queue)
    widths: dict[str, int | None] = dict(tuples(conn, "captured_tables", queue=queue))
    found = shapes(conn, [t.dest for t in known])
    given = [t for t, how in triggers.items() if how.key_given and str(t) not in locked]
    keyed = add_table_checks.look(conn, given)
    facts = []
    for table in known:
        shape = found.get(table.dest)
        name = str(table.dest)
        old = stale.pop(name, None)
        how = triggers.get(table.dest, change_form.Capturing("none"))
        value, row = _largest(conn, shape) if sizes and shape is not None else (None, None)
        facts.append(
            CaptureFacts(
                table=name,
                name=str(table.name),
                captures=node.type is not NodeType.LEAF,
                root=node.type is NodeType.ROOT,
                trigger=how.trigger,
                lost=lost.get(str(table.name), ""),
                swapped=swapped.get(str(table.name), ""),
                stray=strays.get(str(table.name), ""),
                renamed=_renamed(table, renamed.get(table.name), node, how),
                events_lost=_new_name(node, how),
                broken=broken.get(name),
                stale=old.reason if old else "",
                stale_kind=old.kind if old else "",
                locked=locked.get(name),
                there=shape is not None,
                key=shape.key if shape else (),
                key_given=how.key_given,
                nullable=add_table_checks.nullable_of(how.key, keyed[table.dest])
                if table.dest in keyed
                else (),
                whole_row="whole_row" in table.attrs,
                # A table without a key is replicated with one of the two words only.
                lost_key=node.type is not NodeType.ROOT and "insert_only" not in table.attrs,
                copying=table.dropped_ddl is not None,
                unclear=_unclear(shape) if shape else (),
                width=widths.get(name),
                value=value,
                row=row,
            )
        )
    facts += [CaptureFacts(name, False, stale=old.reason) for name, old in stale.items()]
    return facts


def _renamed(
    table: ReplicatedTable, now: RenamedTable | None, node: NodeInfo, how: change_form.Capturing
) -> str:
    if now is None:
        return ""
    root, lost = node.type is NodeType.ROOT, _new_name(node, how)
    return f"{now.now}: {renamed_tables.after_rename(table.name, now, root=root, lost=lost)}"


def _new_name(node: NodeInfo, how: change_form.Capturing) -> bool:
    """Whether events of a table that is renamed carry its new name: a compatible trigger's do."""
    compatible = how.trigger in TRIGGERS and how.trigger != "capture"
    return compatible and node.type is not NodeType.LEAF


def _unclear(shape: Relation) -> tuple[str, ...]:
    return tuple(name for name in shape.key if shape.by_name[name].folding is Folding.NEVER)


def _largest(conn: Connection, shape: Relation) -> tuple[int | None, int | None]:
    """Bytes of the largest value and of the largest row; None for what may not be read.

    Text and bytea count uncompressed, other types as they are stored.
    """
    lengths = [
        sql.SQL("coalesce({}, 0)").format(
            sql.SQL(
                "pg_catalog.octet_length({})" if plain else "pg_catalog.pg_column_size({})"
            ).format(sql.Identifier(column.name))
        )
        for column in shape.columns
        for plain in [_is_one_of(column.type_name, _LENGTH_TYPES)]
    ]
    if not lengths:
        return 0, 0
    statement = sql.SQL(
        "select coalesce(max(greatest({})), 0)::int8, coalesce(max(({})::int8), 0)::int8 from {}"
    ).format(
        sql.SQL(", ").join(lengths),
        sql.SQL("::int8 + ").join(lengths),
        sql.Identifier(shape.name.schema, shape.name.name),
    )
    try:
        row = conn.execute(statement).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return None, None
    except psycopg.Error as error:
        raise from_database(error) from error
    return row if row is not None else (0, 0)


def _is_one_of(type_name: str, kinds: Collection[str]) -> bool:
    return type_name.partition("(")[0] in kinds
