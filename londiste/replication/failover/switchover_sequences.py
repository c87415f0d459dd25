"""Copies exact sequence values and queue settings to the new root during a switchover.

Published values are ahead of the real ones, so no value is used twice without this.  But while
writes are blocked the real values can be read, and the new root continues right after them.
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
    """Sets the sequences of the new root to the values of the old one.

    A sequence that is already further on the new root stays.
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
    """Copies the settings of the queue to the new root."""

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
