"""Filter of the tables and sequences that a node registers: the register_* settings."""

from __future__ import annotations

from dataclasses import dataclass

from londiste.db.names import TableName
from londiste.replication.patterns import matches
from londiste.settings import NodeSettings


@dataclass(frozen=True)
class RegistrationFilter:
    """Patterns with * and ?; without a dot they are in schema public.

    An empty list of only_* means all.  skip_* wins over only_*.
    """

    only_tables: tuple[str, ...] = ()
    skip_tables: tuple[str, ...] = ()
    only_seqs: tuple[str, ...] = ()
    skip_seqs: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: NodeSettings) -> RegistrationFilter:
        """What the settings of a node say."""
        return cls(
            settings.register_only_tables,
            settings.register_skip_tables,
            settings.register_only_seqs,
            settings.register_skip_seqs,
        )

    def table(self, name: TableName) -> bool:
        """Whether the node registers a table."""
        return _admitted(name, self.only_tables, self.skip_tables)

    def sequence(self, name: TableName) -> bool:
        """Whether the node registers a sequence."""
        return _admitted(name, self.only_seqs, self.skip_seqs)


#: A node that wants to know everything.
ALL = RegistrationFilter()


def _admitted(name: TableName, only: tuple[str, ...], skip: tuple[str, ...]) -> bool:
    return (not only or matches(name, only)) and not matches(name, skip)
