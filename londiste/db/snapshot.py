"""Snapshots: which transactions are visible (``xmin:xmax:xip,xip,…`` as PostgreSQL prints it)."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.errors import BadOption


@dataclass(frozen=True)
class Snapshot:
    """The transactions that were finished at one moment in one database.

    Ids are the 64-bit ones (xid8), which never wrap.  Everything below ``xmin`` is seen,
    nothing from ``xmax`` on, and of those between all but the ones in ``xip``, which were
    running.  A transaction that was rolled back counts as seen; it has left no rows.
    """

    xmin: int
    xmax: int
    xip: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Reads the text form.  Raises BadOption when it is not one."""
        parts = text.split(":")
        try:
            xmin, xmax = int(parts[0]), int(parts[1])
            xip = frozenset(int(xid) for xid in parts[2].split(",") if xid)
        except (ValueError, IndexError):
            raise BadOption(f"not a snapshot: {text!r}") from None
        if len(parts) != 3 or not 0 < xmin <= xmax or any(not xmin <= x < xmax for x in xip):
            raise BadOption(f"not a snapshot: {text!r}")
        return cls(xmin, xmax, xip)

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.xip)))}"

    def sees(self, txid: int) -> bool:
        """Whether the transaction was finished when the snapshot was taken."""
        return txid < self.xmax and txid not in self.xip

    def covers(self, other: Snapshot) -> bool:
        """Whether everything visible in ``other`` is visible in this one too.

        True for any snapshot taken later in the same database.
        """
        # The ranges end early: the first id that is not in other.xip decides.
        return all(xid in other.xip for xid in range(self.xmax, other.xmax)) and all(
            xid in other.xip or xid >= other.xmax for xid in self.xip
        )
