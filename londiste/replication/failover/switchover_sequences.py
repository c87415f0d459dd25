"""What a switchover carries over by hand, because it is in no event: the values of sequences.

Published values run ahead of the real ones, so no value comes twice without this.  But while nobody
can write, the real values can be read, and the new root goes on exactly behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade.commands import queue_settings
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication import sqlapi as tables


@dataclass(frozen=True)
class CarrySequences:
    """The sequences of the new root stand where those of the old one do.

    One that somebody has used on the new root stays in front.
    """

    queue: str
    old: NodeAddress
    new: NodeAddress

    def describe(self) -> str:
        return f"{self.new.name}: sequences as on {self.old.name}"

    def done(self, sites: Connections) -> bool:
        # Carrying them twice changes nothing.
        return False

    def run(self, sites: Connections) -> None:
        values = tables.sequence_values(sites.at(self.old.dsn), self.queue)
        with sites.transaction(self.new.dsn) as conn, conn.pipeline():
            for one in values:
                how = "unused" if one.unused else "exact"
                tables.global_update_seq(conn, self.queue, one.name, one.last_value, how)


@dataclass(frozen=True)
class CarrySettings:
    """The queue ticks and captures on the new root as it did on the old one."""

    queue: str
    old: NodeAddress
    new: NodeAddress

    def describe(self) -> str:
        return f"{self.new.name}: settings of the queue as on {self.old.name}"

    def done(self, sites: Connections) -> bool:
        old, new = sites.at(self.old.dsn), sites.at(self.new.dsn)
        return not queue_settings.different(old, new, self.queue)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.new.dsn) as conn:
            queue_settings.take_over(sites.at(self.old.dsn), conn, self.queue)


def carry(queue: str, old: NodeAddress, new: NodeAddress) -> Sequence[Step]:
    """The steps between the last tick of the old root and the promotion of the new one."""
    return [CarrySequences(queue, old, new), CarrySettings(queue, old, new)]
