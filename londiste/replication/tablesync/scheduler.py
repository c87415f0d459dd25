"""Which tables that wait for their copy are begun now: as many as the copy process can soon use.

Large tables come one by one, the largest first; each has its foreign keys taken off as it is begun,
so none is begun long before its turn.  Small ones are copied together, and begun by the hundred.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from londiste.db.names import TableName


@dataclass(frozen=True)
class Room:
    """How many tables more may be begun."""

    large: int
    small: int

    def more(self, large: int) -> Room:
        """The same, with room for so many large ones more."""
        return replace(self, large=self.large + large)


def room(copying: Iterable[int | None], *, most: int, most_small: int, small: int) -> Room:
    """What is left beside the tables that are under way.

    copying -- their sizes in bytes; None where it is not known, which counts as large.
    """
    sizes = list(copying)
    little = sum(size is not None and size <= small for size in sizes)
    return Room(most - (len(sizes) - little), most_small - little)


def admitted(
    missing: Sequence[tuple[TableName, int | None]], room: Room, *, small: int
) -> frozenset[TableName]:
    """Who is begun, of tables and their sizes in the order of adding."""
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
