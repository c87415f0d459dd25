"""Checks of the disk space of the target against the size of the tables."""

from __future__ import annotations

from collections.abc import Iterator

from londiste.monitor.doctor.situation import Situation, found, notice
from londiste.monitor.queues.model import Finding, Severity

FINDINGS = {
    "space": "disk space of the target",
    "space-unknown": "disk space of the target that cannot be measured",
}

#: Rows and indexes are as large as there, and so is their WAL.
_FACTOR = 2.0


def check(pair: Situation) -> Iterator[Finding]:
    """A finding if the tables may not fit."""
    if pair.target is None:
        return
    more, side = pair.target.more, pair.names[1]
    size = sum(t.bytes for t in pair.wanted if not pair.target.replicates(t))
    if more.free_bytes is None:
        yield notice(
            "space-unknown",
            f"the tables of the {pair.names[0]} database have {_size(size)}",
            f"the free disk space of the {side} server is not visible from this host",
            "provide twice as much: rows, indexes, and WAL of both",
            side=side,
        )
    elif more.free_bytes < size * _FACTOR:
        yield found(
            Severity.CRITICAL if more.free_bytes < size else Severity.WARNING,
            "space",
            f"the {side} server has {_size(more.free_bytes)} free, the tables have {_size(size)}",
            "the copy needs twice their size: rows, indexes, and WAL of both",
            f"free disk space, or move {more.place} to a larger disk",
            side=side,
            object=more.place or "",
        )


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"
