"""Scheduler of copies: which waiting tables may start now.

Large tables start one by one, the largest first; the start drops foreign keys, so no table starts
long before its turn.  Small ones are copied in groups and start by the hundred.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from londiste.db.names import TableName


@dataclass(frozen=True)
class Room:
    """Free slots: how many more tables may start."""

    large: int
    small: int

    def more(self, large: int) -> Room:
        """The same with slots for more large ones."""
        return replace(self, large=self.large + large)


def room(copying: Iterable[int | None], *, most: int, most_small: int, small: int) -> Room:
    """The slots left beside the tables that are being copied.

    copying -- their sizes in bytes; None where it is not known, which counts as large.
    """
    sizes = list(copying)
    little = sum(size is not None and size <= small for size in sizes)
    return Room(most - (len(sizes) - little), most_small - little)


def admitted(
    missing: Sequence[tuple[TableName, int | None]], room: Room, *, small: int
) -> frozenset[TableName]:
    """The tables that start, of tables and their sizes in the order of adding."""
    large = sorted(
        (one for one in missing if one[1] is None or one[1] > small),
        key=lambda one: -(one[1] or 0),
    )
    little = [one for one in missing if one[1] is not None and one[1] <= small]
    return frozenset(
        name
        for some, places in ((large, room.large), (little, room.small))
        for name, _ in some[: max(0, places)]
    )
