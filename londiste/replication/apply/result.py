"""Result of applying a batch."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.replication.ddl.apply import Interruption


@dataclass(frozen=True)
class BatchStats:
    """Result of a batch.

    applied -- events whose change was written.
    ignored -- events of tables that are not replicated here, or that the copy includes.
    skipped -- the batch was applied before.
    conflicts -- rows of conflicting events that a policy resolved.
    interruption -- the batch is rolled back, because its script needs something else first.
    """

    events: int = 0
    applied: int = 0
    ignored: int = 0
    seconds: float = 0.0
    skipped: bool = False
    conflicts: int = 0
    interruption: Interruption | None = None
