"""Writes parts of a batch into this node's tables."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

import psycopg

from londiste.applier.applier import AfterWrite, Applier, StaleShapes
from londiste.applier.plan import TableChange
from londiste.changes.decode import decode_all
from londiste.changes.types import ExecuteScript, SystemEvent, Truncate
from londiste.daemon import crash
from londiste.db.connection import Connection, keep_role
from londiste.db.names import TableName
from londiste.db.queries import query
from londiste.db.relation import Relation
from londiste.errors import ApplyError, EventError, TransientError
from londiste.handlers.event_actions import At
from londiste.pgq.types import Batch, Event
from londiste.replication import renamed_tables
from londiste.replication.apply.accumulator import BatchPart
from londiste.replication.apply.control_messages import SystemEvents
from londiste.replication.apply.relation_cache import RelationCache
from londiste.replication.apply.routing import (
    Pending,
    Route,
    RoutingTable,
    missing_table,
    plan,
    plan_folded,
    replaced_table,
)
from londiste.replication.forwarding import combined_queue
from londiste.replication.tablesync.states import By

log = logging.getLogger(__name__)


def point(name: str, interest: RoutingTable) -> None:
    """A crash point for tests; the copy process has its own."""
    if interest.by is By.MAIN:
        crash.point(name)


class BatchTransaction:
    """The transaction of a batch; the first statement opens it, ``stack`` ends it."""

    def __init__(self, conn: Connection, stack: contextlib.ExitStack) -> None:
        self._conn = conn
        self._stack = stack
        self._open = False

    def begin(self) -> None:
        """Opens the transaction, if it is not open; it may start inside a pipeline and outlive
        it.
        """
        if not self._open:
            self._open = True
            # conn.transaction() would keep the pipeline open until the end of the transaction, and
            # then nobody learns from a statement how many rows it hit, or that it was refused.
            self._stack.enter_context(psycopg.Transaction(self._conn))
            keep_role(self._conn)

    def roll_back(self) -> None:
        """Ends the block of ``stack`` here, without a commit."""
        if self._open:
            raise psycopg.Rollback


class PartWriter:
    """Writes parts of batches: tables, events of handlers, messages of the cascade.

    node, queue -- of this consumer, for messages.
    target -- session with the replica role.
    system -- follows the messages of the cascade; None ignores them.
    flush_bytes -- estimated bytes of decoded changes that are kept before they are written.
    """

    def __init__(
        self,
        target: Connection,
        applier: Applier,
        shapes: RelationCache,
        *,
        node: str,
        queue: str,
        system: SystemEvents | None,
        flush_bytes: int,
    ) -> None:
        self.target = target
        self.node = node
        self.queue = queue
        self.system = system
        self.flush_bytes = flush_bytes
        self._applier = applier
        self._shapes = shapes
        #: The tables that this transaction writes here; those that others write, with their oids.
        self._written: set[TableName] = set()
        self._merged: Mapping[TableName, int] = {}

    def begin(self) -> None:
        """Starts a transaction."""
        self._applier.begin()
        self._written.clear()
        self._merged = {}

    def merges(self, tables: Iterable[TableName]) -> None:
        """Notes tables that may be written in this transaction by others, as they were read."""
        self._merged = self._shapes.oids(tables)

    def confirming(self) -> Callable[[], None]:
        """After the last write, in the caller's pipeline; the result is called after it.

        Between the look at a table and the write, which locks it, its name may have become that of
        another one.  By now all are locked.  The result raises TransientError.
        """
        oids = {**self._merged, **self._shapes.oids(self._written)}
        if not oids:
            return lambda: None
        parameters = {
            "oids": list(oids.values()),
            "schemas": [table.schema for table in oids],
            "names": [table.name for table in oids],
        }
        cursor = self.target.execute(query("names_of_others"), parameters)

        def check() -> None:
            row = cursor.fetchone()
            if row is not None and row[0]:
                raise TransientError(
                    f"{self.node}: tables were renamed while the batch was applied:"
                    f" {', '.join(row[0])}",
                    hint="a daemon applies the batch again; after --once, repeat the command",
                )

        return check

    def find(self, table: TableName) -> Relation | None:
        """The schema of a table of this node; ``missing`` says why there is none."""
        return self._shapes.of([table]).get(table)

    def missing(self, number: int, source: TableName, dest: TableName) -> EventError:
        """The error for an event whose table this node does not have, or has as another one."""
        copied = self._shapes.replaced.get(dest)
        if copied is not None:
            return replaced_table(number, source, dest, copied, node=self.node, queue=self.queue)
        renamed = renamed_tables.find(self.target, self.queue).get(source)
        return missing_table(number, source, dest, node=self.node, renamed=renamed)

    def write(
        self,
        part: BatchPart,
        transaction: BatchTransaction,
        batch: Batch,
        also: AfterWrite | None = None,
    ) -> None:
        """Writes a part of a batch and runs ``also``, in the same round trip if possible."""
        if part.messages:
            transaction.begin()
        for event in part.messages:
            if (event.id, 0) not in part.interest.skips.rows:
                self._follow(event)
        if part.handed:
            transaction.begin()
            self._hand(part, batch)
        self._written.update(part.folds)
        shapes = self._shapes.remembered(part.folds)
        try:
            # Nearly always the tables are what they were: the database is asked as it writes.
            if shapes is not None and self._try(part, transaction, also, shapes, verify=True):
                self._shapes.checked(part.folds)
                return
        except StaleShapes as stale:
            log.debug("changed: %s", stale)
            self._shapes.stale(stale.tables)
        transaction.begin()
        self._try(part, transaction, also, self._shapes.of(part.folds), verify=False)

    def _hand(self, part: BatchPart, batch: Batch) -> None:
        """Passes events to the handlers of their tables."""

        def write(changes: Iterable[tuple[TableName, TableChange]]) -> None:
            pending = Pending()
            for dest, change in changes:
                pending.add(dest, change)
                if pending.bytes >= self.flush_bytes:
                    self._write_pending(pending, route)
            self._write_pending(pending, route)

        for route, events in part.work():
            assert route.wants.events is not None
            tick = batch.tick_id, batch.tick_time
            skips = part.interest.skips.rows
            at = At(self.target, self.queue, *tick, route.dest, write, skips)
            try:
                route.wants.events.work(at, events)
            except EventError as error:
                found = error.finding or ApplyError()
                if not found.dest:
                    names = str(route.source), str(route.dest)
                    error.finding = replace(found, table=names[0], dest=names[1])
                raise
        point("worker.mid-apply", part.interest)

    def _write_pending(self, pending: Pending, route: Route) -> None:
        """Writes changes of a handler; other tables than its own may be parts of that."""
        if not pending.changes:
            return
        shapes = self._shapes.of({*pending.changes, route.dest})
        if route.dest in self._shapes.replaced:
            first = min(change.event_id for some in pending.changes.values() for change in some)
            raise self.missing(first, route.source, route.dest)
        self._written.update({route.dest} & pending.changes.keys())
        self._applier.apply(plan(pending.changes, shapes, node=self.node), more=True)
        pending.clear()

    def _try(
        self,
        part: BatchPart,
        transaction: BatchTransaction,
        also: AfterWrite | None,
        known: Mapping[TableName, Relation],
        *,
        verify: bool,
    ) -> bool:
        """Writes the part; False when schemas have to be verified first.

        Raises StaleShapes if the shapes have to be verified.
        """
        plans, slow = [], []
        for dest, folded in part.folds.items():
            shape = known.get(dest)
            if shape is None:
                number, source = part.first[dest]
                raise self.missing(number, source, dest)
            planned = plan_folded(folded, shape)
            if planned is None or (folded.truncated and self._is_shared(part, dest)):
                slow.append(dest)
            else:
                plans.append(planned)
        if slow and verify:
            return False
        quick = {one.shape.name for one in plans}
        self._applier.apply(
            plans,
            lambda: ((known[dest], change) for dest, change in part.changes(quick)),
            also=also if not slow else None,
            begin=transaction.begin,
            verify=verify,
            more=bool(slow) or also is None,
        )
        if slow:
            self._write_decoded(part, slow, known)
            if also is not None:
                self._applier.apply([], also=also)
        if part.applied:
            point("worker.mid-apply", part.interest)
        return True

    def _is_shared(self, part: BatchPart, dest: TableName) -> bool:
        """Whether other queues fill the table too, so that a TRUNCATE needs a check."""
        source = part.first[dest][1]
        return bool(combined_queue.others_filling(self.target, self.queue, source, dest))

    def _write_decoded(
        self, part: BatchPart, tables: Collection[TableName], known: Mapping[TableName, Relation]
    ) -> None:
        """Writes tables whose events have to be decoded, in portions that fit into memory."""
        pending = Pending()
        for dest, change in part.changes(tables):
            if isinstance(change, Truncate):
                combined_queue.refuse_truncate(self.target, self.queue, change, dest)
            pending.add(dest, change)
            if pending.bytes >= self.flush_bytes:
                self._applier.apply(plan(pending.changes, known, node=self.node), more=True)
                pending.clear()
        self._applier.apply(plan(pending.changes, known, node=self.node), more=True)

    def _follow(self, event: Event) -> None:
        if self.system is None:
            return
        (change,) = decode_all(event)
        if isinstance(change, ExecuteScript):
            raise EventError(
                f"event {event.id}: this version does not run script {change.name}",
                hint="install the sender's version of the program on this node too",
                event_id=event.id,
            )
        if isinstance(change, SystemEvent):
            self.system.follow(change)
