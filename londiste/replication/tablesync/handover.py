"""Hand-over of tables between copy process and worker: the worker's side.

``states`` decides; this module collects the facts, and does what must precede a state.  It runs
before every batch and stores the states in their own transaction: a state is stored before the work
that it allows.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from londiste.cascade import sqlapi as nodes
from londiste.daemon import crash
from londiste.db import bulk_catalog
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import first
from londiste.db.snapshot import Snapshot
from londiste.errors import LockTimeout
from londiste.replication import sqlapi as tables
from londiste.replication.model import FORGET, ReplicatedTable, encode_attrs
from londiste.replication.tablesync import copied_rows, copy_source, scheduler
from londiste.replication.tablesync import states as sync
from londiste.replication.tablesync.cancel import left_behind
from londiste.replication.tablesync.states import (
    COPYING,
    REPLAYING,
    By,
    InCopy,
    Missing,
    Ok,
    SyncState,
    TableSyncSnapshot,
    WannaSync,
)

log = logging.getLogger(__name__)

#: Tables that are begun beyond those that are copied at a time: when one is ready, the copy process
#: goes on with the next at once, not when both processes have looked again.
AHEAD = 8
#: Small tables that are begun at a time: the copy process takes some hundred of them together.
AHEAD_SMALL = 500


@dataclass(frozen=True)
class TableSyncStatus:
    """States of the tables after the step.

    tables -- all that this node replicates.
    copying -- the copy process has something to do.
    waiting -- the worker must not take a batch: a table waits to be handed over here.
    waited_at -- the next tick at which a copy waits for the worker; None: no copy waits.
    """

    tables: Sequence[ReplicatedTable]
    copying: bool
    waiting: bool
    waited_at: int | None

    @cached_property
    def ok(self) -> frozenset[str]:
        """Names of the tables that the worker applies."""
        return frozenset(str(t.name) for t in self.tables if sync.from_text(t.state) == Ok())


class Handover:
    """Decides and stores the main worker's states of the tables of one queue.

    source -- session on the provider; target -- session on this node.
    parallel -- tables that the copy process copies at the same time, not counting those that fail;
        a few more are started.
    small -- bytes up to which a table is copied in a group: many of them are started.
    """

    def __init__(
        self,
        source: Connection,
        target: Connection,
        queue: str,
        *,
        parallel: int,
        small: int = 0,
    ) -> None:
        self._source = source
        self._target = target
        self._queue = queue
        self._most = parallel + AHEAD
        self._small = small
        self._sizes: dict[TableName, int] = {}
        self._settled: tuple[object, TableSyncStatus] | None = None
        self._orphans: frozenset[TableName] = frozenset()

    def step(self, tick: int, found: Iterable[ReplicatedTable]) -> TableSyncStatus:
        """Checks every table.

        tick -- the worker's completed one.
        found -- the present result of ``sqlapi.get_table_list`` of this node; the same object when
            nothing has changed.
        """
        if self._settled is not None and self._settled[0] is found:
            return self._settled[1]
        mine = [self._forgotten(t) if FORGET in t.attrs else t for t in found if t.local]
        states = {t.name: sync.from_text(t.state) for t in mine}
        ready, admitted = self._admitted(mine, states)
        wanted = self._copied_from_lost(mine, states)
        again = {table.name for table in wanted}
        for table in mine:
            if table.name in again:
                continue
            seen = TableSyncSnapshot(
                By.MAIN,
                tick=tick,
                copy_slot_free=table.name in admitted,
                ok_on_provider=table.name in ready or copy_source.ATTR in table.attrs,
            )
            new = sync.next_state(states[table.name], seen)
            if new != states[table.name]:
                wanted.append(replace(table, state=sync.to_text(new)))
            elif self._snapshot_is_spent(table, tick):
                wanted.append(replace(table, snapshot=None))
        changed = self._changed({t.name: t for t in mine}, wanted)
        result = [changed.get(t.name, t) for t in mine]
        tables_now = [table for table in result if table is not None]
        states = {t.name: sync.from_text(t.state) for t in tables_now}
        outlook = TableSyncStatus(
            tables=tables_now,
            copying=any(isinstance(state, COPYING) for state in states.values()),
            waiting=not all(sync.may_take_batch(By.MAIN, s) for s in states.values()),
            waited_at=min(
                (s.tick for s in states.values() if isinstance(s, WannaSync)), default=None
            ),
        )
        settled = not wanted and all(t.state == "ok" and t.snapshot is None for t in tables_now)
        self._settled = (found, outlook) if settled else None
        return outlook

    def _forgotten(self, table: ReplicatedTable) -> ReplicatedTable:
        """Deletes a table's events in this branch's queue from before it was filtered.

        The worker does it, because only the worker writes into that queue.
        """
        with self._target.transaction():
            # Commands may have changed it since it was read.
            now = tables.lock_table(self._target, self._queue, table.name)
            if now is None or not now.local:
                return table
            attrs = {name: value for name, value in now.attrs.items() if name != FORGET}
            count = tables.forget_events(self._target, self._queue, table.name)
            tables.local_set_table_attrs(self._target, self._queue, table.name, encode_attrs(attrs))
        log.info(
            "table %s: deleted %d queued events that do not match the row filter", table.name, count
        )
        return replace(table, attrs=attrs)

    def _admitted(
        self, mine: Sequence[ReplicatedTable], states: Mapping[TableName, SyncState]
    ) -> tuple[Container[TableName], Container[TableName]]:
        """The tables that are complete on the provider, and those whose copy may start now.

        Large ones first, a few more than are copied at a time; small ones, which are copied in
        groups, by the hundred.
        """
        missing = [t for t in mine if states[t.name] == Missing()]
        if not missing:
            self._sizes.clear()
            return (), ()
        theirs = [t for t in tables.get_table_list(self._source, self._queue) if t.local]
        self._tell_orphans(missing, {t.name for t in theirs})
        there = {t.name: t.dest for t in theirs if sync.from_text(t.state) == Ok()}
        copying = [t.name for t in mine if isinstance(states[t.name], COPYING)]
        self._measure(there, [*(t.name for t in missing), *copying])
        room = scheduler.room(
            (self._sizes.get(name) for name in copying),
            most=self._most,
            most_small=AHEAD_SMALL,
            small=self._small,
        )
        if room.large <= 0:
            room = room.more(self._failing(copying))
        return there, scheduler.admitted(
            [
                (t.name, self._sizes.get(t.name))
                for t in missing
                if t.name in there or copy_source.ATTR in t.attrs
            ],
            room,
            small=self._small,
        )

    def _copied_from_lost(
        self, mine: Sequence[ReplicatedTable], states: Mapping[TableName, SyncState]
    ) -> list[ReplicatedTable]:
        """The tables to copy again because their source node failed."""
        names = [t.name for t in mine if isinstance(states[t.name], REPLAYING)]
        lost = left_behind(self._target, self._queue, names) if names else {}
        for table in mine:
            if table.name in lost:
                copied_rows.require_known(self._target, self._queue, table)
        for name, node in lost.items():
            log.warning(
                "table %s: copying again, because its source node %s has failed", name, node
            )
        return [
            replace(t, state=sync.to_text(InCopy()), snapshot=None) for t in mine if t.name in lost
        ]

    def _tell_orphans(
        self, missing: Sequence[ReplicatedTable], theirs: Container[TableName]
    ) -> None:
        """Logs once which tables wait for a copy that their provider no longer offers."""
        found = frozenset(
            t.name for t in missing if t.name not in theirs and copy_source.ATTR not in t.attrs
        )
        for name in sorted(found - self._orphans):
            log.warning(
                "table %s: cannot copy it, the provider does not have it: add it there, or copy"
                " it from another node: londiste resync %s --find-copy-node",
                name,
                name,
            )
        self._orphans = found

    def _measure(self, there: Mapping[TableName, TableName], names: Iterable[TableName]) -> None:
        """Stores the sizes of tables that were not measured before."""
        new = {there[name]: name for name in names if name in there and name not in self._sizes}
        if not new:
            return
        for dest, size in bulk_catalog.sizes(self._source, new.keys()).items():
            self._sizes[new[dest]] = size

    def _failing(self, copying: Iterable[TableName]) -> int:
        """Number of tables that wait with an error; they occupy no copy slot."""
        wrong = [c.name for c in nodes.get_consumer_info(self._target, self._queue) if c.cur_error]
        return sum(any(w.endswith(f".copy.{name}") for w in wrong) for name in copying)

    def _changed(
        self, before: Mapping[TableName, ReplicatedTable], wanted: Sequence[ReplicatedTable]
    ) -> dict[TableName, ReplicatedTable | None]:
        """Stores new states in one transaction; returns the tables as they are now.

        None for a table whose state another session has just changed.
        """
        new = [t for t in wanted if sync.from_text(before[t.name].state) == Missing()]
        locked = self._take_off_foreign_keys(new) if new else frozenset()
        storing = [t for t in wanted if t.dest not in locked or t not in new]
        if not storing:
            return {}
        crash.point("worker.before-state")
        moved = tables.move_table_states(
            self._target,
            self._queue,
            [tables.StateMove(t.name, before[t.name].state, t.state, t.snapshot) for t in storing],
        )
        for table in storing:
            if table.name in moved:
                log.info("table %s: %s", table.name, table.state)
            else:
                log.info("table %s was removed or reset for a new copy", table.name)
        crash.point("worker.after-state")
        return {t.name: t if t.name in moved else None for t in storing}

    def _take_off_foreign_keys(self, some: Sequence[ReplicatedTable]) -> Container[TableName]:
        """Stores each state in its own transaction: locking two tables may deadlock.

        Returns the tables (by their names here) whose keys' tables are locked: they are copied
        later.
        """
        wanted, locked = {table.dest for table in some}, set()
        for key in tables.find_tables_fkeys(self._target, wanted):
            try:
                tables.drop_table_fkey(self._target, key.from_table, key.name)
            except LockTimeout as error:
                mine = wanted & {key.from_table, key.to_table}
                log.warning(
                    "table %s: not copied yet: %s", ", ".join(map(str, sorted(mine))), error
                )
                locked |= mine
        return locked

    def _snapshot_is_spent(self, table: ReplicatedTable, tick: int) -> bool:
        """Removes the snapshot of an ok table once the worker's tick sees all that the copy saw."""
        if table.snapshot is None or sync.from_text(table.state) != Ok():
            return False
        if copy_source.ATTR in table.attrs:
            # It may be of another database, whose transaction ids would hide events of this one.
            return True
        seen = tick_snapshot(self._source, self._queue, tick)
        return seen is not None and sync.snapshot_spent(Snapshot.parse(table.snapshot), seen)


def tick_snapshot(conn: Connection, queue: str, tick: int) -> Snapshot | None:
    """The snapshot of a tick in the database of ``conn``; None when there is no such tick."""
    row = first(conn, "tick_snapshot", queue=queue, tick=tick)
    return Snapshot.parse(row[0]) if row is not None else None
