"""Preparation of a target table for its copy: dropped keys and indexes, truncation, attempt.

What is dropped is stored in the transaction that drops it: foreign keys in
``londiste.pending_fkeys``, everything else as statements in ``table_info.dropped_ddl``.  So
whenever the process dies, the database either has an object or knows how to create it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import psycopg
from psycopg import sql

from londiste.copy.sqlapi import attempts
from londiste.db import catalog, ddl, owner
from londiste.db.connection import Connection
from londiste.db.names import TableName, argument
from londiste.db.queries import translated
from londiste.engine.spec import Chunk
from londiste.errors import NoKey, Superseded
from londiste.replication import sqlapi as tables
from londiste.replication.forwarding import combined_queue
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import copied_rows

log = logging.getLogger(__name__)


def drop_foreign_keys(conn: Connection, table: ReplicatedTable) -> int:
    """Drops the foreign keys from and to a table, one transaction each.  Returns their number.

    One by one, because each needs locks on two tables: together they risk a deadlock
    with a reader.  ``conn`` in autocommit mode.
    """
    count = 0
    for fkey in tables.find_table_fkeys(conn, table.dest):
        count += tables.drop_table_fkey(conn, fkey.from_table, fkey.name)
    return count


def drop_foreign_keys_of(conn: Connection, dests: Iterable[TableName]) -> None:
    """Drops the foreign keys of several tables, by their names on the target."""
    for fkey in tables.find_tables_fkeys(conn, dests):
        tables.drop_table_fkey(conn, fkey.from_table, fkey.name)


def empty(conn: Connection, queue: str, table: ReplicatedTable) -> None:
    """Empties a table that keeps its indexes; the caller has begun an attempt.

    Waits only briefly for sessions that use the table: its whole group waits meanwhile.  ``conn``
    in autocommit mode.

    Raises Superseded, UsageError when others fill it too, LockTimeout.
    """
    with translated(conn), conn.transaction():
        conn.execute("set local lock_timeout = 500")
        # The table's state decides whether rows are kept, and that is not lost.
        conn.execute("set local synchronous_commit = off")
        conn.execute(sql.SQL("lock table only {} in access exclusive mode").format(table.dest.sql))
        now = find(conn, queue, table)
        if now is None or now.state != "in-copy":
            raise Superseded(f"table {table.name}: its copy is no longer requested")
        copied_rows.only_its_own(conn, queue, table)
        owner.truncate(conn, table.dest, tree=False)


#: Stores more about an attempt in the transaction that starts it: its number, and the statements
#: that restore the key, which are the first of ``table_info.dropped_ddl``.
OnProgress = Callable[[int, str], None]


def prepare(
    conn: Connection,
    queue: str,
    table: ReplicatedTable,
    chunks: Sequence[Chunk],
    *,
    key: Sequence[str] = (),
    also: OnProgress | None = None,
) -> int:
    """Empties the table, drops its indexes and starts a new attempt.  Returns its number.

    With skip_truncate only rows of earlier attempts are deleted.  Child tables are emptied too
    where the table's rules store its rows in them.

    key -- a unique index on these columns is restored before all others.
    also -- called at the end of the transaction.

    One transaction.  Waits for tasks of an earlier attempt and for sessions that use the table,
    as long as lock_timeout allows.  ``conn`` in autocommit mode, with role replica.

    Raises Superseded when the copy is no longer requested, UsageError when others
    fill the table too, NoKey, LockTimeout.
    """
    attempts.end_leftovers(conn, queue, table.name)
    drop_foreign_keys(conn, table)
    with translated(conn), conn.transaction():
        keeps_rows = "skip_truncate" in table.attrs
        written = copied_rows.written(conn, queue, table.name) if keeps_rows else []
        attempt = attempts.copy_start(
            conn,
            queue,
            table.name,
            total_bytes=sum(chunk.bytes for chunk in chunks),
            total_rows=sum(chunk.rows for chunk in chunks),
            total_chunks=len(chunks),
        )
        tree = is_tree(conn, table.dest)
        spreads = table.wants.spreads
        conn.execute(sql.SQL("lock table {} in access exclusive mode").format(table.dest.own(tree)))
        now = find(conn, queue, table)
        if now is None or now.state != "in-copy":
            raise Superseded(f"table {table.name}: its copy is no longer requested")
        earlier = now.dropped_ddl or ""
        if keeps_rows:
            copied_rows.take_back(conn, table, written, tree=tree)
        else:
            if spreads:
                copied_rows.empty_with_children(conn, queue, table)
            else:
                copied_rows.only_its_own(conn, queue, table)
                owner.truncate(conn, table.dest, tree=tree)
        if earlier and (spreads or (key and not keeps_rows)):
            # On an empty table that takes no time, and the key finds its place in front.
            ddl.run_stored(conn, earlier)
            earlier = ""
        if key and key_index(catalog.indexes(conn, table.dest), key) is None:
            raise NoKey(
                f"table {table.dest}: no unique index on {', '.join(key)}",
                hint="create one, or copy the table in one snapshot: londiste resync"
                f" {argument(table.name)} --copy-mode snapshot",
            )
        # An index of a partitioned table is one of each partition: those stay.  Where rows go on to
        # child tables, those are created like this one, with its indexes.
        first, rest = ([], []) if tree or spreads else _take_off(conn, queue, table, key)
        made_first = ddl.script(first)
        stored = made_first + earlier + ddl.script(rest)
        tables.local_set_table_struct(conn, queue, table.name, stored or None)
        if also is not None:
            also(attempt, made_first)
    return attempt


def is_tree(conn: Connection, table: TableName) -> bool:
    """Whether the table is partitioned."""
    info = catalog.info(conn, table)
    return info is not None and info.tree


def find(conn: Connection, queue: str, table: ReplicatedTable) -> ReplicatedTable | None:
    """The table as it is registered now; None when it is not replicated on this node."""
    found = tables.get_table(conn, queue, table.name)
    return found if found is not None and found.local else None


def _take_off(
    conn: Connection, queue: str, table: ReplicatedTable, key: Sequence[str]
) -> tuple[list[ddl.Removable], list[ddl.Removable]]:
    """Drops what can be dropped; the rest is kept and only costs time.

    Where changes of others are applied to the table meanwhile, what makes rows unique is kept: it
    finds their rows, and a row that comes twice is an error at once.

    What was dropped: the index of the key, and all others.
    """
    indexes = catalog.indexes(conn, table.dest)
    wanted = key_index(indexes, key)
    if combined_queue.others_apply(conn, queue, table.name, table.dest):
        indexes = [index for index in indexes if not (index.unique or index.constraint)]
    candidates = ddl.removable(table.dest, indexes, catalog.constraints(conn, table.dest))
    first: list[ddl.Removable] = []
    dropped: list[ddl.Removable] = []
    for item in candidates:
        try:
            with conn.transaction():
                conn.execute(item.drop.encode())
        except psycopg.errors.DependentObjectsStillExist:
            log.info(
                "table %s: %s is kept during the copy, other objects depend on it",
                table.dest,
                item.name,
            )
        else:
            (first if wanted is not None and item.index == wanted.name else dropped).append(item)
    return first, dropped


def key_index(indexes: Sequence[catalog.Index], key: Sequence[str]) -> catalog.Index | None:
    """A unique index on exactly these columns in any order; the primary key before others."""
    for index in sorted(indexes, key=lambda index: not index.primary):
        if key and index.unique and index.valid and set(index.key) == set(key):
            return index
    return None
