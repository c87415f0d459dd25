"""Rows of target tables that a copy replaces, or stands beside: ``add-table`` names them before."""

from __future__ import annotations

from collections.abc import Container, Sequence

from psycopg import sql

from londiste.db import bulk_catalog
from londiste.db.bulk_catalog import TableFacts
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import translated
from londiste.db.sessions.view_guard import reading
from londiste.errors import LondisteError, NodeUnreachable
from londiste.replication.commands.add_table_step import AddTable
from londiste.replication.forwarding import combined_queue

#: Rows that are counted; above, the number is the estimate of the catalog.
_COUNTED = 1000
#: Tables that one line names.
_NAMED = 20
#: Milliseconds for the look at one table.
_LOOK_MS = 1000


def replaced(conn: Connection, steps: Sequence[AddTable]) -> list[str]:
    """One line that names the tables whose rows the copies replace; empty when there are none.

    conn -- the node's database.  Reads at most a thousand rows of a table, and of none that has no
        pages, as one that was just created.
    """
    mine = [step for step in steps if _replaces(step)]
    in_children = {step.dest for step in mine if step.wants.spreads}
    return described(_filled(conn, [step.dest for step in mine], in_children))


def beside(conn: Connection, steps: Sequence[AddTable]) -> list[str]:
    """A line for each table with rows that a copy keeps, and that others fill, too.

    conn, steps -- as for ``replaced``.
    """
    kept = [step for step in steps if step.copied and not _replaces(step)]
    others = {
        step.dest: combined_queue.others_filling(conn, step.queue, step.table, step.dest)
        for step in kept
    }
    found = _filled(conn, [name for name, who in others.items() if who], ())
    return [shared(name, rows, others[name]) for name, rows in found.items()]


def shared(name: TableName, rows: str, others: Sequence[str]) -> str:
    """Pure: the line for a table whose rows stay."""
    return (
        f"table {name} ({rows}) of this node is also filled from {', '.join(others)}: its rows"
        " stay. If rows of the new source are among them, from an earlier copy, delete those"
        " first: the copy writes them again and stops at the duplicate key"
    )


def _filled(
    conn: Connection, names: Sequence[TableName], in_children: Container[TableName]
) -> dict[TableName, str]:
    """Those of the tables that have rows, with their number in words.

    in_children -- tables whose rows are in child tables, too.
    """
    known = bulk_catalog.known(conn, names)
    looked = {
        name: _rows(conn, known[name], tree=known[name].kind == "p" or name in in_children)
        for name in names
        if name in known and (known[name].bytes or known[name].kind != "r" or name in in_children)
    }
    return {name: text for name, text in looked.items() if text}


def described(found: dict[TableName, str]) -> list[str]:
    """Pure: the line for tables, each with the number of its rows in words."""
    if not found:
        return []
    names = [f"{name} ({text})" for name, text in found.items()]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    word = "table" if len(names) == 1 else "tables"
    return [
        f"{word} {', '.join(names[:_NAMED])}{more} of this node: the copy replaces existing rows;"
        " --skip-truncate keeps them, --expect-sync copies nothing because the rows are equal"
    ]


def counted(rows: int, estimate: float) -> str:
    """Pure: the number of rows in words.

    rows -- counted, one more than the limit if there are more.  estimate -- of the catalog.
    """
    if rows <= _COUNTED:
        return "1 row" if rows == 1 else f"{rows} rows"
    if estimate > _COUNTED:
        return f"about {estimate:,.0f} rows"
    return f"more than {_COUNTED:,} rows"


def _replaces(step: AddTable) -> bool:
    """Whether the copy of a step, or the step itself, deletes the rows of its target."""
    return step.copied and (step.empties or "skip_truncate" not in step.words)


def _rows(conn: Connection, table: TableFacts, *, tree: bool) -> str:
    """The number of rows in words; '' for a table that is empty."""
    try:
        with translated(conn), conn.transaction():
            conn.execute(f"set local statement_timeout = {_LOOK_MS}")
            conn.execute(f"set local lock_timeout = {_LOOK_MS}")
            with reading(conn, table.name):
                row = conn.execute(
                    sql.SQL("select count(*) from (select from {} limit {}) r").format(
                        table.name.own(tree), _COUNTED + 1
                    )
                ).fetchone()
    except NodeUnreachable:
        raise
    except LondisteError:
        # Locked, or not readable for this user: whether it has rows is unknown.
        return "its rows could not be read"
    assert row is not None
    return counted(row[0], table.rows_estimate) if row[0] else ""
