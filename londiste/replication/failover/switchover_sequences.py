"""Sequences and queue settings of a new root.

Published values are ahead of the real ones, so no value is used twice after a failover, as long as
the sequences of the new root are at these values.  In a switchover, while writes are blocked, the
real values can be read, and the new root continues right after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from londiste.cascade.commands import queue_settings
from londiste.cascade.switching.steps.notes import NodeAddress
from londiste.db.queries import tuples
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import Step
from londiste.replication import sqlapi as tables
from londiste.replication.commands import sequences


@dataclass(frozen=True)
class CarrySequences:
    """Sets the sequences of the new root to the values of the old one.

    A sequence that is already further on the new root stays.  The old root notes its values, too:
    as a branch it is not behind then.
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
        with sites.transaction(self.old.dsn) as conn:
            tuples(conn, "note_exact_sequences", queue=self.queue)
            values = tables.sequence_values(conn, self.queue)
        with sites.transaction(self.new.dsn) as conn, conn.pipeline():
            for one in values:
                how = "unused" if one.unused else "exact"
                tables.global_update_seq(conn, self.queue, one.name, one.last_value, how)


@dataclass(frozen=True)
class CatchUpSequences:
    """Moves sequences of the new root that are behind to the values published by a failed one."""

    queue: str
    new: NodeAddress

    def describe(self) -> str:
        return f"{self.new.name}: move sequences to their published values"

    def done(self, sites: Connections) -> bool:
        return not sequences.behind(sites.at(self.new.dsn), self.queue)

    def run(self, sites: Connections) -> None:
        with sites.transaction(self.new.dsn) as conn:
            sequences.catch_up(conn, self.queue)


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


def catch_up(queue: str, new: NodeAddress) -> Sequence[Step]:
    """The steps before the promotion of a branch that replaces a failed root."""
    return [CatchUpSequences(queue, new)]
