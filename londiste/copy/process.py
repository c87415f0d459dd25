"""Copy process of a node: runs the copies of all its tables, several at a time.

The worker starts it when a table is to be copied; it exits when none is left.
Each table has a thread, small ones have one as a group (``copy/group_copy.py``); all share one
engine, so one Spark session.  A table that fails waits with its reason stored, longer each time,
and gives its place to the next table while it waits.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import psycopg

from londiste.cascade import copied_database
from londiste.cascade import sqlapi as nodes
from londiste.copy import step_timings
from londiste.copy.group_copy import GroupLoad
from londiste.copy.group_plan import MOST, may_join
from londiste.copy.load_throttle import Limits, LoadWatch
from londiste.copy.sessions import CopyJob, CopySessions
from londiste.copy.single_copy import SingleLoad
from londiste.copy.sqlapi import groups
from londiste.copy.table_copy import TableCopy
from londiste.daemon import logcontext, loop
from londiste.daemon.signals import Signals
from londiste.db.advisory_lock import acquire_singleton_lock
from londiste.db.connection import Connection, session
from londiste.db.connstr.locations import reach
from londiste.db.names import TableName, argument
from londiste.db.server_text import connected_to
from londiste.engine.base import READY
from londiste.errors import (
    LondisteError,
    NodeBusy,
    StateError,
    Superseded,
    TableChanged,
    UnknownNode,
    UnknownTable,
)
from londiste.pgq.liveness import Beat
from londiste.replication import sqlapi as tables
from londiste.replication.model import ReplicatedTable
from londiste.replication.notifications import TableNotifications
from londiste.replication.patterns import table_meant
from londiste.replication.tablesync import states as sync

log = logging.getLogger(__name__)

#: Creates the copy of a table, or of a group.
Maker: TypeAlias = Callable[[], TableCopy]

#: Seconds to wait for the lock of a process that was just killed.
_LOCK_PATIENCE = 5.0

#: Seconds between checks for added or removed tables.
_POLL_SECONDS = 0.5

#: Seconds to wait for the next table before the end: another process would have to start a Spark
#: session of its own.
_LINGER = 5.0

#: Seconds to wait for threads at the end; the transactions they leave are rolled back.
_GRACE = 4.0


#: Order of work: the worker waits for the first of these states, the rows come last.
_URGENT = (sync.DoSync, sync.WannaSync, sync.CatchingUp, sync.InCopy)

#: A table that fails again and again rests for so many of the longest pauses at most.
_LONGEST_REST = 30

_DOING = {
    sync.InCopy: "empty it, copy all rows, build its indexes, replay the changes since",
    sync.CatchingUp: "build missing indexes, replay the changes since its copy",
    sync.WannaSync: "wait for the worker to name the hand-over tick, replay up to it",
    sync.DoSync: "replay up to the hand-over tick",
}


@dataclass(frozen=True)
class ProcessStep:
    """The next step of one table."""

    table: TableName
    state: str | None

    def describe(self) -> str:
        """For ``--dry-run``."""
        doing = _DOING.get(type(sync.from_text(self.state)), "remove the consumer of its copy")
        return f"{self.table}: {doing}"


@dataclass
class CopyProcess:
    """Copies tables until none is left to copy.

    wanted -- only these tables; empty for all.
    parallel -- tables at a time.
    longest_pause -- limit in seconds of the pause of a table that fails.
    limits -- loads above which copies are slowed down.
    """

    job: CopyJob
    wanted: Sequence[TableName] = ()
    parallel: int = 2
    longest_pause: float = 20.0
    limits: Limits = field(default_factory=Limits)
    _running: dict[str, threading.Thread] = field(default_factory=dict)
    _groups: dict[str, GroupLoad] = field(default_factory=dict)
    _single: set[TableName] = field(default_factory=set)
    _end: threading.Event = field(default_factory=threading.Event)
    _waiting: set[str] = field(default_factory=set)
    _noted: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A waiting thread continues when there is a place.
        self._places = threading.BoundedSemaphore(self.parallel)

    def plan(self) -> list[ProcessStep]:
        """The steps that ``run`` would do now, without doing them."""
        with self._session() as conn:
            self._check(conn)
            known = {t.name: t for t in tables.get_table_list(conn, self.job.queue) if t.local}
            states = {name: table.state for name, table in known.items()}
            return [ProcessStep(name, states.get(name)) for name in self._to_do(conn, known)]

    def run(self, signals: Signals) -> None:
        """Copies until no table is left, or a stop is requested.

        Raises NodeBusy when another process copies for this node, UnknownTable for a wanted
        table that is not replicated on this node, StateError for one without a copy to do.
        """
        with (
            logcontext.bound(job=self.job.consumer, queue=self.job.queue),
            self._alone() as conn,
        ):
            self._check(conn)
            log.info("connected to %s", connected_to(conn))
            news = TableNotifications(conn, self.job.queue)
            idle_since = time.monotonic()
            beat = Beat("copy", self.job.queue, self.job.consumer)
            watch = LoadWatch(self.job.db, self.job.queue, self._provider, self.limits)
            try:
                watch.start(conn)
                while not signals.stopping:
                    news.begin()
                    left = self._round(conn, signals)
                    now = time.monotonic()
                    if left or self._running:
                        idle_since = now
                    elif not self._more_to_come(conn) or now - idle_since > _LINGER:
                        return
                    beat.beat(conn)
                    again = news.end()
                    if news.told:
                        self.job.changes.tell()
                    signals.wait(
                        0.0 if again else min(_POLL_SECONDS, news.rest or _POLL_SECONDS),
                        news.files(),
                    )
            finally:
                beat.stop(conn)
                self._end.set()
                self.job.changes.tell()
                watch.stop()
                deadline = time.monotonic() + _GRACE
                for thread in self._running.values():
                    thread.join(max(0.0, deadline - time.monotonic()))
                self.job.spare.close()

    def _report_waits(self, conn: Connection) -> None:
        """Logs why tasks wait (for disk space), from the notes that tasks leave in the database.

        ``londiste status`` shows it as the error of the table's copy.
        """
        if not self._running:
            return
        now = {
            table: text
            for table, text in step_timings.copy_waits(conn, self.job.queue).items()
            if not text.startswith(READY)
        }
        consumers = {
            str(name): group.consumer for group in self._groups.values() for name in group.tables
        }
        for table in {**self._noted, **now}:
            if now.get(table) != self._noted.get(table):
                if table in now:
                    log.warning("%s: %s", table, now[table])
                else:
                    log.info("table %s: continues", table)
                consumer = consumers.get(table) or self.job.copy_consumer(TableName.parse(table))
                nodes.set_consumer_error(conn, self.job.queue, consumer, now.get(table))
        self._noted = now

    def _provider(self) -> str:
        with contextlib.closing(
            CopySessions(self.job, TableName("", ""), self._end.is_set)
        ) as sides:
            return sides.location

    def _round(self, conn: Connection, signals: Signals) -> bool:
        """Starts threads for tables that have none.  Returns whether tables are left."""
        for key, thread in list(self._running.items()):
            if not thread.is_alive():
                del self._running[key]
                self._groups.pop(key, None)
        self._report_waits(conn)
        left = self._left(conn, signals)
        for key, make in left:
            if len(self._running.keys() - self._waiting) >= self.parallel:
                break
            if key not in self._running:
                # Registered before it runs: other threads ask which tables have a copy.
                copy = make()
                thread = threading.Thread(
                    target=self._bring, args=(key, copy, signals), name=key, daemon=True
                )
                self._running[key] = thread
                thread.start()
        return bool(left)

    def _left(self, conn: Connection, signals: Signals) -> list[tuple[str, Maker]]:
        """Unfinished tables and groups, in the order of work.

        Those that are only to be copied, and can be copied with others, are one group.
        """
        members = groups.copy_members(conn, self.job.queue)
        grouped = {name for group in self._groups.values() for name in group.tables}
        known = {t.name: t for t in tables.get_table_list(conn, self.job.queue) if t.local}
        found: dict[str, Maker] = {}
        joining = self._joining(known, grouped)
        for name in self._to_do(conn, known):
            if name in members:
                consumer = members[name]
                found.setdefault(consumer, lambda c=consumer: self._group(c, (), signals))  # type: ignore[misc]
            elif name in joining[:MOST]:
                key = groups.new_name(self.job.copy_prefix)
                found[key] = lambda k=key, some=joining[:MOST]: self._group(k, some, signals)  # type: ignore[misc]
                # Tables beyond that are another group's, in the next round.
                grouped |= set(joining)
                joining = []
            elif name not in grouped:
                found[str(name)] = lambda n=name: self._single_copy(n)  # type: ignore[misc]
        if not self.wanted:
            there = {info.name for info in nodes.get_consumer_info(conn, self.job.queue)}
            # One without tables has nothing to do but to go, except while it gets its tables.
            there -= {group.registering for group in self._groups.values()}
            for consumer in sorted(there):
                if groups.is_group(self.job.copy_prefix, consumer):
                    found.setdefault(consumer, lambda c=consumer: self._group(c, (), signals))  # type: ignore[misc]
        return list(found.items())

    def _joining(
        self, known: Mapping[TableName, ReplicatedTable], grouped: Collection[TableName]
    ) -> list[TableName]:
        """Tables that are to be copied together; no group of one."""
        dests = Counter(table.dest for table in known.values())
        found = [
            name
            for name, table in known.items()
            if sync.from_text(table.state) == sync.InCopy()
            and may_join(table)
            and dests[table.dest] == 1
            and name not in grouped
            and name not in self._single
            and str(name) not in self._running
            and (not self.wanted or name in self.wanted)
        ]
        return found if len(found) > 1 else []

    def _group(self, consumer: str, names: Collection[TableName], signals: Signals) -> TableCopy:
        def alone(some: Collection[TableName]) -> None:
            self._single |= set(some)
            # They need not wait for the next round.
            signals.wake()

        group = GroupLoad(self.job, consumer, names, self._end.is_set, alone)
        self._groups[consumer] = group
        return TableCopy(group)

    def _single_copy(self, name: TableName) -> TableCopy:
        return TableCopy(SingleLoad(self.job, name, self._end.is_set))

    def _more_to_come(self, conn: Connection) -> bool:
        """Whether the worker will soon hand over tables that it has not started yet."""
        return not self.wanted and any(
            table.local and sync.from_text(table.state) == sync.Missing()
            for table in tables.get_table_list(conn, self.job.queue)
        )

    def _to_do(
        self, conn: Connection, known: Mapping[TableName, ReplicatedTable]
    ) -> list[TableName]:
        """Tables in a state of copying, and tables whose copy left a consumer registered.

        Those that are nearest to their end come first: the worker waits for a table in do-sync,
        which must not wait for a place behind one that is only about to be copied.
        """
        begun = [
            (sync.from_text(table.state), table.name)
            for table in known.values()
            if isinstance(sync.from_text(table.state), sync.COPYING)
        ]
        found = {
            name: None for _, name in sorted(begun, key=lambda one: _URGENT.index(type(one[0])))
        }
        prefix = self.job.copy_prefix
        for consumer in nodes.get_consumer_info(conn, self.job.queue):
            if consumer.name.startswith(prefix) and not groups.is_group(prefix, consumer.name):
                found.setdefault(TableName.parse(consumer.name[len(prefix) :]))
        return [name for name in found if not self.wanted or name in self.wanted]

    def _bring(self, name: str, copy: TableCopy, signals: Signals) -> None:
        """The thread of one table, or of one group."""
        try:
            table = {"table": name} if isinstance(copy.load, SingleLoad) else {}
            with logcontext.bound(
                job=self.job.consumer, queue=self.job.queue, consumer=copy.consumer, **table
            ):
                self._until_done(name, copy, signals)
        finally:
            if isinstance(copy.load, SingleLoad):
                # Another time it may be copied with others again.
                self._single.discard(copy.load.name)
            self._waiting.discard(name)
            # The next table need not wait for the next round.
            signals.wake()

    def _until_done(self, name: str, copy: TableCopy, signals: Signals) -> None:
        trouble = loop.Trouble()
        changes = 0
        began = time.monotonic()
        while not self._end.is_set():
            try:
                with self._places:
                    began = time.monotonic()
                    self._waiting.discard(name)
                    copy.run()
                return
            except Superseded as error:
                # The state was changed: check again, at once.
                log.info("%s", error.message)
                self._end.wait(_POLL_SECONDS)
            except Exception as error:
                failure = loop.as_londiste(error)
                if isinstance(failure, UnknownNode) and self._is_dropped():
                    log.warning("%s: the copy ends, the node was dropped", name)
                    return
                if isinstance(failure, TableChanged):
                    changes += 1
                    failure = _with_count(failure, changes)
                if trouble.failed(failure):
                    with logcontext.bound(**logcontext.of(error)):
                        log.log(
                            logging.WARNING if failure.retry else logging.ERROR,
                            "%s: %s",
                            name,
                            loop.describe(failure),
                            extra={"error": failure},
                        )
                with contextlib.suppress(LondisteError, psycopg.Error):
                    copy.note_error(failure, trouble.same)
                took = time.monotonic() - began
                self._waiting.add(name)
                # A table that has not begun yet takes the place at once.
                signals.wake()
                self._end.wait(self._rest(trouble.failures, took))

    def _is_dropped(self) -> bool:
        """Whether the target database is no node any more; the provider may be none, too."""
        with contextlib.suppress(LondisteError, psycopg.Error):
            with self._session() as conn:
                return nodes.find_node_info(conn, self.job.queue) is None
        return False

    def _rest(self, failures: int, took: float) -> float:
        """Seconds until a table that has failed, after ``took`` seconds of work, is tried again."""
        pause = loop.pause(failures, longest=self.longest_pause, chance=random.random())
        if failures == 1:
            # Work that a broken connection interrupted continues at once.
            return pause
        # All that fail again and again are at work in half a place at most: the others get on, and
        # no source is read from end to end all the time.
        return max(pause, min(2 * len(self._waiting) * took, _LONGEST_REST * self.longest_pause))

    def _session(self) -> contextlib.AbstractContextManager[Connection]:
        dsn, limit = self.job.db, self.job.answer_seconds
        return session(dsn, name="londiste copy", autocommit=True, silent_seconds=limit)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[Connection]:
        """A session with the lock of the node's copy process.

        With one that falls silent the process ends: its worker starts another one.
        """
        with self._session() as conn:
            job = f"copy {self.job.queue}"
            if acquire_singleton_lock(conn, job, patience=_LOCK_PATIENCE) is not None:
                raise NodeBusy(
                    f"queue {self.job.queue}: another process copies its tables on this node",
                    hint="wait: londiste copy status shows it; the worker starts a copy process"
                    " automatically",
                )
            yield conn

    def _check(self, conn: Connection) -> None:
        # An unknown queue has no table left to copy either; that must not look like success.
        logcontext.of_process(node=nodes.get_node_info(conn, self.job.queue).name)
        copied_database.refuse(conn, self.job.queue, lambda at: reach(at, self.job.remote_extra))
        if not self.wanted:
            return
        known = {t.name: t for t in tables.get_table_list(conn, self.job.queue) if t.local}
        for name in self.wanted:
            if name not in known:
                raise UnknownTable(
                    f"table {name}: not replicated on this node",
                    hint=table_meant(
                        str(name), known, f"add it: londiste add-table {argument(name)}"
                    ),
                )
            if sync.from_text(known[name].state) == sync.Missing():
                raise StateError(
                    f"table {name}: its copy waits for the worker",
                    hint="start it: londiste worker",
                )


def _with_count(error: TableChanged, times: int) -> TableChanged:
    """The same error, with how often that has happened."""
    if times == 1:
        return error
    return TableChanged(
        error.message,
        detail=f"{error.detail}; this copy has started over {times} times because of such changes",
        hint=f"{error.hint}, later each time: do not change the table until it is copied",
    )
