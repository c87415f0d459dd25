"""Load of a single table: its rows in either copy mode, then indexes, statistics and sequences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from londiste.copy import indexes, sequences, setup, step_timings
from londiste.copy.catchup import ask_for_tick
from londiste.copy.restore import analyze, restore
from londiste.copy.sessions import CopyJob, CopySessions
from londiste.copy.snapshot_copy import SnapshotCopy
from londiste.daemon import crash
from londiste.db.names import TableName
from londiste.errors import StateError
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import states


class SingleLoad:
    """One table, and the copy of its rows; see ``GroupLoad``."""

    def __init__(self, job: CopyJob, table: TableName, stopping: Callable[[], bool]) -> None:
        self.queue = job.queue
        self.name = table
        self.sides = CopySessions(job, table, stopping)
        self.consumer = self.sides.consumer
        self.tables = frozenset({table})
        self.member_consumer: str | None = None
        self._analyzed = False

    def members(self) -> dict[TableName, ReplicatedTable]:
        """The table while it has to be copied or catches up."""
        table = self.sides.table()
        state = None if table is None else states.from_text(table.state)
        if table is None or not isinstance(state, states.COPYING):
            return {}
        return {self.name: table}

    def pending(self, members: Mapping[TableName, ReplicatedTable]) -> bool:
        """Whether the rows have to be copied."""
        return any(states.from_text(t.state) == states.InCopy() for t in members.values())

    def load(self, members: Mapping[TableName, ReplicatedTable]) -> None:
        """Copies the rows, or returns early when they cannot be copied yet."""
        self.sides.relocate()
        for table in members.values():
            SnapshotCopy(self.sides).run(table)

    def before_replay(self, members: Mapping[TableName, ReplicatedTable]) -> None:
        """Restores what the copy dropped, and starts the step of the catch-up."""
        for table in members.values():
            if table.dropped_ddl:
                # The first tick after the copy is made while the indexes are built.
                ask_for_tick(self.sides)
            self._restore(table)
        step_timings.copy_step_start(self.sides.here, self.queue, self.name, step_timings.CATCH_UP)

    def lost_captures(self, members: Mapping[TableName, ReplicatedTable]) -> Collection[TableName]:
        """The table, if its changes since the copy were not captured."""
        source_name = setup.source_table(self.sides)
        try:
            if source_name is not None:
                setup.require_captured(self.sides, source_name)
        except StateError:
            return members.keys()
        return ()

    def leave(self, names: Iterable[TableName]) -> None:
        """Nothing: the table is on its own."""

    def _restore(self, table: ReplicatedTable) -> None:
        """Restores dropped indexes; analyzes the table once."""
        node = self.sides.here
        if table.dropped_ddl:
            wanted = indexes.worth_it(self.sides, table)
            if wanted:
                with step_timings.step(node, self.queue, table.name, step_timings.INDEXES) as tally:
                    indexes.build(self.sides, table, wanted, tally)
            rest = (
                step_timings.KEYS if wanted or not indexes.missing(table) else step_timings.INDEXES
            )
            # Not counted as a build: small tables must not wait for large indexes.
            with step_timings.step(node, self.queue, table.name, rest):
                restore(node, self.queue, table)
        if table.dropped_ddl or not self._analyzed:
            with step_timings.step(node, self.queue, table.name, step_timings.ANALYZE):
                analyze(node, table)
            self._sequences(table)
        self._analyzed = True
        crash.point("copy.restored")

    def _sequences(self, table: ReplicatedTable) -> None:
        """Advances its sequences to the source's values, which are after all copied rows."""
        if not sequences.owned(self.sides.here, table.dest):
            return
        for found in tables.get_table_list(self.sides.provider, self.queue):
            if found.name == table.name:
                sequences.advance(
                    self.sides.provider, found.dest, self.sides.here, table.dest, self.queue
                )
