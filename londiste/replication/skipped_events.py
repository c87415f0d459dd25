"""Events that an operator skips, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from londiste.db.names import TableName


@dataclass(frozen=True)
class SkippedEvents:
    """Events that an operator skips.

    rows -- event and row in it, 0 for a single row; tables -- of this node, of these events.
    """

    rows: frozenset[tuple[int, int]] = frozenset()
    tables: frozenset[TableName] = frozenset()


#: None is skipped.
NO_SKIPS: Final = SkippedEvents()
