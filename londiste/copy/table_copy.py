"""Copy of tables from in-copy to ok: the copy process's side of the table states.

One class for a single table (``copy/single_copy.py``) and for a group of small ones that share a
consumer (``copy/group_copy.py``): they differ in how their rows are loaded.  Every step reads the
states from the database, does what they allow, and stores the next ones by compare-and-set.  So the
process can be killed between any two lines:

    in-copy       a new attempt; or the rest of the chunks, if the attempt can be resumed
    catching-up   indexes first if they are still missing, then events from the stored position
    wanna-sync    wait until the worker has chosen the hand-over tick
    do-sync:M     up to tick M and not further, then ok
    otherwise     clean up: no consumer, no attempt is left behind

If the node gets another provider, and the sessions with the old one have ended, the tables are
copied again from the new one: events kept for this copy by the old one may be on no other node.  If
a batch cannot be replayed for a group, the group is halved until the table that fails is alone.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Collection, Mapping

from londiste.cascade import sqlapi as nodes
from londiste.changes.row_values import stored_error
from londiste.copy import step_timings
from londiste.copy.catchup import Replay
from londiste.copy.group_copy import GroupLoad
from londiste.copy.sessions import Stopping
from londiste.copy.single_copy import SingleLoad
from londiste.copy.sqlapi import attempts, groups
from londiste.daemon import crash
from londiste.db.connection import session
from londiste.db.names import TableName
from londiste.db.snapshot import Snapshot
from londiste.errors import LockTimeout, LondisteError, Superseded, UnknownConsumer
from londiste.replication import sqlapi as tables
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.model import ReplicatedTable
from londiste.replication.sqlapi import StateMove
from londiste.replication.tablesync import copied_rows, states, stopped
from londiste.replication.tablesync.states import (
    By,
    CatchingUp,
    DoSync,
    InCopy,
    TableSyncSnapshot,
    WannaSync,
)

log = logging.getLogger(__name__)

Members = Mapping[TableName, ReplicatedTable]

#: Seconds between polls of states that the worker has to change.
_POLL_SECONDS = 0.1
#: Errors that no single table of a group causes.
_OF_ALL = (Stopping, Superseded, UnknownConsumer)


class TableCopy:
    """Brings a table, or a group of small tables, from in-copy to ok.

    ``run`` returns when there is nothing left to do, and raises errors otherwise; it may be called
    again after any error.
    """

    def __init__(self, load: SingleLoad | GroupLoad) -> None:
        self.load = load
        self.sides = load.sides
        self.job = self.sides.job
        self.queue = load.queue
        self.consumer = load.consumer
        self.stopping = self.sides.stopping
        self._tally = step_timings.Tally()
        self._noted = False

    @property
    def tables(self) -> frozenset[TableName]:
        """The tables that are copied now."""
        return self.load.tables

    def run(self) -> None:
        """Copies and catches up until the tables are ok or removed, or the process stops."""
        try:
            if (before := self.sides.left()) is not None:
                self._start_over(f"node {before} is no longer the provider")
            while not self.stopping() and self._step():
                pass
        except Stopping:
            return
        except UnknownConsumer as error:
            # The events since the copy are not kept any more.
            if not self._start_over(error.message):
                raise
            raise Superseded(f"{self._label()}: copy starts over") from error
        finally:
            self.sides.close()

    def note_error(self, error: LondisteError, times: int) -> None:
        """Stores why the copy does not continue, for status.

        times -- how often in a row.
        """
        hint = error.hint or "correct it; the copy then continues automatically"
        table = str(next(iter(self.tables))) if len(self.tables) == 1 else ""
        text = stopped.stored(stored_error(error, table), hint, error, times)
        self._noted = True
        with session(
            self.job.db,
            name="londiste copy",
            autocommit=True,
            answer_seconds=self.job.answer_seconds,
        ) as conn:
            nodes.set_consumer_error(conn, self.queue, self.consumer, text)

    def _step(self) -> bool:
        """One step of the copy; False when no table is left."""
        changes = self.job.changes.count()
        members = self.load.members()
        if self.load.pending(members):
            self.load.load(members)
            return True
        if not members:
            self._clean_up()
            self.sides.give_back()
            return False
        now = [states.from_text(table.state) for table in members.values()]
        try:
            if any(isinstance(state, CatchingUp) for state in now):
                self._catch_up(members)
            elif any(isinstance(state, WannaSync) for state in now):
                self.job.changes.wait(changes, _POLL_SECONDS)
            else:
                self._synchronise(members)
        except LondisteError as error:
            blames_a_table = not error.retry or isinstance(error, LockTimeout)
            if (
                isinstance(self.load, SingleLoad)
                or len(members) == 1
                or not blames_a_table
                or isinstance(error, _OF_ALL)
            ):
                raise
            log.info("group of %d tables: split in halves: %s", len(members), error)
            self.load.halve(sorted(members))
        else:
            self._clear_error()
        return True

    def _states(self) -> dict[TableName, str | None]:
        return {name: table.state for name, table in self.load.members().items()}

    def _catch_up(self, members: Members) -> None:
        """Replays batches until none is waiting and the copy's snapshots are spent."""
        self.load.before_replay(members)
        before = {name: table.state for name, table in members.items()}
        routes = RoutingTable.copies(members.values())
        texts = {table.snapshot for table in members.values() if table.snapshot}
        snapshots = [Snapshot.parse(text) for text in texts]
        waits = step_timings.StepWaits(self.sides.here, self.queue, step_timings.CATCH_UP)
        with contextlib.closing(Replay(self.sides, self._tally)) as replay:
            while not self.stopping():
                replayed = replay.next(routes)
                if replayed is not None:
                    crash.point("copy.mid-catch-up")
                    if self._states() != before:
                        return
                    if replayed.is_long:
                        continue
                    # The last one: with a tick every few milliseconds another one always waits.
                seen = replay.seen()
                if all(states.snapshot_spent(snapshot, seen) for snapshot in snapshots):
                    lost = self.load.lost_captures(members)
                    if lost:
                        # The next attempt reports what is wrong with them.
                        self._copy_again({name: members[name] for name in lost})
                        return
                    self._move(
                        {
                            name: table
                            for name, table in members.items()
                            if states.from_text(table.state) == CatchingUp()
                        },
                        TableSyncSnapshot(By.COPY, tick=replay.tick(), caught_up=True),
                        step_timings.CATCH_UP,
                        step_timings.HAND_OVER,
                    )
                    crash.point("copy.wanna-sync")
                    return
                replay.ask_for_tick()
                replay.wait(_POLL_SECONDS)
                waits.note(members, replay.late())
                if self._states() != before:
                    return

    def _synchronise(self, members: Members) -> None:
        """Replays up to the hand-over tick exactly; then the worker has the tables."""
        before = {name: table.state for name, table in members.items()}
        routes = RoutingTable.copies(members.values())
        now = [states.from_text(table.state) for table in members.values()]
        # One tick for all: the worker waits at the first one.
        up_to = min(state.tick for state in now if isinstance(state, DoSync))
        with contextlib.closing(Replay(self.sides, self._tally)) as replay:
            while not self.stopping():
                seen = TableSyncSnapshot(By.COPY, tick=replay.tick())
                arrived = {
                    name: table
                    for name, table in members.items()
                    if states.next_state(states.from_text(table.state), seen)
                    != states.from_text(table.state)
                }
                if arrived:
                    crash.point("copy.before-ok")
                    self._move(arrived, seen, step_timings.HAND_OVER, None)
                    crash.point("copy.after-ok")
                    log.info("%s: in sync since tick %d", self._label(arrived), seen.tick)
                    return
                if replay.next(routes, up_to=up_to) is None:
                    replay.wait(_POLL_SECONDS)
                    if self._states() != before:
                        return

    def _move(
        self, some: Members, seen: TableSyncSnapshot, ended: str, started: str | None
    ) -> None:
        """Stores the next states, each only where the state is still the one that was read."""
        node, moves = self.sides.here, []
        for name, table in some.items():
            after = states.next_state(states.from_text(table.state), seen)
            snapshot = None if after == states.Ok() else table.snapshot
            moves.append(StateMove(name, table.state, states.to_text(after), snapshot))
        with node.transaction():
            moved = tables.move_table_states(
                node, self.queue, moves, consumer=self.load.member_consumer
            )
            groups.copy_group_step(node, self.queue, moved, ended, started, self._tally)
        self._tally = step_timings.Tally()
        if moved:
            log.info("%s: %s", self._label(moved), moves[0].new)

    def _start_over(self, why: str) -> bool:
        """Has tables copied again whose events since the copy are lost; False: there are none."""
        replaying = {
            name: table
            for name, table in self.load.members().items()
            if isinstance(states.from_text(table.state), states.REPLAYING)
        }
        self._copy_again(replaying)
        if replaying:
            log.warning("%s: copy starts over: %s", self._label(replaying), why)
        return bool(replaying)

    def _copy_again(self, some: Members) -> None:
        """Moves tables back to in-copy; those of a group leave it."""
        if not some:
            return
        for table in some.values():
            copied_rows.require_known(self.sides.here, self.job.queue, table)
        again = states.to_text(InCopy())
        self.load.leave(some)
        self._tally = step_timings.Tally()
        tables.move_table_states(
            self.sides.here,
            self.queue,
            [StateMove(name, table.state, again, None) for name, table in some.items()],
            consumer=self.load.member_consumer,
        )

    def _clear_error(self) -> None:
        """A step that succeeds ends the error of an earlier one."""
        if self._noted:
            # A table that was removed takes its consumer along.
            with contextlib.suppress(UnknownConsumer):
                nodes.set_consumer_error(self.sides.here, self.queue, self.consumer, None)
            self._noted = False

    def _clean_up(self) -> None:
        """Unregisters the copy's consumer on both sides; ends an attempt that is left."""
        node = self.sides.here
        for attempt in attempts.copy_progress(node, self.queue):
            if attempt.table == str(self.sides.name):
                attempts.abandon(node, self.queue, self.sides.name, attempt.attempt)
        registered_at = self.sides.registered_at()
        if registered_at is not None:
            # The source first: this node's row leads to the other one.
            self.sides.unregister_at(registered_at)
            nodes.unregister_consumer(node, self.queue, self.consumer)

    def _label(self, some: Collection[TableName] = ()) -> str:
        """The tables, for messages."""
        if isinstance(self.load, SingleLoad):
            return f"table {self.load.name}"
        return f"{len(some)} tables" if some else "group of tables"
