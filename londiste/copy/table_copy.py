"""Copy of one table from in-copy to ok: the copy process's side of the table states.

Every step reads the state from the database, does what the state allows, and stores the next
one with a compare-and-set.  So the process can be killed between any two lines:

    in-copy       everything again, as a new attempt; or on from the chunks that are there
    catching-up   indexes first if they are still missing, then on from the stored position
    wanna-sync    stand still until the main worker has chosen the hand-over tick
    do-sync:M     up to tick M and not further, then ok
    otherwise     clean up: no consumer, no attempt is left behind

When the node has got another provider meanwhile, and the sessions with the old one have ended, the
table is copied again from the new one: what the old one was asked for may be on no other node.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable

from londiste.cascade import sqlapi as nodes
from londiste.copy import indexes, sequences, setup, step_timings
from londiste.copy.catchup import JOIN_EVENTS, Replay, ask_for_tick
from londiste.copy.restore import analyze, restore
from londiste.copy.sessions import CopyJob, CopySessions, Stopping
from londiste.copy.snapshot_copy import SnapshotCopy
from londiste.copy.sqlapi import attempts
from londiste.daemon import crash
from londiste.db.connection import session
from londiste.db.names import TableName
from londiste.db.snapshot import Snapshot
from londiste.errors import LondisteError, StateError, Superseded, UnknownConsumer
from londiste.replication import sqlapi as tables
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import states
from londiste.replication.tablesync.states import (
    By,
    CatchingUp,
    DoSync,
    InCopy,
    TableSyncSnapshot,
    WannaSync,
)

log = logging.getLogger(__name__)

#: Seconds between looks at a state that somebody else has to change.
_POLL_SECONDS = 0.1


class TableCopy:
    """Brings one table from in-copy to ok.

    ``run`` returns when there is nothing left to do for this table, and raises what went wrong
    otherwise; it may be called again after any error.
    """

    def __init__(self, job: CopyJob, table: TableName, stopping: Callable[[], bool]) -> None:
        self.job = job
        self.queue = job.queue
        self.name = table
        self.sides = CopySessions(job, table, stopping)
        self.consumer = self.sides.consumer
        self.stopping = stopping
        self._analyzed = False
        self._tally = step_timings.Tally()

    def run(self) -> None:
        """Steps until the table is ok, removed, or the process stops."""
        try:
            self._follow_provider()
            while not self.stopping():
                changes = self.job.changes.count()
                table = self.sides.table()
                state = None if table is None else states.from_text(table.state)
                match state:
                    case InCopy():
                        assert table is not None
                        self.sides.relocate()
                        SnapshotCopy(self.sides).run(table)
                    case CatchingUp():
                        assert table is not None
                        self._catch_up(table)
                    case WannaSync():
                        self.job.changes.wait(changes, _POLL_SECONDS)
                    case DoSync(tick):
                        assert table is not None
                        self._synchronise(table, tick)
                    case _:
                        self.clean_up()
                        self.sides.give_back()
                        return
        except Stopping:
            return
        except UnknownConsumer as error:
            # Nobody keeps any more what happened since its rows were copied.
            if not self._begin_again(error.message):
                raise
            raise Superseded(f"table {self.name}: its copy starts over") from error
        finally:
            self.sides.close()

    def _follow_provider(self) -> None:
        """Lets the copy begin again when the node reads from elsewhere than it did."""
        if (before := self.sides.left()) is not None:
            self._begin_again(f"node {before} is no longer the provider")

    def _begin_again(self, why: str) -> bool:
        table = self.sides.table()
        if table is None or not isinstance(states.from_text(table.state), states.REPLAYING):
            return False
        again = states.to_text(InCopy())
        tables.move_table_state(self.sides.here, self.queue, table.name, table.state, again, None)
        log.warning("table %s: copy starts over: %s", table.name, why)
        return True

    def note_error(self, error: LondisteError) -> None:
        """Stores why the table does not go on, for status."""
        text = error.message + (f" ({error.detail})" if error.detail else "")
        text += f"; {error.hint or 'correct it; the copy then continues automatically'}"
        with session(self.job.db, name="londiste copy", autocommit=True) as conn:
            nodes.set_consumer_error(conn, self.queue, self.consumer, text)

    def clean_up(self) -> None:
        """Takes the copy's consumer off both sides; ends an attempt that is still noted."""
        node = self.sides.here
        for attempt in attempts.copy_progress(node, self.queue):
            if attempt.table == str(self.name):
                attempts.abandon(node, self.queue, self.name, attempt.attempt)
        there = self.sides.registered_at()
        if there is not None:
            # The source first: this node's row is what reminds us of the other one.
            self.sides.unregister_at(there)
            nodes.unregister_consumer(node, self.queue, self.consumer)

    def _restore(self, table: ReplicatedTable) -> None:
        """Indexes, if any were taken off; statistics, once."""
        node = self.sides.here
        if table.dropped_ddl:
            wanted = indexes.worth_it(self.sides, table)
            if wanted:
                with step_timings.step(node, self.queue, table.name, step_timings.INDEXES) as tally:
                    indexes.build(self.sides, table, wanted, tally)
            rest = (
                step_timings.KEYS if wanted or not indexes.missing(table) else step_timings.INDEXES
            )
            # Without a place among the builds: small tables shall not wait for large indexes.
            with step_timings.step(node, self.queue, table.name, rest):
                restore(node, self.queue, table)
        if table.dropped_ddl or not self._analyzed:
            with step_timings.step(node, self.queue, table.name, step_timings.ANALYZE):
                analyze(node, table)
            self._sequences(table)
        self._analyzed = True
        crash.point("copy.restored")

    def _sequences(self, table: ReplicatedTable) -> None:
        """Where the source's are now, which is behind all rows that were copied."""
        if not sequences.owned(self.sides.here, table.dest):
            return
        for found in tables.get_table_list(self.sides.provider, self.queue):
            if found.name == table.name:
                sequences.advance(
                    self.sides.provider, found.dest, self.sides.here, table.dest, self.queue
                )

    def _catch_up(self, table: ReplicatedTable) -> None:
        """Replays batches until none is waiting and the copy's snapshot is spent."""
        if table.dropped_ddl:
            # The first tick behind the copy is made while the indexes are built.
            ask_for_tick(self.sides)
        self._restore(table)
        step_timings.copy_step_start(self.sides.here, self.queue, self.name, step_timings.CATCH_UP)
        self._tally = step_timings.Tally()
        interest = RoutingTable.copy(table)
        copied = Snapshot.parse(table.snapshot) if table.snapshot else None
        waits = step_timings.StepWaits(self.sides.here, self.queue, step_timings.CATCH_UP)
        with contextlib.closing(Replay(self.sides, self._tally)) as replay:
            while not self.stopping():
                batch = replay.next(interest)
                if batch is not None:
                    crash.point("copy.mid-catch-up")
                    if self.sides.state() != table.state:
                        return
                    if batch.size_estimate > JOIN_EVENTS // 2:
                        continue
                    # All that was there: with a tick every few milliseconds one more always waits.
                if states.snapshot_spent(copied, replay.seen()):
                    self._require_captured(table)
                    seen = TableSyncSnapshot(By.COPY, tick=replay.tick(), caught_up=True)
                    self._move(table, CatchingUp(), seen)
                    self._step_ended(step_timings.CATCH_UP, step_timings.HAND_OVER)
                    crash.point("copy.wanna-sync")
                    return
                replay.ask_for_tick()
                replay.wait(_POLL_SECONDS)
                waits.note([self.name], replay.late())
                if self.sides.state() != table.state:
                    return

    def _require_captured(self, table: ReplicatedTable) -> None:
        """What was not captured since the rows were copied is not in the queue: all begins again.

        Raises StateError, when the table is to be copied again.
        """
        source_name = setup.source_table(self.sides)
        try:
            if source_name is not None:
                setup.require_captured(self.sides, source_name)
        except StateError:
            tables.move_table_state(
                self.sides.here, self.queue, table.name, table.state, states.to_text(InCopy()), None
            )
            raise

    def _synchronise(self, table: ReplicatedTable, tick: int) -> None:
        """Replays up to the hand-over tick exactly; then the main worker has the table."""
        interest = RoutingTable.copy(table)
        with contextlib.closing(Replay(self.sides, self._tally)) as replay:
            while not self.stopping():
                seen = TableSyncSnapshot(By.COPY, tick=replay.tick())
                if states.next_state(DoSync(tick), seen) != DoSync(tick):
                    crash.point("copy.before-ok")
                    self._step_ended(step_timings.HAND_OVER)
                    self._move(table, DoSync(tick), seen)
                    crash.point("copy.after-ok")
                    log.info("table %s: in sync since tick %d", table.name, tick)
                    return
                if replay.next(interest, up_to=tick) is None:
                    replay.wait(_POLL_SECONDS)
                    if self.sides.state() != table.state:
                        return

    def _step_ended(self, name: str, following: str | None = None) -> None:
        """Notes what the batches since its beginning were."""
        node = self.sides.here
        step_timings.copy_step_end(node, self.queue, self.name, name, self._tally)
        self._tally = step_timings.Tally()
        if following is not None:
            step_timings.copy_step_start(node, self.queue, self.name, following)

    def _move(self, table: ReplicatedTable, now: states.SyncState, seen: TableSyncSnapshot) -> None:
        after = states.next_state(now, seen)
        moved = tables.move_table_state(
            self.sides.here,
            self.queue,
            table.name,
            states.to_text(now),
            states.to_text(after),
            None if after == states.Ok() else table.snapshot,
        )
        if moved:
            log.info("%s: %s", table.name, states.to_text(after))
