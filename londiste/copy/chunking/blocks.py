"""Chunks of a table by ranges of its blocks.

Every row version lies in one block, and in one snapshot every row has one version.  So ranges
of blocks that do not overlap and leave no block out hold every row once, whatever its key is
and whether it has one.  The last range has no end: the table may have grown since its size
was read.  PostgreSQL 14 and later read such a range without looking at other blocks.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

from londiste.db.names import TableName
from londiste.engine.spec import Chunk

#: A chunk costs some milliseconds, in Spark some ten; more of them than this only cost.
MAX_CHUNKS = 10_000
#: Minimum bytes of a chunk of a table that is split only to keep all tasks at work: less is copied
#: before a second task has started its process.
WORTH_A_TASK = 48 << 20


def split(
    table: TableName,
    *,
    pages: int,
    total_bytes: int,
    rows: float = 0,
    chunk_bytes: int,
    parallel: int = 1,
    leaves: Sequence[int] = (),
) -> tuple[Chunk, ...]:
    """The chunks of a table, in the order of its blocks; at least one.

    pages -- blocks of the heap.
    total_bytes -- of the heap and what is stored beside it (TOAST).
    rows -- estimate, for progress only.
    chunk_bytes -- target size of a chunk; a table up to one and a half times of that is
        only split for ``parallel``.
    parallel -- chunks at a time.
    leaves -- of a partitioned table: blocks of each partition, ``pages`` in sum.
        A range is then of the blocks of every partition.
    """
    count = count_chunks(pages, total_bytes, chunk_bytes, parallel)
    if count == 1:
        return (Chunk(table, 0, "", total_bytes, int(rows)),)
    if leaves:
        bounds = _tree_bounds(leaves, count)
        count = len(bounds)
    else:
        bounds = [pages * number // count for number in range(count)]
    share, row_share = total_bytes // count, int(rows / count)
    return tuple(
        Chunk(table, number, _range(bounds, number), share, row_share) for number in range(count)
    )


def count_chunks(pages: int, total_bytes: int, chunk_bytes: int, parallel: int = 1) -> int:
    """Number of chunks of a table of this size.

    Of few chunks the last ones count: three chunks on two tasks take as long as four.  So there are
    as many more as it takes to keep ``parallel`` tasks at work to the end.
    """
    wanted = 1
    if total_bytes * 2 > chunk_bytes * 3:
        wanted = -(-total_bytes // max(1, chunk_bytes))
    if wanted < 4 * parallel:
        even = -(-wanted // parallel) * parallel
        wanted = max(wanted, min(even, total_bytes // WORTH_A_TASK))
    return max(1, min(wanted, pages, MAX_CHUNKS))


def _tree_bounds(leaves: Sequence[int], count: int) -> list[int]:
    """Starts of ranges with about the same number of blocks, all partitions together."""
    total, largest = sum(leaves), max(leaves)
    found = [0]
    for number in range(1, count):
        wanted = total * number // count
        bound = bisect.bisect_left(
            range(largest + 1), wanted, key=lambda block: sum(min(block, n) for n in leaves)
        )
        if found[-1] < bound < largest:
            found.append(bound)
    return found


def _range(bounds: list[int], number: int) -> str:
    conditions = []
    if number > 0:
        conditions.append(f"ctid >= '({bounds[number]},0)'::tid")
    if number + 1 < len(bounds):
        conditions.append(f"ctid < '({bounds[number + 1]},0)'::tid")
    return " and ".join(conditions)
