"""Chunks of a table for comparison: key ranges, or the whole table in hash buckets.

Ranges of the key, where both servers order it alike: every row of either side is in exactly one,
because the first and the last have no end.  The bounds are keys of a sample of the root's rows; a
range may have many more rows on the node: the drill reads it in passes.  Other tables (texts,
whose order depends on the server's collation, tables without a key) are one piece, told apart into
buckets by a hash of the key's text, or the row's.
"""

from __future__ import annotations

from londiste.compare.checksum import PIECE_BYTES, Piece
from londiste.compare.column_pairing import Pairing
from londiste.db import catalog, key_ranges
from londiste.db.connection import Connection

#: Rows of a bucket, about.
BUCKET_ROWS = 4_000
_MOST_PIECES = 10_000
_MOST_BUCKETS = 1 << 14
#: From this size it matters that ranges of a heap in another order are read at random.
_RANDOM_BYTES = 512 << 20
#: Blocks of the sample of keys for each range, and rows that are kept of them.
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
            bounds = key_ranges.bounds(
                *(root, there, table.key, count),
                tree=table.root_children,
                blocks=_BLOCKS,
                rows=_ROWS,
            )
            found = key_ranges.ranges(bounds, table.key, table.key_types)
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
