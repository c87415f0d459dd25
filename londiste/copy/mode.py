"""Copy mode of a table: snapshot or resumable, and the reason.

    snapshot    all chunks in one snapshot, by blocks: the fastest; starts over when it is killed
    resumable   each chunk in its own snapshot, by key ranges: continues where it stopped

Pure: facts of the table in, mode and reason out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from londiste.db.names import argument
from londiste.errors import UsageError

SNAPSHOT, RESUMABLE = "snapshot", "resumable"


@dataclass(frozen=True)
class ModeFacts:
    """Facts that decide the mode.

    table -- its name, for messages.
    wanted -- auto, snapshot or resumable.
    bytes -- size of the source table; threshold -- from where on auto is resumable.
    key -- columns of the source's primary key.
    key_here -- a unique index of the target table finds rows by them.
    keeps_rows -- rows of the target are kept (skip_truncate).
    shared -- several queues fill this table.
    obstacle -- why events do not carry whole rows by that key, as far as it is known.
    missing -- columns that are copied and not in the events: the source computes them.
    refused -- the error of an earlier resumable attempt.
    reads -- how often blocks of the table would be read in ranges of its key (``reads_by_key``).
    """

    table: str
    wanted: str
    bytes: int
    threshold: int
    key: tuple[str, ...] = ()
    key_here: bool = True
    keeps_rows: bool = False
    shared: bool = False
    obstacle: str = ""
    missing: tuple[str, ...] = ()
    refused: str = ""
    reads: float = 1.0


#: Reads per block above which auto prefers one long snapshot to key ranges.
MOST_READS = 4.0
#: A table of fewer bytes is in its server's memory, where the order of reading does not matter.
CACHED = 1024**3


@dataclass(frozen=True)
class CopyMode:
    """The decision."""

    mode: str
    reason: str


def choose(facts: ModeFacts) -> CopyMode:
    """Chooses the mode.

    Raises UsageError when a resumable copy was requested and is impossible.
    """
    if facts.wanted == SNAPSHOT:
        return CopyMode(SNAPSHOT, "requested")
    obstacle = impossible(facts)
    if facts.wanted == RESUMABLE:
        if obstacle:
            raise UsageError(
                f"table {facts.table}: a resumable copy is not possible",
                detail=obstacle,
                hint=f"copy it in one snapshot: londiste resync {argument(facts.table)}"
                " --copy-mode auto",
            )
        return CopyMode(RESUMABLE, "requested")
    if facts.bytes < facts.threshold:
        return CopyMode(
            SNAPSHOT, f"smaller than resumable_copy_min_bytes ({_size(facts.threshold)})"
        )
    if obstacle:
        return CopyMode(SNAPSHOT, obstacle)
    if facts.reads > MOST_READS:
        return CopyMode(
            SNAPSHOT,
            "its rows are not stored in primary key order: key ranges would read the table"
            f" {facts.reads:.0f} times",
        )
    return CopyMode(RESUMABLE, f"at least resumable_copy_min_bytes ({_size(facts.threshold)})")


def reads_by_key(
    *, size: int, pages: int, rows: float, chunks: int, correlation: float | None
) -> float:
    """How often each block of a table is read when it is read in ranges of its key.

    Rows of a random key (uuid) lie anywhere, so every range reads nearly every block.  Where the
    order agrees with that of the blocks it is once; in between it is weighed by the square of
    the correlation, as the server's planner does it.  Without statistics: once.
    """
    if correlation is None or size < CACHED or pages <= 0 or rows <= 0:
        return 1.0
    ordered = correlation * correlation
    touched = 1.0 - math.pow(1.0 - 1.0 / max(1, chunks), rows / pages)
    return ordered + (1.0 - ordered) * max(1.0, chunks * touched)


def impossible(facts: ModeFacts) -> str:
    """Why a table cannot be copied resumably; '' if it can."""
    if facts.refused:
        return facts.refused
    if not facts.key:
        return "the source table has no primary key"
    if not facts.key_here:
        return f"the target table has no unique index on {', '.join(facts.key)}"
    if facts.keeps_rows:
        return "rows of the target are kept (skip_truncate)"
    if facts.shared:
        return "several queues fill the table"
    if facts.missing:
        return f"events lack columns that the source computes: {', '.join(facts.missing)}"
    return facts.obstacle


def _size(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count = count // 1024 if count % 1024 == 0 else round(count / 1024)
    return f"{count} GB"
