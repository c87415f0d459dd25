"""The rows of one table, in one attempt: from ``in-copy`` to ``catching-up``.

The consumer is registered before the snapshot is taken, the snapshot is held until every chunk
is done, and state, snapshot and the end of the attempt are stored together.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

import psycopg
from psycopg.rows import dict_row

from londiste.cascade import nodes
from londiste.copy import attempts, steps
from londiste.copy.columns import Pairing, pair
from londiste.copy.control import get_copy_control
from londiste.copy.prepare import find, prepare
from londiste.copy.progress import all_done
from londiste.copy.sides import Sides, Stopping
from londiste.copy.split import split
from londiste.daemon import crash, logcontext
from londiste.db import catalog
from londiste.db.connection import Connection, session, whereabouts
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.engine.spec import ChunkDone, CopySpec
from londiste.errors import (
    LondisteError,
    StateError,
    Superseded,
    TransientError,
    UnknownTable,
    UsageError,
    from_database,
)
from londiste.pgq import batches, queues
from londiste.replication import sync, tables
from londiste.replication.sync import By, InCopy, Seen
from londiste.replication.types import ReplicatedTable

log = logging.getLogger(__name__)

#: Seconds between looks at a running copy: is it still wanted?
_WATCH = 0.5


class RowCopy:
    """Copies the rows of the table of ``sides``."""

    def __init__(self, sides: Sides) -> None:
        self.sides = sides
        self.job = sides.job

    def run(self, table: ReplicatedTable) -> None:
        """Everything from registering to catching-up; returns early while the provider is not ok.

        Raises Superseded when the table is not to be copied any more, Stopping, and whatever
        went wrong on either side; nothing of the attempt runs any more then.
        """
        source_name = self._source_table()
        if source_name is None:
            log.info("%s: waiting until the provider has it", table.name)
            self.sides.pause(self.job.delay)
            return
        if get_copy_control(self.sides.here, self.job.queue).paused:
            # Nothing is held on the source for a copy that may not begin.
            self.sides.pause(_WATCH)
            return
        self._register()
        crash.point("copy.registered")
        node = self.sides.here
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
            steps.copy_step_start(node, self.job.queue, table.name, steps.LOAD)
            attempt = prepare(node, self.job.queue, table, chunks)
            crash.point("copy.prepared")
            spec = CopySpec(
                queue=self.job.queue,
                source=self.sides.location,
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

    def _copied(self, table: ReplicatedTable, attempt: int, snapshot: str) -> None:
        """All rows are here: the state says so from now on, and a crash copies them no more."""
        node = self.sides.here
        after = sync.next_state(InCopy(), Seen(By.COPY, copied=True))
        with node.transaction():
            tally = all_done(node, self.job.queue, table.name, attempt)
            steps.copy_step_end(node, self.job.queue, table.name, steps.LOAD, tally)
            if not attempts.copy_end(node, self.job.queue, table.name, attempt):
                raise Superseded(f"copy {attempt} of {table.name} is superseded")
            if not tables.move_table_state(
                node, self.job.queue, table.name, "in-copy", sync.to_text(after), snapshot
            ):
                raise Superseded(f"table {table.name} is not to be copied any more")

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

        worker = threading.Thread(
            target=logcontext.carried(work), name=f"copy of {table.name}", daemon=True
        )
        worker.start()
        while worker.is_alive():
            worker.join(_WATCH)
            reason = self._unwanted(spec, table) if worker.is_alive() else None
            if reason is not None:
                self._abandon(spec, table)
                worker.join(10)
                raise reason
        if failure:
            # When that fails too, the next attempt ends the tasks.
            with contextlib.suppress(LondisteError):
                self._abandon(spec, table)
            raise failure[0]
        rows, size = sum(done.rows for done in result), sum(done.bytes for done in result)
        seconds = max(time.monotonic() - started, 0.001)
        log.info("%s: %d rows copied, %.1f MB in %.1f s", table.name, rows, size / 1e6, seconds)

    def _unwanted(self, spec: CopySpec, table: ReplicatedTable) -> LondisteError | None:
        if self.sides.stopping():
            return Stopping("the copy process ends")
        node = self.sides.here
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
        if not ours and catalog.info(node, table.dest) is None:
            raise UnknownTable(
                f"table {table.dest} does not exist here",
                hint="create it; the copy begins by itself then",
            )
        same = source.info.server_version // 10000 == node.info.server_version // 10000
        found = pair(table.name, theirs, ours, same_version=same)
        if not found.pairs:
            raise UsageError(
                f"table {table.name} has no column that table {table.dest} here has",
                hint="make the two definitions fit; the copy begins by itself then",
            )
        for warning in found.warnings:
            log.warning("%s", warning)
        return found

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[tuple[Connection, str, str]]:
        """A transaction on the provider whose snapshot the tasks share.

        Gives its session, the snapshot's name, and what it sees as text.
        """
        with session(
            self.sides.location,
            name=self.sides.session_name,
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
        source, node, queue = self.sides.provider, self.sides.here, self.job.queue
        if not batches.register_consumer(source, queue, self.sides.consumer):
            # From an earlier attempt: what it would replay is in the new copy.
            newest = queues.get_queue_info(source, queue)[0].last_tick_id
            if newest is None:
                raise StateError(
                    f"queue {queue} has no tick yet", hint="start the ticker: londiste ticker"
                )
            batches.register_consumer_at(source, queue, self.sides.consumer, newest)
        tick = queues.get_consumer_info(source, queue, self.sides.consumer)[0].last_tick
        assert tick is not None
        provider = nodes.get_worker_state(node, queue).provider
        nodes.register_consumer(node, queue, self.sides.consumer, provider, tick)

    def _source_table(self) -> TableName | None:
        """The table on the provider; None while the provider does not have all of it itself."""
        for found in tables.get_table_list(self.sides.provider, self.job.queue):
            if found.name == self.sides.name:
                ready = found.local and sync.from_text(found.state) == sync.Ok()
                return found.dest if ready else None
        return None
