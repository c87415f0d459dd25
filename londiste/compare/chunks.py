"""Chunks of a table for comparison: key ranges, or the whole table in hash buckets.

Ranges of the key, where both servers order it alike: every row of either side is in exactly one,
because the first and the last have no end.  The bounds are keys of a sample of the root's rows; a
range may have many more rows on the node: the drill reads it in passes.  Other tables (texts,
whose order depends on the server's collation, tables without a key) are one piece, told apart into
buckets by a hash of the key's text, or the row's.
"""

# ruff: noqa: S608 - every name passes through quote(), every value through literal(), every type comes
# from format_type(), conditions are those of the user or made in pieces.py.

from __future__ import annotations

from collections.abc import Sequence

from londiste.compare.checksum import PIECE_BYTES, Piece
from londiste.compare.column_pairing import Pairing
from londiste.db import catalog
from londiste.db.connection import Connection
from londiste.db.ddl import literal
from londiste.db.names import quote
from londiste.db.queries import translated

#: Rows of a bucket, about.
BUCKET_ROWS = 4_000
_MOST_PIECES = 10_000
_MOST_BUCKETS = 1 << 14
#: From this size it matters that ranges of a heap in another order are read at random.
_RANDOM_BYTES = 512 << 20
_BLOCKS = 32
_ROWS = 100


def cut(
    root: Connection, node: Connection, table: Pairing, *, force_ranges: bool = False
) -> tuple[Piece, ...]:
    """The pieces of a table; reads a sample of the root's blocks at most.

    force_ranges -- also where reading them goes over the whole disk: one range at a time.
    """
    there = catalog.require(root, table.pair.table)
    here = catalog.require(node, table.pair.dest)
    size = max(there.total_bytes, here.total_bytes)
    count = min(-(-there.total_bytes // PIECE_BYTES), there.pages, _MOST_PIECES)
    if count > 1 and table.ordered:
        near = catalog.correlation(root, table.pair.table, table.key[0])
        in_order = near is None or abs(near) >= 0.5 or size < _RANDOM_BYTES
        if in_order or force_ranges:
            found = ranges(_bounds(root, table, count, there), table)
            share = size // len(found)
            return tuple(Piece(table, n, text, 1, share) for n, text in enumerate(found))
    rows = max(there.rows_estimate, here.rows_estimate)
    # Blocks are told apart in one heap only.
    pages = (
        0 if table.root_children else there.pages,
        0 if table.node_children else here.pages,
    )
    return (Piece(table, 0, "", buckets(rows), size, *pages),)


def buckets(rows: float) -> int:
    """Number of buckets for a chunk of this many rows: a power of two."""
    count = 1
    while count < rows / BUCKET_ROWS and count < _MOST_BUCKETS:
        count *= 2
    return count


def ranges(bounds: Sequence[tuple[str, ...]], table: Pairing) -> list[str]:
    """Conditions of which every row meets exactly one; '' is all rows.

    bounds -- ascending; one that comes twice is taken once.
    """
    columns = _row([quote(name) for name in table.key])
    texts = [
        _row(
            [
                f"{literal(value)}::{kind}"
                for value, kind in zip(bound, table.key_types, strict=True)
            ]
        )
        for bound in dict.fromkeys(bounds)
    ]
    result = []
    for lower, upper in zip([None, *texts], [*texts, None], strict=True):
        parts = [] if lower is None else [f"{columns} >= {lower}"]
        parts += [] if upper is None else [f"{columns} < {upper}"]
        result.append(" and ".join(parts))
    return result


def _row(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _bounds(
    conn: Connection, table: Pairing, count: int, info: catalog.TableInfo
) -> list[tuple[str, ...]]:
    """Keys that divide the root's rows into about ``count`` equal parts, ascending; or fewer."""
    share = min(1.0, count * _BLOCKS / max(1, info.pages))
    likely = info.rows_estimate * share
    keep = min(1.0, count * _ROWS / likely) if likely else 1.0
    columns = ", ".join(map(quote, table.key))
    statement = (
        f"select {', '.join(f'{quote(k)}::text' for k in table.key)} from ("
        f" select {columns}, row_number() over (order by {columns}) as n,"
        " count(*) over () as total"
        f" from (select {columns} {table.source(root=True)}"
        f" tablesample system ({round(share * 100, 9)})"
        f" where random() < {keep if keep < 1.0 else 2.0}) as s) as t"
        f" where n < total and n * {count} / total <> (n - 1) * {count} / total"
        " order by n"
    )
    with translated(conn):
        return [tuple(map(str, row)) for row in conn.execute(statement.encode())]
