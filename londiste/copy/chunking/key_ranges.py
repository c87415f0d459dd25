"""Chunks of a table by ranges of its key (``db/key_ranges.py``).

Only the source compares with the bounds, so the collation of the target plays no part.
"""

from __future__ import annotations

from collections.abc import Sequence

from londiste.copy.chunking.blocks import count_chunks
from londiste.db.catalog import Column, TableInfo
from londiste.db.connection import Connection
from londiste.db.key_ranges import Bound, bounds, ranges
from londiste.engine.spec import Chunk

#: Blocks of the sample for each chunk: a chunk is then as large as wanted, give or take a third.
_BLOCKS = 12
#: Rows that are kept of the blocks for each chunk.
_ROWS = 60


def split_by_key(
    conn: Connection,
    info: TableInfo,
    key: Sequence[Column],
    *,
    chunk_bytes: int,
    parallel: int = 1,
) -> tuple[Chunk, ...]:
    """The chunks of a table, in the order of its key; at least one.

    key -- columns of the primary key.  One statement reads the sample.
    parallel -- chunks at a time.
    """
    count = count_chunks(info.pages, info.total_bytes, chunk_bytes, parallel)
    names = [column.name for column in key]
    found: list[Bound] = []
    if count > 1:
        found = bounds(conn, info, names, count, tree=info.tree, blocks=_BLOCKS, rows=_ROWS)
    conditions = ranges(found, names, [column.read_as for column in key])
    share, rows = info.total_bytes // len(conditions), int(info.rows_estimate / len(conditions))
    return tuple(
        Chunk(info.name, number, condition, share, rows)
        for number, condition in enumerate(conditions)
    )


def open_end_first(chunks: Sequence[Chunk], last: int) -> tuple[Chunk, ...]:
    """The order to copy in: number ``last``, the range without an upper end, before the others.

    New rows mostly come there, and those that came before the chunk was read travel twice.
    """
    return tuple(sorted(chunks, key=lambda chunk: (chunk.number != last, chunk.number)))
