"""What a node knows of the queue's tables and sequences: brought in line with its provider.

A node hears of tables through events; a new one, or one that has not got to them yet, asks its
provider.  Hearing the same again from the events later changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from londiste.cascade.plan import Sites
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.replication import tables


@dataclass(frozen=True)
class Difference:
    """What to do here to know what the provider knows."""

    add: tuple[TableName, ...]
    remove: tuple[TableName, ...]
    sequences: tuple[tuple[TableName, int], ...]

    def __bool__(self) -> bool:
        return bool(self.add or self.remove or self.sequences)


def difference(provider: Connection, local: Connection, queue: str) -> Difference:
    """Compares the lists of both; only tables that are not local here are removed."""
    theirs = [t.name for t in tables.get_table_list(provider, queue)]
    ours = {t.name: t for t in tables.get_table_list(local, queue)}
    known = {s.name: s.last_value for s in tables.get_seq_list(local, queue)}
    return Difference(
        add=tuple(name for name in theirs if name not in ours),
        remove=tuple(n for n, t in ours.items() if n not in set(theirs) and not t.local),
        sequences=tuple(
            (s.name, s.last_value)
            for s in tables.get_seq_list(provider, queue)
            if known.get(s.name, -1) < s.last_value
        ),
    )


@dataclass(frozen=True)
class CopyRegistry:
    """The node learns which tables and sequences the queue carries."""

    node: str
    provider: str
    provider_dsn: str = field(repr=False)
    local_dsn: str = field(repr=False)
    queue: str

    def describe(self) -> str:
        return f"{self.node}: take over the list of tables and sequences from {self.provider}"

    def done(self, sites: Sites) -> bool:
        return not self._difference(sites)

    def run(self, sites: Sites) -> None:
        found = self._difference(sites)
        with sites.transaction(self.local_dsn) as conn:
            for table in found.add:
                tables.global_add_table(conn, self.queue, table)
            for table in found.remove:
                tables.global_remove_table(conn, self.queue, table)
            for name, value in found.sequences:
                tables.global_update_seq(conn, self.queue, name, value)

    def _difference(self, sites: Sites) -> Difference:
        return difference(sites.at(self.provider_dsn), sites.at(self.local_dsn), self.queue)
