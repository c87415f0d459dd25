"""The worker's part of taking new tables over from the copy process, with the databases at hand.

``sync`` decides; here is what it has to see, and what must be done before a state is stored.  It
runs in front of every batch, each state in a transaction of its own: a state is stored before the
work that it allows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import psycopg

from londiste.cascade import nodes
from londiste.daemon import crash
from londiste.db.connection import Connection, place
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.db.snapshot import Snapshot
from londiste.errors import LockTimeout, from_database
from londiste.replication import sync, tables
from londiste.replication.sync import COPYING, By, Missing, Ok, Seen, WannaSync
from londiste.replication.types import ReplicatedTable

log = logging.getLogger(__name__)

#: Tables that are begun beyond those that are copied at a time: when one is ready, the copy process
#: goes on with the next at once, not when both processes have looked again.
AHEAD = 8


@dataclass(frozen=True)
class Outlook:
    """How the tables stand after the step.

    tables -- all that this node keeps.
    copying -- the copy process has something to do.
    waiting -- the worker must not take a batch: a table waits to be handed over here.
    waited_at -- the nearest tick where a copy waits for the worker to come by; None: none does.
    """

    tables: Sequence[ReplicatedTable]
    copying: bool
    waiting: bool
    waited_at: int | None

    @property
    def ok(self) -> frozenset[str]:
        """Names of the tables that the worker applies."""
        return frozenset(str(t.name) for t in self.tables if sync.from_text(t.state) == Ok())


class Handover:
    """Decides and stores the main worker's states of the tables of one queue.

    source -- session on the provider; target -- session on this node.
    parallel -- tables that the copy process copies at the same time, not counting those that
        fail; a few more are given to it.
    """

    def __init__(
        self, source: Connection, target: Connection, queue: str, *, parallel: int
    ) -> None:
        self._source = source
        self._target = target
        self._queue = queue
        self._most = parallel + AHEAD

    def step(self, tick: int, found: Iterable[ReplicatedTable]) -> Outlook:
        """Looks at every table.

        tick -- the worker's completed one.
        found -- what ``tables.get_table_list`` of this node has just said.
        """
        mine = [t for t in found if t.local]
        states = {t.name: sync.from_text(t.state) for t in mine}
        busy = sum(isinstance(state, COPYING) for state in states.values())
        if busy >= self._most and any(s == Missing() for s in states.values()):
            busy -= self._failing(name for name, s in states.items() if isinstance(s, COPYING))
        ready = self._ready() if any(s == Missing() for s in states.values()) else frozenset()
        result = []
        for table in mine:
            seen = Seen(
                By.MAIN,
                tick=tick,
                copy_slot_free=busy < self._most,
                ok_on_provider=str(table.name) in ready or "copy_node" in table.attrs,
            )
            changed = self._advance(table, seen)
            if changed is None:
                continue
            if sync.from_text(table.state) == Missing() and changed.state is not None:
                busy += 1
            result.append(self._without_spent_snapshot(changed, tick))
        states = {t.name: sync.from_text(t.state) for t in result}
        return Outlook(
            tables=result,
            copying=any(isinstance(state, COPYING) for state in states.values()),
            waiting=not all(sync.may_take_batch(By.MAIN, s) for s in states.values()),
            waited_at=min(
                (s.tick for s in states.values() if isinstance(s, WannaSync)), default=None
            ),
        )

    def _ready(self) -> frozenset[str]:
        """Names of the tables that the provider has completely."""
        there = tables.get_table_list(self._source, self._queue)
        return frozenset(str(t.name) for t in there if t.local and sync.from_text(t.state) == Ok())

    def _failing(self, copying: Iterable[TableName]) -> int:
        """How many of the tables wait with an error; they take no place from the others."""
        wrong = [c.name for c in nodes.get_consumer_info(self._target, self._queue) if c.cur_error]
        return sum(any(w.endswith(f".copy.{name}") for w in wrong) for name in copying)

    def _advance(self, table: ReplicatedTable, seen: Seen) -> ReplicatedTable | None:
        """The table as it is now; None when somebody else has just changed its state."""
        now = sync.from_text(table.state)
        new = sync.next_state(now, seen)
        if new == now:
            return table
        if isinstance(now, Missing):
            try:
                self._take_off_foreign_keys(table)
            except LockTimeout as error:
                log.warning("table %s is not copied yet: %s", table.name, error)
                return table
        return self._store(table, table.snapshot, sync.to_text(new))

    def _take_off_foreign_keys(self, table: ReplicatedTable) -> None:
        """Each in a transaction of its own: two tables locked together may deadlock."""
        for key in tables.find_table_fkeys(self._target, table.dest):
            tables.drop_table_fkey(self._target, key.from_table, key.name)

    def _without_spent_snapshot(self, table: ReplicatedTable, tick: int) -> ReplicatedTable:
        """An ok table needs no filter once the worker's tick sees all that the copy saw."""
        if table.snapshot is None or sync.from_text(table.state) != Ok():
            return table
        seen = tick_snapshot(self._source, self._queue, tick)
        if seen is None or not sync.snapshot_spent(Snapshot.parse(table.snapshot), seen):
            return table
        return self._store(table, None, table.state) or table

    def _store(
        self, table: ReplicatedTable, snapshot: str | None, state: str | None
    ) -> ReplicatedTable | None:
        crash.point("worker.before-state")
        if not tables.move_table_state(
            self._target, self._queue, table.name, table.state, state, snapshot
        ):
            log.info("table %s was removed, or is to be copied again", table.name)
            return None
        log.info("table %s: %s", table.name, state)
        crash.point("worker.after-state")
        return replace(table, snapshot=snapshot, state=state)


def tick_snapshot(conn: Connection, queue: str, tick: int) -> Snapshot | None:
    """What a tick of the database of ``conn`` has seen; None when there is no such tick."""
    try:
        row = conn.execute(query("tick_snapshot"), [queue, tick]).fetchone()
    except psycopg.Error as error:
        raise from_database(error, where=place(conn.info.dsn)) from error
    return Snapshot.parse(row[0]) if row is not None else None


__all__ = ["Handover", "Outlook", "tick_snapshot"]
