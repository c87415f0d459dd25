"""Rows of target tables that a copy replaces: ``add-table`` names them before."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from londiste.db import bulk_catalog
from londiste.db.bulk_catalog import TableFacts
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import translated
from londiste.errors import LondisteError, NodeUnreachable
from londiste.replication.commands.add_table_step import AddTable

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
    targets = [step.dest for step in steps if _replaces(step)]
    known = bulk_catalog.known(conn, targets)
    present = [known[name] for name in targets if name in known]
    filled = [facts for facts in present if facts.bytes or facts.kind != "r"]
    looked = {facts.name: _rows(conn, facts) for facts in filled}
    return described({name: text for name, text in looked.items() if text})


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


def _rows(conn: Connection, table: TableFacts) -> str:
    """The number of rows in words; '' for a table that is empty."""
    try:
        with translated(conn), conn.transaction():
            conn.execute(f"set local statement_timeout = {_LOOK_MS}")
            conn.execute(f"set local lock_timeout = {_LOOK_MS}")
            row = conn.execute(
                sql.SQL("select count(*) from (select from {} limit {}) r").format(
                    table.name.own(table.kind == "p"), _COUNTED + 1
                )
            ).fetchone()
    except NodeUnreachable:
        raise
    except LondisteError:
        # Locked, or not readable for this user: whether it has rows is unknown.
        return "its rows could not be read"
    assert row is not None
    return counted(row[0], table.rows_estimate) if row[0] else ""
