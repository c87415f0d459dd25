"""Compaction: chooses the small files of a lake table to join.

Every epoch adds a file to a part, so a day of an ``append`` and the closed rows of a history would
be as many files as there were epochs.  Files of about one size are joined when there are enough of
them, and the result waits for others of its own size: each row is written again as often as the
logarithm of the number of files says, not as often as there are files (the size-tiered compaction
of log-structured merge trees, O'Neil et al. 1996).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from londiste.lake.versions import File

#: Parts that one job takes: what it plans grows with them.
PARTS = 32


def choose(
    files: Iterable[File], *, limit: int, least: int = 2, tiered: bool = True
) -> dict[str, tuple[File, ...]]:
    """The files of each part that are to be one; at most ``PARTS`` parts, those with most first.

    limit -- bytes from which on a file is left alone, and at which a new one is large enough.
    least -- so many files are worth a new one; two at least.
    tiered -- only files of about one size are joined; otherwise all that are small.
    """
    small = defaultdict(list)
    for file in files:
        if file.bytes < limit:
            small[file.part].append(file)
    found = {
        part: max(_runs(some, limit, tiered), key=len, default=()) for part, some in small.items()
    }
    worth = {part: some for part, some in found.items() if len(some) >= max(2, least)}
    most = sorted(worth, key=lambda part: (-len(worth[part]), part))[:PARTS]
    return {part: worth[part] for part in most}


def _runs(files: list[File], limit: int, tiered: bool) -> Iterator[tuple[File, ...]]:
    """Files by size, until they are enough, or the next one is larger than all before it."""
    run: list[File] = []
    total = 0
    for file in sorted(files, key=lambda one: (one.bytes, one.path)):
        # Of the first ones each is nearly as large as the next.
        larger = tiered and run and file.bytes > max(total, 2 * run[-1].bytes)
        if larger or total >= limit:
            yield tuple(run)
            run, total = [], 0
        run.append(file)
        total += file.bytes
    yield tuple(run)
