"""Load of a group of small tables: one consumer, one snapshot, few sessions.

A small table costs mostly sessions, consumers, ticks and commits, hardly its rows.  A group shares
them, and catches up as one (``copy/table_copy.py``):

    in-copy       nothing is kept but attempts and the consumer: all start over, in other groups
    catching-up   stored with the membership (``londiste.copy_member``): the consumer's name leads a
                  new process to the tables that are left

A table that is removed, or has to be copied again, leaves the group with the change of its state.
One that cannot be copied with others is copied on its own, where its error is reported.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from londiste.cascade import sqlapi as nodes
from londiste.copy import sequences, step_timings
from londiste.copy.chunking.runner import WATCH
from londiste.copy.chunking.source_snapshot import SourceSnapshot, exported_snapshot
from londiste.copy.group_plan import Planned, plan, shares
from londiste.copy.prepare import drop_foreign_keys_of, empty
from londiste.copy.sessions import CopyJob, CopySessions, Stopping
from londiste.copy.setup import lost_captures, register, whole_tables
from londiste.copy.sqlapi import groups
from londiste.copy.sqlapi.attempts import copy_progress, terminate_tasks, without_tasks
from londiste.copy.sqlapi.control import get_copy_control
from londiste.daemon import crash, logcontext
from londiste.db import bulk_catalog
from londiste.db.connection import Connection, session
from londiste.db.names import TableName
from londiste.engine.spec import GroupSpec, MemberDone
from londiste.errors import LondisteError, Superseded
from londiste.pgq import batches
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import states as sync
from londiste.replication.tablesync.states import By, InCopy, TableSyncSnapshot

log = logging.getLogger(__name__)


class GroupLoad:
    """The tables of a group, and the copy of their rows.

    consumer -- of the group.
    names -- tables in in-copy, to be copied; none for a group whose rows are copied already.
    alone -- gets the tables that have to be copied on their own.
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
        self._to_load = bool(names)
        #: The consumer that is being registered for half of the tables; it has none yet.
        self.registering = ""
        self.member_consumer: str | None = consumer
        self._alone = alone
        self._there: Mapping[TableName, TableName] = {}
        self._reasons: Mapping[TableName, str] = {}

    def members(self) -> dict[TableName, ReplicatedTable]:
        """The tables that catch up by this consumer; none before the load."""
        if self._to_load:
            return {}
        node = self.sides.here
        names = [
            name
            for name, consumer in groups.copy_members(node, self.queue).items()
            if consumer == self.consumer
        ]
        if not names:
            self.tables = frozenset()
            return {}
        found = {
            name: table
            for name, table in tables.get_tables(node, self.queue, names).items()
            if table.local and isinstance(sync.from_text(table.state), sync.REPLAYING)
        }
        self.tables = frozenset(found)
        return found

    def before_replay(self, members: Mapping[TableName, ReplicatedTable]) -> None:
        """Nothing: the tables kept their indexes, and their tasks analyzed them."""

    def lost_captures(self, members: Mapping[TableName, ReplicatedTable]) -> Collection[TableName]:
        """The tables whose changes since the copy were not captured."""
        return lost_captures(self.sides) & members.keys()

    def leave(self, names: Iterable[TableName]) -> None:
        """Removes tables from the group, to be copied on their own."""
        leaving = frozenset(names)
        if leaving:
            self._alone(leaving)
            self.tables -= leaving

    def halve(self, names: Sequence[TableName]) -> None:
        """Moves half of the tables to another consumer, at the same position."""
        node, queue = self.sides.here, self.queue
        tick = nodes.get_consumer_state(node, queue, self.consumer).completed_tick
        half = names[len(names) // 2 :]
        other = self.registering = groups.new_name(self.job.copy_prefix)
        try:
            # This node first: after a crash its row leads to the consumer on the provider.
            provider = nodes.get_worker_state(node, queue).provider
            nodes.register_consumer(node, queue, other, provider, tick)
            batches.register_consumer_at(self.sides.provider, queue, other, tick)
            groups.copy_group_split(node, queue, half, self.consumer, other)
        finally:
            self.registering = ""
        self.tables -= frozenset(half)

    # -- rows --------------------------------------------------------------------------------

    def pending(self, members: Mapping[TableName, ReplicatedTable]) -> bool:
        """Whether the rows have to be copied."""
        return self._to_load

    def load(self, members: Mapping[TableName, ReplicatedTable]) -> None:
        """Copies the rows once; tables that cannot be copied together leave the group."""
        try:
            self._load()
        except Superseded:
            raise
        except LondisteError as error:
            if error.retry or isinstance(error, Stopping):
                raise
            # The table that it is about reports it when it is copied on its own.
            log.warning("copying small tables one by one: %s", error)
            self.leave(self.tables)
        self._to_load = False

    def _load(self) -> None:
        """From registering to catching-up, for the tables for which that is possible."""
        while get_copy_control(self.sides.here, self.queue).paused:
            # A paused copy holds nothing on the source.
            if self.stopping():
                raise Stopping("the copy process is stopping")
            self.sides.pause(WATCH)
        wanted = self._wanted()
        if not wanted:
            return
        register(self.sides, remember=True)
        crash.point("copy.registered")
        drop_foreign_keys_of(self.sides.here, [table.dest for table in wanted.values()])
        with exported_snapshot(self.sides) as source:
            planned = self._plan(source.conn, wanted)
            attempts = self._begin(planned)
            started = time.monotonic()
            try:
                self._empty(planned, attempts)
                crash.point("copy.prepared")
                done = self._copy(planned, attempts, source)
            except BaseException:
                with contextlib.suppress(LondisteError):
                    self._abandon(attempts)
                raise
        crash.point("copy.all-chunks")
        self._copied(planned, attempts, done, source.seen, time.monotonic() - started)
        crash.point("copy.catching-up")

    def _wanted(self) -> dict[TableName, ReplicatedTable]:
        """The tables that are copied together; the others leave the group."""
        known = tables.get_tables(self.sides.here, self.queue, self.tables)
        in_copy = {n: t for n, t in known.items() if t.local and t.state == sync.to_text(InCopy())}
        there = whole_tables(self.sides.provider, self.queue)
        for name in lost_captures(self.sides):
            there.pop(name, None)
        sizes = bulk_catalog.sizes(
            self.sides.provider, [there[name] for name in in_copy if name in there]
        )
        planned = plan(
            list(in_copy.values()),
            {name: sizes.get(there[name]) for name in in_copy if name in there},
            chunk_bytes=self.job.chunk_bytes,
            resumable_from=self.job.resumable_from,
        )
        self.leave(planned.alone)
        # The others get another group, or need no copy any more.
        self.tables = frozenset(planned.together)
        self._there = there
        self._reasons = planned.together
        return {name: in_copy[name] for name in planned.together}

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
        self.leave(odd)
        return planned

    def _begin(self, planned: Mapping[TableName, Planned]) -> dict[TableName, int]:
        """Starts attempts; tables whose locks are not free leave the group."""
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
        self.leave(planned.keys() - attempts.keys())
        log.info(
            "copying %d small tables as a group, %.1f MB, by consumer %s",
            len(attempts),
            sum(planned[name].source.total_bytes for name in attempts) / 1e6,
            self.consumer,
        )
        return attempts

    def _empty(self, planned: Mapping[TableName, Planned], attempts: dict[TableName, int]) -> None:
        """Empties the target tables; one that is locked leaves the group."""
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
            self.leave(failed)

    def _copy(
        self,
        planned: Mapping[TableName, Planned],
        attempts: Mapping[TableName, int],
        source: SourceSnapshot,
    ) -> list[MemberDone]:
        """Runs the engine, and ends tasks of tables that a command needs."""
        work = shares(
            [planned[name].member(attempt) for name, attempt in attempts.items()],
            self.job.parallel,
            GroupSpec(
                queue=self.queue,
                source=source.location,
                target=self.job.db,
                snapshot=source.name,
                members=(),
                answer_seconds=self.job.answer_seconds,
            ),
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
                self._end_requested(attempts)
        if failure:
            raise failure[0]
        return result

    def _end_requested(self, attempts: Mapping[TableName, int]) -> None:
        """Ends the sessions that write tables whose copy a command has stopped."""
        stopped = {
            TableName.parse(attempt.table)
            for attempt in copy_progress(self.sides.here, self.queue)
            if attempt.stop_requested
        } & attempts.keys()
        if stopped:
            terminate_tasks(self.sides.here, self.queue, stopped)

    def _copied(
        self,
        planned: Mapping[TableName, Planned],
        attempts: Mapping[TableName, int],
        done: Sequence[MemberDone],
        snapshot: str,
        seconds: float,
    ) -> None:
        """Ends the load: moves the copied tables to catching-up."""
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
        self.leave(name for name, e in errors.items() if not isinstance(e, Superseded))
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

    def _abandon(self, attempts: Mapping[TableName, int]) -> None:
        """Ends attempts and their tasks.  Raises LockTimeout when tasks do not end."""
        if not attempts:
            return
        with session(
            self.job.db,
            name="londiste copy",
            autocommit=True,
            silent_seconds=self.job.answer_seconds,
        ) as conn:
            without_tasks(
                conn,
                self.queue,
                attempts,
                lambda: groups.copy_group_abandon(conn, self.queue, attempts),
            )
