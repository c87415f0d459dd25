"""What a command has found to do: its steps, and what is to be said of the rest."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.names import TableName
from londiste.orchestration.steps import Step


@dataclass(frozen=True)
class CommandPlan:
    """steps -- what to do; already -- named and added before; skipped -- left out, and why.

    notes -- what will not be as it is on the provider.
    """

    steps: tuple[Step, ...]
    already: tuple[TableName, ...] = ()
    skipped: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
