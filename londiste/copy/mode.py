"""In which of two ways a table is copied, and why.

    snapshot    all chunks in one snapshot, by blocks: the fastest, begins anew when it is killed
    resumable   each chunk in a snapshot of its own, by ranges of the key: goes on where it stood

Pure: what is known of the table in, the way and its reason out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from londiste.errors import UsageError

SNAPSHOT, RESUMABLE = "snapshot", "resumable"


@dataclass(frozen=True)
class ModeFacts:
    """What decides.

    table -- its name, for messages.
    wanted -- auto, snapshot or resumable.
    bytes -- size of the source table; threshold -- from where on auto is resumable.
    key -- columns of the source's primary key.
    key_here -- a unique index of this node's table finds rows by them.
    keeps_rows -- the rows that are here stay (skip_truncate).
    shared -- several queues fill this table.
    obstacle -- why the events do not tell whole rows by that key, as far as it is known.
    missing -- columns that are copied and not in the events: the source computes them.
    refused -- what an earlier attempt has run into.
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


#: Above this many readings auto rather keeps a snapshot open than to read ranges of the key.
MOST_READS = 4.0
#: A table of fewer bytes is in its server's memory, where the order of reading does not matter.
CACHED = 1024**3


@dataclass(frozen=True)
class CopyMode:
    """The decision."""

    mode: str
    reason: str


def choose(facts: ModeFacts) -> CopyMode:
    """The way to copy a table.

    Raises UsageError when the resumable way was asked for and is impossible.
    """
    if facts.wanted == SNAPSHOT:
        return CopyMode(SNAPSHOT, "asked for")
    obstacle = impossible(facts)
    if facts.wanted == RESUMABLE:
        if obstacle:
            raise UsageError(
                f"table {facts.table} cannot be copied in the resumable way",
                detail=obstacle,
                hint=f"have it copied in one snapshot: londiste resync {facts.table}"
                " --copy-mode auto",
            )
        return CopyMode(RESUMABLE, "asked for")
    if facts.bytes < facts.threshold:
        return CopyMode(
            SNAPSHOT, f"smaller than resumable_copy_min_bytes ({_size(facts.threshold)})"
        )
    if obstacle:
        return CopyMode(SNAPSHOT, obstacle)
    if facts.reads > MOST_READS:
        return CopyMode(
            SNAPSHOT,
            "its rows do not lie in the order of the primary key: in ranges of the key"
            f" the table would be read {facts.reads:.0f} times",
        )
    return CopyMode(
        RESUMABLE, f"not smaller than resumable_copy_min_bytes ({_size(facts.threshold)})"
    )


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
    """Why a table cannot be copied in the resumable way; '' if it can."""
    if facts.refused:
        return facts.refused
    if not facts.key:
        return "the source table has no primary key"
    if not facts.key_here:
        return f"the table here has no unique index on {', '.join(facts.key)}"
    if facts.keeps_rows:
        return "rows that are here stay (skip_truncate)"
    if facts.shared:
        return "several queues fill the table"
    if facts.missing:
        return f"events do not have what the source computes: {', '.join(facts.missing)}"
    return facts.obstacle


def _size(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count = count // 1024 if count % 1024 == 0 else round(count / 1024)
    return f"{count} GB"
