"""Recheck of suspects: reads whole rows of both sides at one tick."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from londiste.compare.column_pairing import Pairing
from londiste.compare.diff import Row, RowDifference, differences
from londiste.compare.row_diff import Suspect
from londiste.compare.row_text import fields, lines, transformed
from londiste.db.connection import Connection
from londiste.db.ddl import typed
from londiste.db.sessions.view_guard import refuse_views
from londiste.engine.row_hash import key_hash

#: Keys of one statement.
_KEYS = 2_000


def look(
    root: Connection, node: Connection, table: Pairing, suspects: Sequence[Suspect]
) -> list[RowDifference]:
    """The differences between the rows of these keys, in the transactions of the two sessions.

    The row filter of the table holds, a condition of the command does not: a row that is inside of
    it on one side and outside on the other is one row that differs, not one too many.
    """
    refuse_views(root, table.pair.table, conditions=[table.wanted])
    refuse_views(node, table.pair.dest)
    root_rows = transformed(node, table, list(fetch(root, table, suspects, root=True)))
    node_rows = list(fetch(node, table, suspects, root=False))
    return differences(root_rows, node_rows, [table.columns.index(name) for name in table.key])


def fetch(
    conn: Connection, table: Pairing, suspects: Sequence[Suspect], *, root: bool
) -> Iterator[Row]:
    """The rows of a side that have one of the keys, values in the order of the table's columns."""
    wanted = {suspect.values for suspect in suspects}
    columns = table.root if root else table.node
    where = f"({table.wanted}) and " if root and table.wanted else ""
    places = [table.columns.index(name) for name in table.found_by]
    for condition in _conditions(conn, table, suspects, root=root):
        statement = (
            f"copy (select {', '.join(columns)} {table.source(root=root)}"
            f" where {where}{condition}) to stdout"
        )
        for line in lines(conn, conn.info.dsn, statement):
            row = fields(line)
            # Equal by the type is not yet the same key: 1.0 and 1.00, or texts of some collations.
            if tuple(row[n] for n in places) in wanted:
                yield row


def _conditions(
    conn: Connection, table: Pairing, suspects: Sequence[Suspect], *, root: bool
) -> Iterator[str]:
    """Conditions that find every row of the keys, and each row once."""
    by_index = bool(table.key) and (table.ordered or table.same_key_types)
    found = [s for s in suspects if by_index and None not in s.values]
    known = set(found)
    rest = [s for s in suspects if s not in known]
    for start in range(0, len(found), _KEYS):
        some = found[start : start + _KEYS]
        # Literals, which the input function of a type reads: a cast of a text may read less.
        rows = ", ".join(
            f"({', '.join(map(typed, suspect.values, table.key_types))})" for suspect in some
        )
        # Inside of the condition a column of this name would hide that of the table.
        name = "k"
        while any(column.startswith(name) for column in table.key):
            name += "_"
        names = [f"{name}{n}" for n in range(len(table.key))]
        same = " and ".join(
            f"{equals} s.{value}"
            for equals, value in zip(
                table.root_equals if root else table.node_equals, names, strict=True
            )
        )
        yield f"exists (select from (values {rows}) as s({', '.join(names)}) where {same})"
    if rest:
        key = key_hash(conn, table.expressions(table.found_by, root=root))
        yield f"{key} in ({', '.join(str(s.hash) for s in rest)})"
