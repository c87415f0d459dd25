"""Offsets of a stream: ticks of a queue, and the limits of a micro-batch.

An offset is what Spark writes into its checkpoint before a batch runs, so a batch is a pure
function of two of them.  After a restore the same number identifies other
events; so an offset contains the time of the tick and the generation of the queue too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Any
from uuid import UUID

from londiste.db.snapshot import Snapshot
from londiste.errors import StateError
from londiste.pgq.types import Tick

#: Names and types of columns.
Types = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Offset:
    """All events up to a tick are in the batches before.

    tick -- None before a snapshot, whose rows come first.
    seen -- the snapshot whose rows came first, while it may contain events after the tick.
    seq -- the highest event id at the tick, for the lag; None: written by an earlier release.
    types -- columns of the rows with their types in Spark; None: written by an earlier release.
    """

    tick: int | None
    time: datetime | None = None
    generation: UUID | None = None
    seen: str = ""
    seq: int | None = None
    types: Types | None = None

    @property
    def is_before_snapshot(self) -> bool:
        """Nothing was read, and rows come first."""
        return self.tick is None


#: In front of a snapshot.
BEFORE_SNAPSHOT = Offset(None)


def write(offset: Offset) -> dict[str, Any]:
    """As Spark keeps it: the same offset has the same text."""
    if offset.tick is None:
        return {"snapshot": "wanted"}
    found: dict[str, Any] = {"tick": offset.tick}
    if offset.time is not None:
        found["time"] = offset.time.isoformat()
    if offset.generation is not None:
        found["queue"] = str(offset.generation)
    if offset.seen:
        found["seen"] = offset.seen
    if offset.seq is not None:
        found["seq"] = offset.seq
    if offset.types is not None:
        found["types"] = dict(offset.types)
    return found


def read(text: dict[str, Any]) -> Offset:
    """The other way round.  Raises StateError for what this source has not written."""
    try:
        if text.get("snapshot") == "wanted":
            return BEFORE_SNAPSHOT
        return Offset(
            int(text["tick"]),
            datetime.fromisoformat(text["time"]) if "time" in text else None,
            UUID(text["queue"]) if "queue" in text else None,
            str(text.get("seen", "")),
            int(text["seq"]) if "seq" in text else None,
            tuple(text["types"].items()) if "types" in text else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise StateError(
            f"checkpoint: offset of another source: {str(text)[:200]}",
            detail="a checkpoint belongs to one query",
            hint="set a separate checkpointLocation for this query",
        ) from None


def changed_types(before: Types | None, now: Types | None) -> list[tuple[str, str, str]]:
    """The columns whose type is another one now, with both types.

    None: not known.  A column that was added or dropped is none of them.
    """
    old = dict(before or ())
    return [(name, old[name], kind) for name, kind in now or () if old.get(name, kind) != kind]


def at(tick: Tick, generation: UUID | None, before: Offset, types: Types | None = None) -> Offset:
    """The offset at a tick that a batch ends with, which began at ``before``."""
    seen = before.seen
    if seen and Snapshot.parse(tick.snapshot).xmin >= Snapshot.parse(seen).xmax:
        # Events after this tick are of transactions that started after the snapshot.
        seen = ""
    return Offset(tick.id, tick.time, generation, seen, tick.seq, types)


@dataclass(frozen=True)
class TickRange:
    """A part of the events of a batch, which one task reads.

    ticks -- the tick after which it starts, those inside, and the one at which it ends.
    first_id, last_id -- of event ids, from and to (not included); None: no bound.
    sampled -- only the first and the last tick are known; the task asks for those inside.
    """

    ticks: tuple[Tick, ...]
    first_id: int | None = None
    last_id: int | None = None
    seen: str = ""
    sampled: bool = False


#: Fewer events are not worth a task of their own.
WORTH_A_TASK = 5_000


def slices(
    ticks: Sequence[Tick],
    partitions: int,
    seen: str = "",
    worth: int = WORTH_A_TASK,
    *,
    sampled: bool = False,
    whole: bool = False,
) -> list[TickRange]:
    """Cuts the events between the first and the last of the ticks into about equal parts.

    At ticks where that gives equal parts; else a tick's events are cut by their ids.

    sampled -- there are more ticks between these.
    whole -- the events of a tick stay in one part.
    """
    if len(ticks) < 2:
        return []
    total = max(0, ticks[-1].seq - ticks[0].seq)
    count = max(1, min(partitions, total // worth))
    share = -(-total // count)
    found: list[TickRange] = []
    begin = 0
    while begin < len(ticks) - 1:
        # As many ticks as fit into a share, one at least.  What a part lacks, the next one has:
        # samples are too far apart for equal parts, and a small part would be left at the end.
        limit = ticks[0].seq + (len(found) + 1) * share if sampled else ticks[begin].seq + share
        end = len(ticks) - 1 if count == 1 else begin + 1
        while end + 1 < len(ticks) and ticks[end + 1].seq <= limit:
            end += 1
        group = tuple(ticks[begin : end + 1])
        part = TickRange((group[0], group[-1]) if sampled else group, seen=seen, sampled=sampled)
        found += [part] if whole or count == 1 else _by_ids(part, share)
        begin = end
    return found


def _by_ids(part: TickRange, share: int) -> list[TickRange]:
    first, last = part.ticks[0].seq + 1, part.ticks[-1].seq + 1
    pieces = max(1, round((last - first) / share))
    bounds = [first + (last - first) * number // pieces for number in range(1, pieces)]
    # Events of long transactions have ids below those of the tick before: the first has no bound.
    edges: list[int | None] = [None, *bounds, None]
    return [replace(part, first_id=low, last_id=high) for low, high in pairwise(edges)]


class TickOf:
    """Finds the tick of an event: the first whose snapshot sees its transaction."""

    def __init__(self, ticks: Sequence[Tick]) -> None:
        """ticks -- those of a slice; events are of those that the first does not see."""
        self._ticks = ticks[1:]
        self._snapshots = [Snapshot.parse(tick.snapshot) for tick in self._ticks]
        self._known: dict[int, Tick] = {}

    def __call__(self, txid: int) -> Tick:
        """The tick; events of one transaction have one."""
        found = self._known.get(txid)
        if found is None:
            # What a snapshot sees all later ones see.
            place = bisect_left(self._snapshots, True, key=lambda snapshot: snapshot.sees(txid))
            found = self._known[txid] = self._ticks[min(place, len(self._ticks) - 1)]
        return found
