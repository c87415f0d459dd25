"""Plan of a command: its steps, skipped objects and notices."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.names import TableName
from londiste.orchestration.steps import Step


@dataclass(frozen=True)
class CommandPlan:
    """steps -- what to do; already -- named and added before; skipped -- excluded, and why.

    notes -- differences from the provider that will remain.
    """

    steps: tuple[Step, ...]
    already: tuple[TableName, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
