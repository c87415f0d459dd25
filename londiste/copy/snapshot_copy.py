"""Load of one table's rows, from ``in-copy`` to ``catching-up``: mode choice and snapshot copy.

In the snapshot copy the consumer is registered before the snapshot is taken, the snapshot is held
until every chunk is done, and state, snapshot and the end of the attempt are stored together.
The other mode is in ``resumable_copy``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from londiste.copy import setup, step_timings
from londiste.copy.chunking import runner
from londiste.copy.chunking.blocks import count_chunks, split
from londiste.copy.chunking.source_snapshot import exported_snapshot
from londiste.copy.columns import Pairing
from londiste.copy.mode import CACHED, RESUMABLE, CopyMode, ModeFacts, choose, reads_by_key
from londiste.copy.prepare import is_tree, key_index, prepare
from londiste.copy.progress import all_done
from londiste.copy.resumable_copy import ResumableCopy
from londiste.copy.sessions import CopySessions
from londiste.copy.sqlapi import attempts
from londiste.copy.sqlapi.control import get_copy_control
from londiste.daemon import crash
from londiste.db import catalog, table_fingerprint
from londiste.db.catalog import Column, TableInfo
from londiste.db.connection import Connection
from londiste.db.ddl import NOT_UNIQUE
from londiste.db.names import TableName
from londiste.db.queries import tuples
from londiste.db.table_fingerprint import Fingerprint
from londiste.engine.spec import CopySpec
from londiste.errors import (
    InstallError,
    LockTimeout,
    LondisteError,
    NoKey,
    PartialEvent,
    StateError,
    TableChanged,
)
from londiste.handlers.placing import CopiedRows
from londiste.replication.model import ReplicatedTable, copy_mode, most_parts
from londiste.replication.tablesync import copied_rows, missing_partitions

log = logging.getLogger(__name__)


class SnapshotCopy:
    """Copies the rows of one table, in the mode that fits it."""

    def __init__(self, sides: CopySessions) -> None:
        self.sides = sides
        self.job = sides.job

    def run(self, table: ReplicatedTable) -> None:
        """Registers the consumer, copies all rows and moves the table to catching-up.

        Returns early while the provider is not ok, and when the mode has to change.

        Raises Superseded when the copy is no longer requested, Stopping, and errors of either
        side; no task of the attempt runs any more then.
        """
        try:
            source_name = setup.source_table(self.sides)
        except StateError:
            if self.sides.registered_at() is None:
                # The error is stored with the consumer.
                setup.register(self.sides)
            raise
        if source_name is None:
            log.info("table %s: waiting until the provider has copied it", table.name)
            self.sides.pause(self.job.delay)
            return
        if table.copy_role is not None and table.copy_pos >= most_parts(table):
            # Parts of other queues are copied first.
            self.sides.pause(runner.WATCH)
            return
        if get_copy_control(self.sides.here, self.job.queue).paused:
            # A paused copy holds nothing on the source.
            self.sides.pause(runner.WATCH)
            return
        choices = attempts.copy_choices(self.sides.here, self.job.queue)
        choice = choices.get(str(table.name))
        refused = choice.reason if choice is not None and choice.refused else ""
        resumable = ResumableCopy(self.sides, source_name)
        try:
            if not refused and resumable.go_on(table):
                return
            setup.register(self.sides)
            crash.point("copy.registered")
            setup.require_captured(self.sides, source_name)
            missing_partitions.require(
                self.sides.provider,
                source_name,
                self.sides.here,
                table,
                "the copy then restarts automatically",
            )
            theirs = catalog.columns(self.sides.provider, source_name)
            mode = self._choose(table, source_name, theirs, refused)
            attempts.copy_choose(
                self.sides.here,
                self.job.queue,
                table.name,
                mode.mode,
                mode.reason,
                refused=bool(refused),
            )
            log.info("table %s: copy mode %s: %s", table.name, mode.mode, mode.reason)
            if mode.mode == RESUMABLE:
                resumable.begin(table)
            else:
                self._in_one_snapshot(table, source_name)
        except (PartialEvent, NoKey) as error:
            if copy_mode(table) == RESUMABLE:
                raise
            log.warning("table %s: copied again in one snapshot: %s", table.name, error)
            attempts.copy_choose(
                self.sides.here,
                self.job.queue,
                table.name,
                RESUMABLE,
                error.message,
                refused=True,
            )

    def _choose(
        self, table: ReplicatedTable, source_name: TableName, theirs: list[Column], refused: str
    ) -> CopyMode:
        provider, node, wanted = self.sides.provider, self.sides.here, copy_mode(table)
        info = catalog.require(provider, source_name)
        size = info.total_bytes
        facts = ModeFacts(str(table.name), wanted, size, self.job.resumable_from)
        if wanted != RESUMABLE and size < self.job.resumable_from:
            return choose(facts)
        key = catalog.key(provider, source_name)
        here = {column.name for column in catalog.columns(node, table.dest) if not column.generated}
        indexed = key_index(catalog.indexes(node, table.dest), key) is not None
        return choose(
            ModeFacts(
                str(table.name),
                wanted,
                size,
                self.job.resumable_from,
                key=key,
                # Indexes that an earlier attempt dropped come back first; ``prepare`` checks again.
                key_here=here >= set(key) and (indexed or bool(table.dropped_ddl)),
                keeps_rows="skip_truncate" in table.attrs,
                shared=table.copy_role is not None,
                obstacle=self._obstacle(source_name),
                missing=tuple(c.name for c in theirs if c.generated and c.name in here),
                refused=refused or ("its handler takes every event" if table.wants.events else ""),
                reads=self._reads(info, key),
            )
        )

    def _reads(self, info: TableInfo, key: Sequence[str]) -> float:
        if not key or info.total_bytes < CACHED:
            return 1.0
        return reads_by_key(
            size=info.total_bytes,
            pages=info.pages,
            rows=info.rows_estimate,
            chunks=count_chunks(info.pages, info.total_bytes, self.job.chunk_bytes),
            correlation=catalog.correlation(self.sides.provider, info.name, key[0]),
        )

    def _obstacle(self, source_name: TableName) -> str:
        try:
            return attempts.copy_obstacle(self.sides.provider, self.job.queue, source_name)
        except InstallError:
            return "the provider's SQL is older and does not report how the table is captured"

    def _in_one_snapshot(self, table: ReplicatedTable, source_name: TableName) -> None:
        node = self.sides.here
        with exported_snapshot(self.sides) as source:
            holder = source.conn
            rows = CopiedRows(
                table.dest, catalog.key(holder, source_name), *tuples(holder, "now")[0]
            )
            theirs = catalog.columns(holder, source_name)
            pairing = setup.pairing(self.sides, table, source_name, theirs, holder)
            shape = self._shape(holder, source_name, [source for source, _ in pairing.pairs])
            info = catalog.require(holder, source_name)
            pieces = split(
                source_name,
                pages=info.pages,
                total_bytes=info.total_bytes,
                rows=info.rows_estimate,
                leaves=info.leaf_pages,
                chunk_bytes=self.job.chunk_bytes,
                parallel=self.job.parallel,
            )
            self._make_ahead(table, rows, info, pairing)
            step_timings.copy_step_start(node, self.job.queue, table.name, step_timings.LOAD)
            target_mark: Fingerprint | None = None

            def also(attempt: int, key_ddl: str) -> None:
                nonlocal target_mark
                target_mark = table_fingerprint.mark(node, table.dest)

            attempt = prepare(node, self.job.queue, table, pieces, also=also)
            crash.point("copy.prepared")
            spec = CopySpec(
                queue=self.job.queue,
                source=source.location,
                target=self.job.db,
                source_table=source_name,
                target_table=table.dest,
                columns=pairing.pairs,
                chunks=pieces,
                snapshot=source.name,
                attempt=attempt,
                binary=pairing.binary and table.wants.rows is None,
                where=table.wants.where,
                rows=table.wants.rows,
                keeps=None if table.wants.all_columns else table.wants.keeps,
                table_name=str(table.name),
                filenode=info.filenode,
                target_mark=target_mark,
                source_shape=shape,
                source_tree=info.tree,
                target_tree=target_mark is not None and target_mark.tree,
                answer_seconds=self.job.answer_seconds,
            )
            log.info(
                "table %s: copy %d starts, %.1f MB in %d chunks",
                table.name,
                attempt,
                info.total_bytes / 1e6,
                len(pieces),
            )
            try:
                runner.run(self.sides, spec, table, keep=False)
            except LondisteError as error:
                if error.sqlstate in NOT_UNIQUE and "skip_truncate" in table.attrs:
                    error.hint = (
                        f"delete the rows of {table.name} from {table.dest} on this node, in a"
                        " session with: set session_replication_role = replica; the copy then"
                        " restarts automatically"
                    )
                raise
        crash.point("copy.all-chunks")
        self._end(table, attempt, source.seen, rows)
        crash.point("copy.catching-up")

    def _make_ahead(
        self, table: ReplicatedTable, rows: CopiedRows, source: TableInfo, pairing: Pairing
    ) -> None:
        """Creates the partitions that a partitioned table needs before rows are loaded."""
        events = table.wants.events
        if events is None or not is_tree(self.sides.here, table.dest):
            return
        placing = events.placing(rows)
        theirs = {here: there for there, here in pairing.pairs}
        if placing is not None and placing.column in theirs:
            column = theirs[placing.column]
            placing.make_ahead(self.sides.here, self.sides.provider, source, column)

    def _end(self, table: ReplicatedTable, attempt: int, seen: str, rows: CopiedRows) -> None:
        """Ends the load, with the rows where the table's handler looks for them."""
        node, events = self.sides.here, table.wants.events
        if "skip_truncate" in table.attrs:
            rows = replace(rows, by=tuple(copied_rows.written(node, self.job.queue, table.name)))
        placing = None if events is None else events.placing(rows)
        if placing is None:
            setup.copied(self.sides, table, attempt, seen)
            return
        if is_tree(node, table.dest):
            # It has given each row to its partition itself.
            parts = placing.parts
            setup.copied(
                self.sides, table, attempt, seen, lambda conn: parts.drop_old(conn, table.dest)
            )
            return
        step = (self.job.queue, table.name, step_timings.PARTITIONS)
        tally = all_done(node, self.job.queue, table.name, attempt)
        step_timings.copy_step_end(node, self.job.queue, table.name, step_timings.LOAD, tally)
        step_timings.copy_step_start(node, *step)
        placing.make_partitions(node)

        def place(conn: Connection) -> None:
            moved = placing.move(conn)
            step_timings.copy_step_end(conn, *step, step_timings.Tally(rows=moved))
            crash.point("copy.placed")

        while True:
            try:
                setup.copied(self.sides, table, attempt, seen, place)
            except LockTimeout as error:
                # Otherwise all rows would be copied again.
                log.warning("table %s: waits to move its copied rows: %s", table.name, error)
                self.sides.pause(runner.WATCH)
                reason = runner.unwanted(self.sides, table, attempt)
                if reason is not None:
                    raise reason from error
            else:
                return

    def _shape(
        self, holder: Connection, name: TableName, columns: list[str]
    ) -> table_fingerprint.Shape:
        """The definition that tasks must find; the table as the snapshot shows it.

        Read in another session, which leaves no lock: the session that holds the snapshot must not
        block ALTER TABLE, and all writers after it, for as long as the copy takes.

        Raises TableChanged when the table was changed since the snapshot was taken.
        """
        now = self.sides.provider
        then = table_fingerprint.mark(holder, name)
        shape = table_fingerprint.shape(now, name, columns)
        reason = (
            ""
            if then is None
            else table_fingerprint.changed(then, table_fingerprint.mark(now, name), columns)
        )
        if reason:
            raise TableChanged(
                f"table {name}: changed while its copy started",
                detail=f"on the source: {reason}",
                hint="wait: the copy restarts automatically",
            )
        return shape
