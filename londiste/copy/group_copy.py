"""Copy of a group of small tables: one consumer, one snapshot, one replay, one hand-over.

What a small table costs is hardly its rows: it is sessions, consumers, ticks, commits.  A group
shares them.  The states are those of one table (``copy/table_copy.py``), moved for all of the group
in one statement, each table by compare-and-set:

    in-copy       nothing is kept but attempts and the consumer: all begin again, in other groups
    catching-up   stored with the membership (``londiste.copy_member``); the consumer's name leads a
                  process that starts again to the tables that are left
    wanna-sync    stand still until the main worker has chosen the hand-over tick
    do-sync:M     up to tick M and not further, then ok

A table that is removed, or to be copied again, leaves the group with the change of its state; the
others notice nothing.  One that cannot be copied is copied alone, where its error is told.  When a
batch cannot be replayed, the group is halved until the table that is in the way is alone.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from londiste.cascade import sqlapi as nodes
from londiste.copy import sequences, step_timings
from londiste.copy.catchup import JOIN_EVENTS, Replay
from londiste.copy.chunking.runner import WATCH
from londiste.copy.group_plan import Planned, plan, shares
from londiste.copy.prepare import drop_foreign_keys_of, empty
from londiste.copy.sessions import CopyJob, CopySessions, Stopping
from londiste.copy.setup import lost_captures, register, whole_tables
from londiste.copy.snapshot_copy import exported_snapshot
from londiste.copy.sqlapi import groups
from londiste.copy.sqlapi.attempts import copy_progress
from londiste.copy.sqlapi.control import get_copy_control
from londiste.daemon import crash, logcontext
from londiste.db import bulk_catalog
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.db.snapshot import Snapshot
from londiste.engine.spec import MemberDone
from londiste.errors import LockTimeout, LondisteError, Superseded, UnknownConsumer
from londiste.pgq import batches
from londiste.replication import sqlapi as tables
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.model import ReplicatedTable
from londiste.replication.sqlapi import StateMove
from londiste.replication.tablesync import states as sync
from londiste.replication.tablesync.states import (
    By,
    CatchingUp,
    DoSync,
    InCopy,
    TableSyncSnapshot,
    WannaSync,
)

log = logging.getLogger(__name__)

#: Seconds between looks at states that somebody else has to change.
_POLL_SECONDS = 0.1
#: States in which a table belongs to its group.
_TOGETHER = sync.REPLAYING

#: Errors that no single table is to blame for.
_OF_ALL = (Stopping, Superseded, UnknownConsumer)


class GroupCopy:
    """Brings small tables from in-copy to ok, or goes on with a group that has its rows.

    consumer -- of the group.
    names -- tables in in-copy, to be copied; none for a group that goes on.
    alone -- is told of tables that shall be copied alone.

    ``run`` returns when there is nothing left to do, and raises what went wrong otherwise; it may
    be called again after any error.
    """

    def __init__(
        self,
        job: CopyJob,
        consumer: str,
        names: Collection[TableName],
        stopping: Callable[[], bool],
        alone: Callable[[Collection[TableName]], None],
    ) -> None:
        self.job = job
        self.queue = job.queue
        self.consumer = consumer
        self.tables = frozenset(names)
        self.stopping = stopping
        label = TableName("group", consumer.rpartition(":")[2])
        self.sides = CopySessions(job, label, stopping, consumer=consumer)
        self._alone = alone
        self._to_load = bool(names)
        self._tally = step_timings.Tally()
        self._noted = False
        self._there: Mapping[TableName, TableName] = {}
        self._reasons: Mapping[TableName, str] = {}

    def run(self) -> None:
        """Steps until no table of the group is left, or the process stops."""
        try:
            if self._to_load:
                self._load_once()
            elif (before := self.sides.left()) is not None:
                self._begin_all_again(f"node {before} is no longer the provider")
            while not self.stopping() and self._step():
                pass
        except Stopping:
            return
        except UnknownConsumer as error:
            # Nobody keeps any more what happened since their rows were copied.
            if not self._begin_all_again(error.message):
                raise
            raise Superseded("group of tables: copied again") from error
        finally:
            self.sides.close()

    def note_error(self, error: LondisteError) -> None:
        """Stores why the group does not go on, for status."""
        text = error.message + (f" ({error.detail})" if error.detail else "")
        text += f"; {error.hint or 'correct it; the copy then continues automatically'}"
        self._noted = True
        with session(self.job.db, name="londiste copy", autocommit=True) as conn:
            nodes.set_consumer_error(conn, self.queue, self.consumer, text)

    # -- rows --------------------------------------------------------------------------------

    def _load_once(self) -> None:
        try:
            self._load()
        except Superseded:
            raise
        except LondisteError as error:
            if error.retry or isinstance(error, Stopping):
                raise
            # Whichever of them it is about: each alone says it of itself.
            log.warning("copying small tables one by one: %s", error)
            self._leave(self.tables)
        self._to_load = False

    def _load(self) -> None:
        """From registering to catching-up, for those of the tables for which that is possible."""
        while get_copy_control(self.sides.here, self.queue).paused:
            # Nothing is held on the source for a copy that may not begin.
            if self.stopping():
                raise Stopping("the copy process is stopping")
            self.sides.pause(WATCH)
        wanted = self._wanted()
        if not wanted:
            return
        register(self.sides, remember=True)
        crash.point("copy.registered")
        drop_foreign_keys_of(self.sides.here, [table.dest for table in wanted.values()])
        with exported_snapshot(self.sides) as (holder, exported, snapshot):
            planned = self._plan(holder, wanted)
            attempts = self._begin(planned)
            started = time.monotonic()
            try:
                self._empty(planned, attempts)
                crash.point("copy.prepared")
                done = self._copy(planned, attempts, exported)
            except BaseException:
                with contextlib.suppress(LondisteError):
                    self._abandon(attempts)
                raise
        crash.point("copy.all-chunks")
        self._copied(planned, attempts, done, snapshot, time.monotonic() - started)
        crash.point("copy.catching-up")

    def _wanted(self) -> dict[TableName, ReplicatedTable]:
        """The tables that are copied together; the others are let go."""
        ours = tables.get_tables(self.sides.here, self.queue, self.tables)
        mine = {n: t for n, t in ours.items() if t.local and t.state == sync.to_text(InCopy())}
        there = whole_tables(self.sides.provider, self.queue)
        for name in lost_captures(self.sides):
            there.pop(name, None)
        sizes = bulk_catalog.sizes(
            self.sides.provider, [there[name] for name in mine if name in there]
        )
        planned = plan(
            list(mine.values()),
            {name: sizes.get(there[name]) for name in mine if name in there},
            chunk_bytes=self.job.chunk_bytes,
            resumable_from=self.job.resumable_from,
        )
        self._leave(planned.alone)
        # What is neither has room in another group, or needs no copy any more.
        self.tables = frozenset(planned.together)
        self._there = there
        self._reasons = planned.together
        return {name: mine[name] for name in planned.together}

    def _plan(
        self, holder: Connection, wanted: Mapping[TableName, ReplicatedTable]
    ) -> dict[TableName, Planned]:
        theirs = bulk_catalog.known(holder, [self._there[name] for name in wanted])
        here = bulk_catalog.known(self.sides.here, [table.dest for table in wanted.values()])
        same = holder.info.server_version // 10000 == self.sides.here.info.server_version // 10000
        planned, odd = {}, []
        for name, table in wanted.items():
            source, target = theirs.get(self._there[name]), here.get(table.dest)
            found = (
                None
                if source is None or target is None
                else Planned.of(table, source, target, same_version=same)
            )
            if found is None:
                odd.append(name)
            else:
                planned[name] = found
        self._leave(odd)
        return planned

    def _begin(self, planned: Mapping[TableName, Planned]) -> dict[TableName, int]:
        """New attempts; tables for which somebody would have to wait are left alone."""
        attempts = groups.copy_group_start(
            self.sides.here,
            self.queue,
            [
                groups.Begin(
                    name, one.source.total_bytes, int(one.source.rows_estimate), self._reasons[name]
                )
                for name, one in planned.items()
            ],
        )
        self._leave(planned.keys() - attempts.keys())
        log.info(
            "copying %d small tables as a group, %.1f MB, by consumer %s",
            len(attempts),
            sum(planned[name].source.total_bytes for name in attempts) / 1e6,
            self.consumer,
        )
        return attempts

    def _empty(self, planned: Mapping[TableName, Planned], attempts: dict[TableName, int]) -> None:
        """Takes away the rows that are here; who cannot be emptied now is copied alone."""
        failed = {}
        for name in list(attempts):
            one = planned[name]
            if not one.target.bytes:
                continue
            try:
                empty(self.sides.here, self.queue, one.table)
            except LondisteError as error:
                log.info("table %s: copied on its own: %s", name, error)
                failed[name] = attempts.pop(name)
        if failed:
            self._abandon(failed)
            self._leave(failed)

    def _copy(
        self,
        planned: Mapping[TableName, Planned],
        attempts: Mapping[TableName, int],
        exported: str,
    ) -> list[MemberDone]:
        """Lets the engine work, and looks meanwhile who needs one of the tables."""
        work = shares(
            [planned[name].member(attempt) for name, attempt in attempts.items()],
            self.job.parallel,
            queue=self.queue,
            source=self.sides.location,
            target=self.job.db,
            snapshot=exported,
        )
        result: list[MemberDone] = []
        failure: list[BaseException] = []

        def copy() -> None:
            try:
                for some in self.job.engine.copy_group(work, self.job.parallel):
                    result.extend(some)
            except BaseException as error:
                failure.append(error)

        worker = threading.Thread(
            target=logcontext.carried(copy), name="copy of small tables", daemon=True
        )
        worker.start()
        while worker.is_alive():
            worker.join(WATCH)
            if self.stopping():
                raise Stopping("the copy process is stopping")
            if worker.is_alive():
                self._let_go(attempts)
        if failure:
            raise failure[0]
        return result

    def _let_go(self, attempts: Mapping[TableName, int]) -> None:
        """Ends the sessions in which tables are written that somebody has asked for."""
        asked = {
            TableName.parse(one.table)
            for one in copy_progress(self.sides.here, self.queue)
            if one.stop_requested
        }
        if asked & attempts.keys():
            groups.terminate_tasks(self.sides.here, self.queue, asked & attempts.keys())

    def _copied(
        self,
        planned: Mapping[TableName, Planned],
        attempts: Mapping[TableName, int],
        done: Sequence[MemberDone],
        snapshot: str,
        seconds: float,
    ) -> None:
        """The states of those that are here say so from now on, and a crash copies them no more."""
        node = self.sides.here
        errors = {TableName.parse(one.table_name): one.error for one in done if one.error}
        ready = {name: attempt for name, attempt in attempts.items() if name not in errors}
        after = sync.to_text(sync.next_state(InCopy(), TableSyncSnapshot(By.COPY, copied=True)))
        with node.transaction():
            moved = groups.copy_group_end(node, self.queue, ready, after, snapshot, self.consumer)
            groups.copy_group_step(node, self.queue, moved, None, step_timings.CATCH_UP)
        self._abandon({name: attempts[name] for name in attempts if name not in moved})
        for name, error in errors.items():
            if not isinstance(error, Superseded):
                log.info("table %s: copied on its own: %s", name, error)
        self._leave(name for name, e in errors.items() if not isinstance(e, Superseded))
        self.tables = frozenset(moved)
        log.info(
            "copied %d small tables, %d rows, %.1f MB in %.1f s",
            len(moved),
            sum(one.rows for one in done),
            sum(one.bytes for one in done) / 1e6,
            seconds,
        )
        for name in moved:
            if planned[name].source.has_sequence and planned[name].target.has_sequence:
                sequences.advance(
                    self.sides.provider,
                    planned[name].source.name,
                    node,
                    planned[name].target.name,
                    self.queue,
                )

    def _abandon(self, attempts: Mapping[TableName, int], *, seconds: float = 10.0) -> None:
        """Ends attempts and their tasks.  Raises LockTimeout when tasks do not end."""
        if not attempts:
            return
        deadline = time.monotonic() + seconds
        with session(self.job.db, name="londiste copy", autocommit=True) as conn:
            while True:
                groups.terminate_tasks(conn, self.queue, attempts)
                try:
                    with conn.transaction():
                        conn.execute("set local lock_timeout = 300")
                        groups.copy_group_abandon(conn, self.queue, attempts)
                    return
                except LockTimeout:
                    if time.monotonic() > deadline:
                        raise

    def _leave(self, names: Iterable[TableName]) -> None:
        gone = frozenset(names)
        if gone:
            self._alone(gone)
            self.tables -= gone

    # -- what happened since ------------------------------------------------------------------

    def _step(self) -> bool:
        """One step of the group; false when no table is left, and nothing of it."""
        changes = self.job.changes.count()
        mine = self._members()
        if not mine:
            self._clean_up()
            self.sides.give_back()
            return False
        self.tables = frozenset(mine)
        states = {sync.from_text(table.state) for table in mine.values()}
        try:
            if any(isinstance(state, CatchingUp) for state in states):
                self._catch_up(mine)
            elif any(isinstance(state, WannaSync) for state in states):
                self.job.changes.wait(changes, _POLL_SECONDS)
            else:
                self._synchronise(mine)
        except LondisteError as error:
            blames_a_table = not error.retry or isinstance(error, LockTimeout)
            if len(mine) == 1 or not blames_a_table or isinstance(error, _OF_ALL):
                raise
            log.info("group of %d tables: split in halves: %s", len(mine), error)
            self._halve(sorted(mine))
        else:
            self._over()
        return True

    def _members(self) -> dict[TableName, ReplicatedTable]:
        """The tables that catch up by this consumer."""
        node = self.sides.here
        names = [
            name
            for name, consumer in groups.copy_members(node, self.queue).items()
            if consumer == self.consumer
        ]
        if not names:
            return {}
        return {
            name: table
            for name, table in tables.get_tables(node, self.queue, names).items()
            if table.local and isinstance(sync.from_text(table.state), _TOGETHER)
        }

    def _states(self) -> dict[TableName, str | None]:
        return {name: table.state for name, table in self._members().items()}

    def _catch_up(self, mine: Mapping[TableName, ReplicatedTable]) -> None:
        """Replays batches until none is waiting and the copy's snapshot is spent."""
        before = {name: table.state for name, table in mine.items()}
        interest = RoutingTable.copies(mine.values())
        texts = {table.snapshot for table in mine.values() if table.snapshot}
        snapshots = [Snapshot.parse(text) for text in texts]
        waits = step_timings.StepWaits(self.sides.here, self.queue, step_timings.CATCH_UP)
        with contextlib.closing(Replay(self.sides, self._tally)) as replay:
            while not self.stopping():
                batch = replay.next(interest)
                if batch is not None:
                    crash.point("copy.mid-catch-up")
                    if self._states() != before:
                        return
                    if batch.size_estimate > JOIN_EVENTS // 2:
                        continue
                    # All that was there: with a tick every few milliseconds one more always waits.
                seen = replay.seen()
                if all(sync.snapshot_spent(snapshot, seen) for snapshot in snapshots):
                    if self._begin_again(mine):
                        return
                    self._move(
                        {n: t for n, t in mine.items() if sync.from_text(t.state) == CatchingUp()},
                        TableSyncSnapshot(By.COPY, tick=replay.tick(), caught_up=True),
                        step_timings.CATCH_UP,
                        step_timings.HAND_OVER,
                    )
                    crash.point("copy.wanna-sync")
                    return
                replay.ask_for_tick()
                replay.wait(_POLL_SECONDS)
                waits.note(mine, replay.late())
                if self._states() != before:
                    return

    def _begin_again(self, mine: Mapping[TableName, ReplicatedTable]) -> bool:
        """Whether tables leave the group: their changes since the copy were not captured."""
        lost = lost_captures(self.sides) & mine.keys()
        # Alone they say what is wrong.
        self._copy_again({name: mine[name] for name in lost})
        return bool(lost)

    def _begin_all_again(self, why: str) -> bool:
        mine = self._members()
        self._copy_again(mine)
        if mine:
            log.warning("%d tables: copy starts over: %s", len(mine), why)
        return bool(mine)

    def _copy_again(self, some: Mapping[TableName, ReplicatedTable]) -> None:
        """Lets tables out of the group, to be copied one by one."""
        if not some:
            return
        again = sync.to_text(InCopy())
        self._leave(some)
        tables.move_table_states(
            self.sides.here,
            self.queue,
            [StateMove(name, table.state, again, None) for name, table in some.items()],
            consumer=self.consumer,
        )

    def _synchronise(self, mine: Mapping[TableName, ReplicatedTable]) -> None:
        """Replays up to the hand-over tick exactly; then the main worker has the tables."""
        before = {name: table.state for name, table in mine.items()}
        interest = RoutingTable.copies(mine.values())
        ticks = [sync.from_text(table.state) for table in mine.values()]
        # One for all: the worker stands still at the first that it names.
        up_to = min(state.tick for state in ticks if isinstance(state, DoSync))
        with contextlib.closing(Replay(self.sides, self._tally)) as replay:
            while not self.stopping():
                seen = TableSyncSnapshot(By.COPY, tick=replay.tick())
                there = {
                    name: table
                    for name, table in mine.items()
                    if sync.next_state(sync.from_text(table.state), seen)
                    != sync.from_text(table.state)
                }
                if there:
                    crash.point("copy.before-ok")
                    self._move(there, seen, step_timings.HAND_OVER, None)
                    crash.point("copy.after-ok")
                    log.info("%d tables: in sync since tick %d", len(there), seen.tick)
                    return
                if replay.next(interest, up_to=up_to) is None:
                    replay.wait(_POLL_SECONDS)
                    if self._states() != before:
                        return

    def _move(
        self,
        some: Mapping[TableName, ReplicatedTable],
        seen: TableSyncSnapshot,
        ended: str,
        begun: str | None,
    ) -> None:
        """The next states, each only where the state is still that which was seen."""
        node, moves = self.sides.here, []
        for name, table in some.items():
            after = sync.next_state(sync.from_text(table.state), seen)
            snapshot = None if after == sync.Ok() else table.snapshot
            moves.append(StateMove(name, table.state, sync.to_text(after), snapshot))
        with node.transaction():
            moved = tables.move_table_states(node, self.queue, moves, consumer=self.consumer)
            groups.copy_group_step(node, self.queue, moved, ended, begun, self._tally)
        self._tally = step_timings.Tally()
        log.info("%d tables: %s", len(moved), moves[0].new)

    def _halve(self, mine: Sequence[TableName]) -> None:
        """Half of the tables go on by another consumer, from the same place."""
        node, queue = self.sides.here, self.queue
        tick = nodes.get_consumer_state(node, queue, self.consumer).completed_tick
        half = mine[len(mine) // 2 :]
        other = groups.new_name(self.job.copy_prefix)
        # Here first: this row is what reminds of the provider's.
        provider = nodes.get_worker_state(node, queue).provider
        nodes.register_consumer(node, queue, other, provider, tick)
        batches.register_consumer_at(self.sides.provider, queue, other, tick)
        groups.copy_group_split(node, queue, half, self.consumer, other)
        self.tables -= frozenset(half)

    def _over(self) -> None:
        """An error of before is over once a step has come to its end."""
        if self._noted:
            nodes.set_consumer_error(self.sides.here, self.queue, self.consumer, None)
            self._noted = False

    def _clean_up(self) -> None:
        """Takes the group's consumer off both sides."""
        there = self.sides.registered_at()
        if there is not None:
            # The provider first: this node's row is what reminds us of the other one.
            self.sides.unregister_at(there)
            nodes.unregister_consumer(self.sides.here, self.queue, self.consumer)
