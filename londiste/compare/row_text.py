"""Rows of a comparison as texts: read by COPY, and transformed as a handler does.

Of a table whose rows a handler transforms, whole rows come to this process: the root's go through
the handler's function, and the node's server writes the results as texts of its types.  So an
original value is neither on the node nor in a reported difference.
"""

# ruff: noqa: S608 - every name passes through quote(), every value through literal(), every type comes
# from format_type(), conditions are those of the user or made in chunks.py.

from __future__ import annotations

from collections.abc import Iterator, Sequence

from londiste.compare.column_pairing import Pairing, as_stored
from londiste.compare.diff import Row
from londiste.db.connection import Connection, describe_dsn
from londiste.db.copy import unescaped
from londiste.db.ddl import literal
from londiste.db.queries import streaming, translated
from londiste.engine.row_hash import key_hash
from londiste.error_values import Values
from londiste.errors import StateError

_AS_THEY_ARE = {"text", "uuid", "integer", "bigint", "json"}


def lines(conn: Connection, dsn: str, statement: str) -> Iterator[bytes]:
    """The lines of a COPY, without their ends; a value's line break is escaped in them."""
    rest = b""
    with (
        translated(describe_dsn(dsn), Values.APART),
        streaming(conn),
        conn.cursor().copy(statement.encode()) as stream,
    ):
        for block in stream:
            data = rest + bytes(block)
            *whole, rest = data.split(b"\n")
            yield from whole


def fields(line: bytes) -> Row:
    """The values of a line of COPY.  Raises StateError for bytes that are no text."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise StateError(
            "a row contains bytes that are no text in UTF-8",
            detail='an array of type "char" of PostgreSQL 14 does',
            hint="exclude the table, or compare its number of rows: londiste compare --count-only",
        ) from None
    return tuple(unescaped(field) for field in text.split("\t"))


def transformed(node: Connection, table: Pairing, rows: Sequence[Row]) -> list[Row]:
    """The root's rows as replication stores them on the node, in the order of the columns."""
    function = table.pair.wants.rows
    if function is None or not table.masked:
        return list(rows)
    images = [function(dict(zip(table.columns, row, strict=True))) for row in rows]
    result = [[image.get(name) for name in table.columns] for image in images]
    for number, (name, kind) in enumerate(zip(table.columns, table.read_as, strict=True)):
        if name in table.masked and kind not in _AS_THEY_ARE:
            for row, value in zip(
                result,
                _written(node, [r[number] for r in result], kind),
                strict=True,
            ):
                row[number] = value
    return [tuple(row) for row in result]


def _written(node: Connection, values: Sequence[str | None], kind: str) -> list[str | None]:
    """The server's texts of values of a type."""
    texts = ", ".join("null" if value is None else literal(value) for value in values)
    if not texts:
        return []
    statement = (
        f"copy (select {as_stored('v', kind)} from unnest(array[{texts}]::text[])"
        " with ordinality as s(v, n) order by n) to stdout"
    )
    return [fields(line)[0] for line in lines(node, node.info.dsn, statement)]


def transformed_sides(
    root: Connection, node: Connection, table: Pairing, condition: tuple[str, str]
) -> tuple[dict[bytes, list[bytes]], dict[bytes, list[bytes]]]:
    """Digests by key, as ``drill`` reads them of tables whose rows are the same on both sides."""
    found: list[dict[bytes, list[bytes]]] = []
    for is_root, conn, where in ((True, root, condition[0]), (False, node, condition[1])):
        key = table.expressions(table.key, root=is_root)
        columns = table.root if is_root else table.node
        statement = (
            f"copy (select {', '.join(key)}, {key_hash(conn, key)}, {', '.join(columns)}"
            f" {table.source(root=is_root)}{f' where {where}' if where else ''}) to stdout"
        )
        keys, rows = [], []
        for line in lines(conn, conn.info.dsn, statement):
            parts = line.split(b"\t", len(key) + 1)
            keys.append(b"\t".join(parts[:-1]))
            rows.append(fields(parts[-1]))
        if is_root:
            rows = transformed(node, table, rows)
        side: dict[bytes, list[bytes]] = {}
        for which, row in zip(keys, rows, strict=True):
            side.setdefault(which, []).append(repr(row).encode())
        found.append(side)
    return found[0], found[1]
