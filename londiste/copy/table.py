"""One table on its way from in-copy to ok: the copy process's side of the table states.

Every step reads the state from the database, does what the state allows, and stores the next
one with a compare-and-set.  So the process can be killed between any two lines:

    in-copy       everything again, as a new attempt
    catching-up   indexes first if they are still missing, then on from the stored position
    wanna-sync    stand still until the main worker has chosen the hand-over tick
    do-sync:M     up to tick M and not further, then ok
    otherwise     clean up: no consumer, no attempt is left behind
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psycopg
from psycopg import conninfo
from psycopg.rows import dict_row

from londiste.cascade import nodes
from londiste.cascade.progress import NodeProgress
from londiste.copy import attempts
from londiste.copy.columns import Pairing, pair
from londiste.copy.prepare import find, prepare
from londiste.copy.restore import analyze, restore
from londiste.copy.split import split
from londiste.daemon import crash
from londiste.db import catalog
from londiste.db.connection import Connection, connect, session, whereabouts
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.db.snapshot import Snapshot
from londiste.engine.base import Engine
from londiste.engine.spec import ChunkDone, CopySpec
from londiste.errors import (
    LondisteError,
    StateError,
    Superseded,
    TransientError,
    UnknownConsumer,
    UnknownTable,
    from_database,
)
from londiste.pgq import batches, queues
from londiste.replication import sync, tables
from londiste.replication.batch import BatchRunner
from londiste.replication.handover import tick_snapshot
from londiste.replication.plan import Interest
from londiste.replication.sync import By, CatchingUp, DoSync, InCopy, Seen, WannaSync
from londiste.replication.types import ReplicatedTable

log = logging.getLogger(__name__)

#: Seconds between looks at a state that somebody else has to change.
_LOOK = 0.1

#: Seconds between looks at a running copy: is it still wanted?
_WATCH = 0.5

_SAFE_NAME_BYTES = 63


@dataclass(frozen=True)
class Job:
    """What all tables of a copy process have in common.

    db -- connection string of this node.
    consumer -- the main worker's consumer; the copies' names begin with it.
    remote_extra -- added to the provider's location.
    parallel -- chunks of one table at a time.
    chunk_bytes -- see ``split``.
    """

    db: str
    queue: str
    consumer: str
    engine: Engine
    remote_extra: str = ""
    parallel: int = 2
    chunk_bytes: int = 128 * 1024 * 1024
    lock_timeout_ms: int = 10_000
    delay: float = 1.0

    @property
    def copy_prefix(self) -> str:
        """How the names of the copies' consumers begin."""
        return f"{self.consumer}.copy."

    def copy_consumer(self, table: TableName) -> str:
        """The consumer that replays one table after its copy."""
        return f"{self.copy_prefix}{table}"


class Stopping(StateError):
    """The process shall end; the table goes on next time."""


class TableCopy:
    """Brings one table from in-copy to ok.

    ``run`` returns when there is nothing left to do for this table, and raises what went wrong
    otherwise; it may be called again after any error.
    """

    def __init__(self, job: Job, table: TableName, stopping: Callable[[], bool]) -> None:
        self.job = job
        self.name = table
        self.consumer = job.copy_consumer(table)
        self.stopping = stopping
        self._node: Connection | None = None
        self._source: Connection | None = None
        self._provider_location = ""

    def run(self) -> None:
        """Steps until the table is ok, removed, or the process stops."""
        try:
            while not self.stopping():
                table = self._table()
                state = None if table is None else sync.from_text(table.state)
                match state:
                    case InCopy():
                        assert table is not None
                        self._copy(table)
                    case CatchingUp():
                        assert table is not None
                        self._catch_up(table)
                    case WannaSync():
                        self._pause(_LOOK)
                    case DoSync(tick):
                        assert table is not None
                        self._synchronise(table, tick)
                    case _:
                        self.clean_up()
                        return
        except Stopping:
            return
        finally:
            self.close()

    def close(self) -> None:
        """Gives the connections back; the next step opens new ones."""
        for conn in (self._node, self._source):
            if conn is not None:
                conn.close()
        self._node = self._source = None

    def note_error(self, error: LondisteError) -> None:
        """Stores why the table does not go on, for status."""
        text = error.message + (f" ({error.detail})" if error.detail else "")
        with session(self.job.db, name="londiste copy", autocommit=True) as conn:
            nodes.set_consumer_error(conn, self.job.queue, self.consumer, text)

    def clean_up(self) -> None:
        """Takes the copy's consumer off both sides; ends an attempt that is still noted."""
        node = self._here()
        for attempt in attempts.copy_progress(node, self.job.queue):
            if attempt.table == str(self.name):
                attempts.abandon(node, self.job.queue, self.name, attempt.attempt)
        if any(c.name == self.consumer for c in nodes.get_consumer_info(node, self.job.queue)):
            # The provider first: this node's row is what reminds us of the other one.
            batches.unregister_consumer(self._provider(), self.job.queue, self.consumer)
            nodes.unregister_consumer(node, self.job.queue, self.consumer)

    # -- in-copy -----------------------------------------------------------

    def _copy(self, table: ReplicatedTable) -> None:
        """Everything from registering to catching-up."""
        source_name = self._source_table()
        if source_name is None:
            log.info("%s: waiting until the provider has it", table.name)
            self._pause(self.job.delay)
            return
        self._register()
        crash.point("copy.registered")
        node = self._here()
        with self._snapshot() as (holder, exported, snapshot):
            pairing = self._pairing(holder, source_name, node, table)
            info = catalog.require(holder, source_name)
            chunks = split(
                source_name,
                pages=info.pages,
                total_bytes=info.total_bytes,
                rows=info.rows_estimate,
                chunk_bytes=self.job.chunk_bytes,
            )
            attempt = prepare(node, self.job.queue, table, chunks)
            crash.point("copy.prepared")
            spec = CopySpec(
                queue=self.job.queue,
                source=self._provider_location,
                target=self.job.db,
                source_table=source_name,
                target_table=table.dest,
                columns=pairing.pairs,
                chunks=chunks,
                snapshot=exported,
                attempt=attempt,
                binary=pairing.binary,
                table_name=str(table.name),
                filenode=info.filenode,
            )
            log.info(
                "%s: copy %d begins, %.1f MB in %d chunks",
                table.name,
                attempt,
                info.total_bytes / 1e6,
                len(chunks),
            )
            self._run_attempt(spec, table)
        crash.point("copy.all-chunks")
        self._copied(table, attempt, snapshot)
        crash.point("copy.catching-up")
        self._restore(table)

    def _copied(self, table: ReplicatedTable, attempt: int, snapshot: str) -> None:
        """All rows are here: the state says so from now on, and a crash copies them no more."""
        node = self._here()
        after = sync.next_state(InCopy(), Seen(By.COPY, copied=True))
        with node.transaction():
            if not attempts.copy_end(node, self.job.queue, table.name, attempt):
                raise Superseded(f"copy {attempt} of {table.name} is superseded")
            if not tables.move_table_state(
                node, self.job.queue, table.name, "in-copy", sync.to_text(after), snapshot
            ):
                raise Superseded(f"table {table.name} is not to be copied any more")

    def _restore(self, table: ReplicatedTable) -> None:
        node = self._here()
        if not restore(node, self.job.queue, table):
            analyze(node, table)
        crash.point("copy.restored")

    def _run_attempt(self, spec: CopySpec, table: ReplicatedTable) -> None:
        """Lets the engine copy the chunks, and looks meanwhile whether that is still wanted."""
        started = time.monotonic()
        result: list[ChunkDone] = []
        failure: list[BaseException] = []

        def work() -> None:
            try:
                result.extend(self.job.engine.copy(spec, self.job.parallel))
            except BaseException as error:
                failure.append(error)

        worker = threading.Thread(target=work, name=f"copy of {table.name}", daemon=True)
        worker.start()
        while worker.is_alive():
            worker.join(_WATCH)
            reason = self._unwanted(spec, table) if worker.is_alive() else None
            if reason is not None:
                self._abandon(spec, table)
                worker.join(10)
                raise reason
        if failure:
            self._abandon(spec, table)
            raise failure[0]
        rows, size = sum(done.rows for done in result), sum(done.bytes for done in result)
        seconds = max(time.monotonic() - started, 0.001)
        log.info("%s: %d rows copied, %.1f MB in %.1f s", table.name, rows, size / 1e6, seconds)

    def _unwanted(self, spec: CopySpec, table: ReplicatedTable) -> LondisteError | None:
        if self.stopping():
            return Stopping("the copy process ends")
        node = self._here()
        now = find(node, self.job.queue, table)
        if now is None or now.state != "in-copy":
            return Superseded(f"table {table.name} is not to be copied any more")
        for attempt in attempts.copy_progress(node, self.job.queue):
            if attempt.table == spec.name and attempt.attempt == spec.attempt:
                if attempt.stop_requested:
                    return TransientError(
                        f"copy of {table.name} was asked to let go of the table",
                        hint="it begins again by itself when the table is still to be copied",
                    )
                return None
        return Superseded(f"copy {spec.attempt} of {table.name} is superseded")

    def _abandon(self, spec: CopySpec, table: ReplicatedTable) -> None:
        with session(
            self.job.db, name="londiste copy", autocommit=True, lock_timeout_ms=1000
        ) as conn:
            attempts.abandon(conn, self.job.queue, table.name, spec.attempt)

    def _pairing(
        self,
        source: Connection,
        source_name: TableName,
        node: Connection,
        table: ReplicatedTable,
    ) -> Pairing:
        theirs = catalog.columns(source, source_name)
        ours = catalog.columns(node, table.dest)
        if not ours:
            raise UnknownTable(
                f"table {table.dest} does not exist here",
                hint="create it; the copy begins by itself then",
            )
        same = source.info.server_version // 10000 == node.info.server_version // 10000
        found = pair(table.name, theirs, ours, same_version=same)
        for warning in found.warnings:
            log.warning("%s", warning)
        return found

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[tuple[Connection, str, str]]:
        """A transaction on the provider whose snapshot the tasks share.

        Gives its session, the snapshot's name, and what it sees as text.
        """
        self._provider()
        with session(
            self._provider_location,
            name=self._session_name(),
            autocommit=True,
            lock_timeout_ms=self.job.lock_timeout_ms,
        ) as conn:
            try:
                conn.execute("begin isolation level repeatable read, read only")
                with conn.cursor(row_factory=dict_row) as cursor:
                    row = cursor.execute(query("export_snapshot")).fetchone()
            except psycopg.Error as error:
                raise from_database(error, where=whereabouts(conn)) from error
            assert row is not None
            yield conn, row["name"], row["snapshot"]

    def _register(self) -> None:
        """The copy's consumer begins at the newest tick, on both sides.

        Before the snapshot is taken: whatever the snapshot does not see comes in a later batch.
        """
        source, node, queue = self._provider(), self._here(), self.job.queue
        if not batches.register_consumer(source, queue, self.consumer):
            # From an earlier attempt: what it would replay is in the new copy.
            newest = queues.get_queue_info(source, queue)[0].last_tick_id
            if newest is None:
                raise StateError(
                    f"queue {queue} has no tick yet", hint="start the ticker: londiste ticker"
                )
            batches.register_consumer_at(source, queue, self.consumer, newest)
        tick = queues.get_consumer_info(source, queue, self.consumer)[0].last_tick
        assert tick is not None
        provider = nodes.get_worker_state(node, queue).provider
        nodes.register_consumer(node, queue, self.consumer, provider, tick)

    def _source_table(self) -> TableName | None:
        """The table on the provider; None while the provider does not have all of it itself."""
        for found in tables.get_table_list(self._provider(), self.job.queue):
            if found.name == self.name:
                ready = found.local and sync.from_text(found.state) == sync.Ok()
                return found.dest if ready else None
        return None

    # -- catching-up, do-sync ----------------------------------------------

    def _catch_up(self, table: ReplicatedTable) -> None:
        """Replays batches until none is waiting and the copy's snapshot is spent."""
        if table.dropped_ddl:
            self._restore(table)
        runner, progress = self._runner()
        copied = Snapshot.parse(table.snapshot) if table.snapshot else None
        forced = False
        while not self.stopping():
            if self._replay(runner, table):
                crash.point("copy.mid-catch-up")
                if self._state() != table.state:
                    return
                continue
            tick = progress.tick()
            if sync.snapshot_spent(copied, self._tick_snapshot(tick)):
                self._move(table, CatchingUp(), Seen(By.COPY, tick=tick, caught_up=True))
                crash.point("copy.wanna-sync")
                return
            # Only a tick made after the copy sees everything that was copied.
            if not forced and self._is_root():
                queues.force_tick(self._provider(), self.job.queue)
                forced = True
            self._pause(_LOOK)
            if self._state() != table.state:
                return

    def _synchronise(self, table: ReplicatedTable, tick: int) -> None:
        """Replays up to the hand-over tick exactly; then the main worker has the table."""
        runner, progress = self._runner()
        while not self.stopping():
            seen = Seen(By.COPY, tick=progress.tick())
            if sync.next_state(DoSync(tick), seen) != DoSync(tick):
                crash.point("copy.before-ok")
                self._move(table, DoSync(tick), seen)
                crash.point("copy.after-ok")
                log.info("%s: in step from tick %d on", table.name, tick)
                return
            if not self._replay(runner, table):
                self._pause(_LOOK)
                if self._state() != table.state:
                    return

    def _replay(self, runner: BatchRunner, table: ReplicatedTable) -> bool:
        """One batch; False when none is there."""
        source = self._provider()
        batch = batches.next_batch(source, self.job.queue, self.consumer)
        if batch is None:
            return False
        runner.run(batch, Interest.copy(table))
        batches.finish_batch(source, batch.id)
        return True

    def _runner(self) -> tuple[BatchRunner, NodeProgress]:
        node = self._here()
        progress = NodeProgress(node, self.job.queue, self.consumer)
        name = nodes.get_worker_state(node, self.job.queue).name
        runner = BatchRunner(
            node=name,
            queue=self.job.queue,
            source=self._provider(),
            target=node,
            progress=progress,
        )
        return runner, progress

    def _move(self, table: ReplicatedTable, now: sync.SyncState, seen: Seen) -> None:
        after = sync.next_state(now, seen)
        moved = tables.move_table_state(
            self._here(),
            self.job.queue,
            table.name,
            sync.to_text(now),
            sync.to_text(after),
            None if after == sync.Ok() else table.snapshot,
        )
        if moved:
            log.info("%s: %s", table.name, sync.to_text(after))

    def _tick_snapshot(self, tick: int) -> Snapshot:
        seen = tick_snapshot(self._provider(), self.job.queue, tick)
        if seen is None:
            raise UnknownConsumer(
                f"tick {tick} of queue {self.job.queue} is gone from the provider",
                hint=f"copy the table again: londiste resync {self.name}",
            )
        return seen

    # -- connections -------------------------------------------------------

    def _table(self) -> ReplicatedTable | None:
        for found in tables.get_table_list(self._here(), self.job.queue):
            if found.name == self.name and found.local:
                return found
        return None

    def _state(self) -> str | None:
        table = self._table()
        return None if table is None else table.state

    def _is_root(self) -> bool:
        return nodes.is_root_node(self._provider(), self.job.queue)

    def _here(self) -> Connection:
        if self._node is None or self._node.closed:
            self._node = connect(
                self.job.db,
                name=self._session_name(),
                autocommit=True,
                replica=True,
                synchronous=True,
                lock_timeout_ms=self.job.lock_timeout_ms,
            )
            # A server that builds an index for a killed process shall notice, where it can.
            with contextlib.suppress(psycopg.Error):
                self._node.execute("set client_connection_check_interval = '1s'")
        return self._node

    def _provider(self) -> Connection:
        if self._source is None or self._source.closed:
            location = nodes.get_worker_state(self._here(), self.job.queue).provider_location
            self._provider_location = conninfo.make_conninfo(
                location, **conninfo.conninfo_to_dict(self.job.remote_extra)
            )
            self._source = connect(
                self._provider_location,
                name=self._session_name(),
                autocommit=True,
                lock_timeout_ms=self.job.lock_timeout_ms,
            )
        return self._source

    def _session_name(self) -> str:
        name = f"londiste copy {self.name}".encode()[:_SAFE_NAME_BYTES]
        return name.decode("utf-8", "ignore")

    def _pause(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not self.stopping() and time.monotonic() < deadline:
            time.sleep(min(0.1, seconds))
