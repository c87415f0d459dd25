"""Defects of migrations, planted in the processes of the program."""

from __future__ import annotations

from typing import Any

from tests.nemesis.defects.planting import defect


@defect("a migration leaves sequences as they are", "P11", operation="migrate switch")
def sequences_left() -> None:
    """Neither published values nor those of the switch arrive."""
    from londiste.replication import sqlapi
    from londiste.replication.failover.switchover_sequences import CarrySequences

    sqlapi.global_update_seq = lambda *a, **k: None
    CarrySequences.run = lambda self, sites: None  # type: ignore[method-assign]


@defect("a switch does not wait for the other database", "P2", operation="migrate switch")
def last_tick_left() -> None:
    """The new root has whatever it has."""
    from londiste.cascade.switching.steps.waits import CatchUp, WaitTick

    def nothing(self: Any, sites: Any) -> None:
        return None

    CatchUp.run = nothing  # type: ignore[method-assign]
    WaitTick.run = nothing  # type: ignore[method-assign]
