"""Rows that a handler transforms: the root's rows are transformed the same way for comparison.

The rows come to this process whole, the root's go through the handler's function, and what comes
out is written as the type of the column here writes it, by this node's server.  So an original
value is neither on this node nor in what is shown of a difference.
"""

# ruff: noqa: S608 - every name passes through quote(), every value through literal(), every type comes
# from format_type(), conditions are those of the user or made in pieces.py.

from __future__ import annotations

from collections.abc import Sequence

from londiste.compare.column_pairing import Pairing
from londiste.compare.diff import Row
from londiste.compare.row_text import fields, lines, source
from londiste.db.connection import Connection, describe_dsn
from londiste.db.ddl import literal
from londiste.engine.tasks import key_hash

_AS_THEY_ARE = {"text", "uuid", "integer", "bigint", "json"}


def changed(node: Connection, table: Pairing, rows: Sequence[Row]) -> list[Row]:
    """The root's rows as they are to be here; values in the order of the table's columns."""
    function = table.pair.wants.rows
    if function is None or not table.masked:
        return list(rows)
    images = [function(dict(zip(table.columns, row, strict=True))) for row in rows]
    result = [[image.get(name) for name in table.columns] for image in images]
    for number, (name, kind) in enumerate(zip(table.columns, table.types, strict=True)):
        if name in table.masked and kind not in _AS_THEY_ARE:
            for row, value in zip(
                result,
                _written(node, [r[number] for r in result], kind),
                strict=True,
            ):
                row[number] = value
    return [tuple(row) for row in result]


def _written(node: Connection, values: Sequence[str | None], kind: str) -> list[str | None]:
    """Texts as values of this type are written by the server."""
    texts = ", ".join("null" if value is None else literal(value) for value in values)
    if not texts:
        return []
    statement = (
        f"copy (select v::{kind} from unnest(array[{texts}]::text[]) with ordinality as s(v, n)"
        " order by n) to stdout"
    )
    return [fields(line)[0] for line in lines(node, describe_dsn(node.info.dsn), statement)]


def sides(
    root: Connection, node: Connection, table: Pairing, condition: tuple[str, str]
) -> tuple[dict[bytes, list[bytes]], dict[bytes, list[bytes]]]:
    """Digests by key, as ``drill`` reads them of tables whose rows are the same on both sides."""
    found: list[dict[bytes, list[bytes]]] = []
    for is_root, conn, where in ((True, root, condition[0]), (False, node, condition[1])):
        key = table.expressions(table.key, root=is_root)
        columns = table.root if is_root else table.node
        statement = (
            f"copy (select {', '.join(key)}, {key_hash(key)}, {', '.join(columns)}"
            f" {source(table, root=is_root)}{f' where {where}' if where else ''}) to stdout"
        )
        keys, rows = [], []
        for line in lines(conn, describe_dsn(conn.info.dsn), statement):
            parts = line.split(b"\t", len(key) + 1)
            keys.append(b"\t".join(parts[:-1]))
            rows.append(fields(parts[-1]))
        if is_root:
            rows = changed(node, table, rows)
        side: dict[bytes, list[bytes]] = {}
        for which, row in zip(keys, rows, strict=True):
            side.setdefault(which, []).append(repr(row).encode())
        found.append(side)
    return found[0], found[1]
