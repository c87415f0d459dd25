"""Resumable copy: key ranges, each in a short snapshot of its own.

    plan        ranges, pairs of columns and table fingerprints, stored with the attempt
    chunks      each with its done-mark and the snapshot it has seen
    key         the unique index by which rows are found; all other indexes wait
    states      events since before the first chunk, as states of rows, past the last snapshot
    consistent  the table equals the source at a tick: catching-up

Until the last step the table has a state that the source never had: a row whose key changed may
be there twice, and unique values may collide.  Replaying by states repairs that, because an event
contains what the row is, whatever a chunk has copied.  Every step finds its progress in the
database, so any process, on any machine, can resume it.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from londiste.cascade import sqlapi as nodes
from londiste.copy import setup, step_timings
from londiste.copy.catchup import Replay, ask_for_tick
from londiste.copy.chunking import runner
from londiste.copy.chunking.key_ranges import open_end_first, split_by_key
from londiste.copy.prepare import find, prepare
from londiste.copy.progress import all_done
from londiste.copy.restore import build_key
from londiste.copy.sessions import CopySessions, Stopping
from londiste.copy.sqlapi import attempts
from londiste.copy.sqlapi.attempts import CopiedRange, Stored
from londiste.copy.step_timings import Tally
from londiste.daemon import crash
from londiste.db import catalog, table_fingerprint
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.queries import query, translated
from londiste.db.snapshot import Snapshot
from londiste.db.table_fingerprint import Fingerprint
from londiste.engine.spec import Chunk, CopySpec
from londiste.engine.tasks import difference
from londiste.errors import Superseded
from londiste.pgq import queues
from londiste.replication.apply.routing import RoutingTable, Upsert
from londiste.replication.model import ReplicatedTable
from londiste.replication.tablesync import states

log = logging.getLogger(__name__)

#: Seconds between polls for a batch.
_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class ResumablePlan:
    """What a process needs to resume a copy, and must find unchanged.

    provider -- name of the node that is copied from.
    key -- columns by which events find rows; key_ddl -- creates their index, '' if it exists.
    seen -- a snapshot of the source from before the first chunk: what transactions that it sees
        have done is in the chunks, and their events are not replayed.
    source_mark, target_mark -- the tables as they were paired.
    where -- which rows are copied, '' for all.
    """

    provider: str
    source: TableName
    target: TableName
    columns: tuple[tuple[str, str], ...]
    binary: bool
    key: tuple[str, ...]
    key_ddl: str
    seen: str
    source_mark: Fingerprint
    target_mark: Fingerprint
    where: str = ""

    def as_json(self) -> dict[str, Any]:
        """For ``londiste.copy_plan``."""
        data: dict[str, Any] = _PLAN.dump_python(self, mode="json")
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ResumablePlan:
        """Reads ``as_json``."""
        return _PLAN.validate_python(data)


_PLAN = TypeAdapter(ResumablePlan)


class ResumableCopy:
    """Copies the table of ``sides`` from ``source_name`` on the provider."""

    def __init__(self, sides: CopySessions, source_name: TableName) -> None:
        self._sides = sides
        self._source_name = source_name

    def go_on(self, table: ReplicatedTable) -> bool:
        """Finishes an interrupted attempt.  Returns False when there is none that can be resumed.

        Raises what ``SnapshotCopy.run`` does, and PartialEvent.
        """
        sides = self._sides
        stored = attempts.copy_go_on(sides.here, sides.queue, table.name)
        if stored is None:
            return False
        plan = ResumablePlan.from_json(stored.plan)
        ranges = attempts.copy_ranges(sides.here, sides.queue, table.name, stored.attempt)
        reason = self._outdated(table, plan, stored, ranges)
        if reason:
            log.warning("table %s: copy %d starts over: %s", table.name, stored.attempt, reason)
            return False
        # Tasks that have outlived their process are harmless, but would be waited for.
        attempts.end_leftovers(sides.here, sides.queue, table.name)
        done = sum(one.done for one in ranges)
        log.info(
            "table %s: copy %d resumes, %d of %d chunks are done",
            table.name,
            stored.attempt,
            done,
            len(ranges),
        )
        self._finish(table, stored.attempt, plan, ranges)
        return True

    def begin(self, table: ReplicatedTable) -> None:
        """Starts a new attempt, from the key ranges on; the consumer is registered.

        Raises NoKey besides what ``go_on`` does.
        """
        sides, name = self._sides, self._source_name
        source, node = sides.provider, sides.here
        # In this order: whatever ALTER TABLE does from here on is noticed, and what it has done
        # before, no event of older rows undoes.
        source_mark = table_fingerprint.mark(source, name)
        seen = current_snapshot(source)
        info = catalog.require(source, name)
        theirs = catalog.columns(source, name)
        key = catalog.key(source, name)
        pairing = setup.pairing(sides, table, name, theirs, source)
        by_name = {column.name: column for column in theirs}
        pieces = split_by_key(
            source,
            info,
            [by_name[k] for k in key],
            chunk_bytes=sides.job.chunk_bytes,
            parallel=sides.job.parallel,
        )
        provider = sides.source_node

        def store(attempt: int, key_ddl: str) -> None:
            target_mark = table_fingerprint.mark(node, table.dest)
            if source_mark is None or target_mark is None:
                raise Superseded(f"table {table.name}: dropped while its copy started")
            plan = ResumablePlan(
                provider=provider,
                source=name,
                target=table.dest,
                columns=pairing.pairs,
                binary=pairing.binary,
                key=key,
                key_ddl=key_ddl,
                seen=seen,
                source_mark=source_mark,
                target_mark=target_mark,
                where=table.wants.where,
            )
            attempts.copy_plan(node, sides.queue, table.name, attempt, plan.as_json(), pieces)

        step_timings.copy_step_start(node, sides.queue, table.name, step_timings.LOAD)
        attempt = prepare(node, sides.queue, table, pieces, key=key, also=store)
        crash.point("copy.prepared")
        log.info(
            "table %s: copy %d starts, %.1f MB in %d key ranges",
            table.name,
            attempt,
            info.total_bytes / 1e6,
            len(pieces),
        )
        stored = attempts.copy_go_on(node, sides.queue, table.name)
        if stored is None or stored.attempt != attempt:
            raise Superseded(f"table {table.name}: copy {attempt} is superseded")
        ranges = attempts.copy_ranges(node, sides.queue, table.name, attempt)
        self._finish(table, attempt, ResumablePlan.from_json(stored.plan), ranges)

    # -- steps -------------------------------------------------------------------------------

    def _finish(
        self,
        table: ReplicatedTable,
        attempt: int,
        plan: ResumablePlan,
        ranges: Sequence[CopiedRange],
    ) -> None:
        sides = self._sides
        if not all(one.done for one in ranges):
            runner.run(sides, self._spec(table, attempt, plan, ranges), table, keep=True)
            ranges = attempts.copy_ranges(sides.here, sides.queue, table.name, attempt)
        if not ranges or not all(one.done for one in ranges):
            raise Superseded(f"table {table.name}: copy {attempt} is superseded")
        crash.point("copy.all-chunks")
        # The tick that sees all chunks is made while the key is built.
        ask_for_tick(sides)
        node, name = sides.here, table.name
        with node.transaction():
            tally = all_done(node, sides.queue, name, attempt)
            step_timings.copy_step_end(node, sides.queue, name, step_timings.LOAD, tally)
        now = find(node, sides.queue, table)
        if plan.key_ddl and now is not None and (now.dropped_ddl or "").startswith(plan.key_ddl):
            with (
                sides.job.builds.place(sides.stopping) as admitted,
                step_timings.step(node, sides.queue, name, step_timings.KEY),
            ):
                if not admitted:
                    raise Stopping("the copy process is stopping")
                build_key(node, sides.queue, table, plan.key_ddl)
        crash.point("copy.key-built")
        with step_timings.step(node, sides.queue, name, step_timings.STATES) as tally:
            self._replay(table, attempt, plan, newest(ranges), tally)
        crash.point("copy.consistent")
        setup.copied(sides, table, attempt, None)
        crash.point("copy.catching-up")

    def _replay(
        self,
        table: ReplicatedTable,
        attempt: int,
        plan: ResumablePlan,
        last: Snapshot,
        tally: Tally,
    ) -> None:
        """Replays by states until the table is at a tick that has seen what every chunk has."""
        interest = RoutingTable.states(
            table,
            Upsert(plan.key, frozenset(source for source, _ in plan.columns)),
            Snapshot.parse(plan.seen),
        )
        with contextlib.closing(Replay(self._sides, tally)) as replay:
            while not states.snapshot_spent(last, replay.seen()):
                batch = replay.next(interest)
                if batch is not None:
                    crash.point("copy.mid-states")
                reason = runner.unwanted(self._sides, table, attempt)
                if reason is not None:
                    raise reason
                if batch is None:
                    replay.ask_for_tick()
                    replay.wait(_POLL_SECONDS)

    def _spec(
        self,
        table: ReplicatedTable,
        attempt: int,
        plan: ResumablePlan,
        ranges: Sequence[CopiedRange],
    ) -> CopySpec:
        todo = [
            Chunk(plan.source, one.chunk, one.condition, one.bytes, one.rows)
            for one in ranges
            if not one.done
        ]
        return CopySpec(
            queue=self._sides.queue,
            source=self._sides.location,
            target=self._sides.job.db,
            source_table=plan.source,
            target_table=plan.target,
            columns=plan.columns,
            chunks=open_end_first(todo, len(ranges) - 1),
            snapshot="",
            attempt=attempt,
            binary=plan.binary and table.wants.rows is None,
            where=plan.where,
            rows=table.wants.rows,
            keeps=None if table.wants.all_columns else table.wants.keeps,
            table_name=str(table.name),
            source_mark=plan.source_mark,
            target_mark=plan.target_mark,
            source_tree=plan.source_mark.tree,
            target_tree=plan.target_mark.tree,
            answer_seconds=self._sides.job.answer_seconds,
        )

    def _outdated(
        self,
        table: ReplicatedTable,
        plan: ResumablePlan,
        stored: Stored,
        ranges: Sequence[CopiedRange],
    ) -> str:
        """Why an attempt cannot be resumed; '' if it can."""
        sides = self._sides
        provider = sides.source_node
        if provider != plan.provider:
            return f"its provider was node {plan.provider}, it is {provider} now"
        if (plan.source, plan.target) != (self._source_name, table.dest):
            return "the table was renamed"
        if plan.where != table.wants.where:
            return "the row filter was changed"
        here = [
            c for c in nodes.get_consumer_info(sides.here, sides.queue) if c.name == sides.consumer
        ]
        there = queues.get_consumer_info(sides.provider, sides.queue)
        there = [c for c in there if c.consumer_name == sides.consumer]
        if not here or not there or (there[0].last_tick or 0) > here[0].last_tick:
            return f"consumer {sides.consumer} was unregistered, or registered again"
        if all(one.done for one in ranges):
            return ""
        return difference(
            sides.provider, sides.here, self._spec(table, stored.attempt, plan, ranges)
        )


def current_snapshot(conn: Connection) -> str:
    """The snapshot of a transaction that starts now, as text."""
    with translated(conn):
        row = conn.execute(query("current_snapshot")).fetchone()
    assert row is not None
    return str(row[0])


def newest(ranges: Sequence[CopiedRange]) -> Snapshot:
    """The latest of the snapshots that chunks have seen; it sees what all the others do."""
    seen = [Snapshot.parse(one.snapshot) for one in ranges if one.snapshot]
    return max(seen, key=lambda snapshot: (snapshot.xmax, -len(snapshot.xip)))
