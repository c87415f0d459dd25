"""Leaf of a partition queue that feeds a combined queue.

    combined queue here    the leaf's worker
    root                   applies its batches, and forwards the applied events (``handed``)
    branch                 waits: the rows come through the combined queue, with their position;
                           up to there it follows the messages of its own queue (``MergeLag``)

When root and branch change places, the positions are equal on both sides, and the waiting worker
starts to apply, after the messages that it has not followed yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from londiste.cascade import create_hint
from londiste.cascade.model import WorkerState
from londiste.changes.decode import decode_all
from londiste.changes.kinds import is_message, is_truncate
from londiste.changes.types import SystemEvent, Truncate
from londiste.db.connection import Connection
from londiste.db.copy import unescaped
from londiste.db.names import TableName, argument
from londiste.db.queries import tuples
from londiste.errors import ApplyError, EventError, StateError
from londiste.pgq import batches, queues
from londiste.pgq.batches import Opened
from londiste.pgq.blocks import EventBlock
from londiste.replication.apply import errors
from londiste.replication.apply.accumulator import LARGE
from londiste.replication.apply.control_messages import SystemEvents
from londiste.replication.apply.errors import Open
from londiste.replication.apply.proofs import Proofs, control_events
from londiste.replication.apply.routing import RoutingTable
from londiste.replication.model import ReplicatedTable, SkippedEvents
from londiste.replication.tablesync.states import described, in_copy

_ID, _TXID, _TYPE, _NAME = 0, 2, 4, 6

#: Ticks that have piled up are followed together, up to about so many events.
_JOIN = 40_000


def handed(block: EventBlock, interest: RoutingTable) -> EventBlock:
    """The applied events of a block, and scripts: they are forwarded to the combined queue.

    Others would be applied on the stand-by only: of tables not replicated here, included in the
    copy, or skipped by the operator.
    """
    if len(block) == 1 and block.nbytes > LARGE:
        alone = block.alone()
        if _is_handed(alone[_ID], alone[_TXID], alone[_TYPE], alone[_NAME], interest):
            return block
        return EventBlock(b"", 0)
    known: dict[tuple[bytes, bytes], bool] = {}
    careful = bool(interest.skips.rows) or any(r.snapshot for r in interest.routes.values())
    lines = []
    for line in block.data.split(b"\n"):
        if not line:
            continue
        fields = line.split(b"\t", _NAME + 1)
        kind, name = fields[_TYPE], fields[_NAME]
        yes = None if careful else known.get((kind, name))
        if yes is None:
            yes = known[kind, name] = _is_handed(
                fields[_ID].decode(), fields[_TXID].decode(), kind.decode(), name.decode(), interest
            )
        if yes:
            lines.append(line)
    if len(lines) == len(block):
        return block
    return EventBlock(b"".join(line + b"\n" for line in lines), len(lines))


def _is_handed(id: str, txid: str, kind: str, name: str, interest: RoutingTable) -> bool:
    what = unescaped(kind) or ""
    if is_message(what):
        return what == "EXECUTE" and (int(id), 0) not in interest.skips.rows
    route = interest.find(unescaped(name))
    if route is None or in_copy(int(txid), route.snapshot):
        return False
    if is_truncate(what) and route.wants.ignore_truncate:
        return False
    return (int(id), 0) not in interest.skips.rows


class MergeLag:
    """Follows the messages of a part up to the position of the combined queue's rows.

    at -- its position at the provider.  The provider remembers it; a message may be
        followed twice, which changes nothing.
    """

    def __init__(
        self,
        source: Connection,
        target: Connection,
        queue: str,
        worker: str,
        system: SystemEvents,
        proofs: Proofs,
    ) -> None:
        self._source = source
        self._target = target
        self._queue = queue
        self._worker = worker
        self._system = system
        self._proofs = proofs
        #: What has halted it and is not settled; None: not known.
        self._open: list[Open] | None = None
        self.at = position(source, queue, worker)

    def back_to(self, tick: int) -> None:
        """Moves the position back to ``tick``.

        A node that was the combined root, failed and rejoined was further than its rows are now.
        Raises UsageError when the provider has no such tick any more.
        """
        batches.register_consumer_at(self._source, self._queue, self._worker, tick)
        self.at = tick

    def step(self, tick: int) -> bool:
        """Follows one batch that ends at ``tick`` or before it; False when there is none."""
        if self.at >= tick:
            return False
        opened = batches.finish_and_next(
            self._source,
            self._queue,
            self._worker,
            from_tick=self.at,
            max_count=_JOIN,
            max_tick=tick,
            durable=False,
        )
        if opened is None:
            return False
        batch = opened.batch
        if batch.tick_id > tick:
            # It was opened when this worker applied batches itself: the next one is a shorter one.
            batches.register_consumer_at(self._source, self._queue, self._worker, self.at)
            return True
        if self._open is None:
            self._open = errors.get_skips(self._target, self._queue, self._worker)
        skips = errors.skips_of(self._open)
        try:
            with self._target.transaction():
                self._follow(opened, skips)
                if self._open:
                    errors.settle_apply_errors(
                        self._target, self._queue, self._worker, batch.tick_id, skips
                    )
            self._open = None if self._open else self._open
        except EventError as error:
            self._open = None
            if error.event_id is not None and error.finding is not None:
                errors.note_apply_error(
                    self._target, self._queue, self._worker, batch.tick_id, error
                )
            raise
        batches.finish_batch(self._source, batch.id)
        self.at = batch.tick_id
        return True

    def _follow(self, opened: Opened, skips: SkippedEvents) -> None:
        self._proofs.begin()
        messages = "ev_type like 'pgq.%' or ev_type like 'londiste.%'"
        blocks = batches.stream(self._source, opened.batch, query=opened.query, where=messages)
        with contextlib.closing(blocks):
            for block in blocks:
                self._proofs.check(control_events(block), skips.rows)
                for event in block:
                    if (event.id, 0) in skips.rows:
                        continue
                    for change in decode_all(event):
                        if isinstance(change, SystemEvent):
                            self._system.follow(change)


def position(conn: Connection, queue: str, worker: str) -> int:
    """The tick behind which a worker is registered on its provider; 0 when it is not."""
    return max((c.last_tick or 0 for c in queues.get_consumer_info(conn, queue, worker)), default=0)


def say_choices(conn: Connection, queue: str, error: EventError) -> None:
    """Explains an event that cannot be applied to a table which other queues fill, too.

    Neither a comparison nor a copy can separate the rows of the queues.
    """
    table = error.finding and (error.finding.dest or error.finding.table)
    if not table or error.event_id is None or (error.finding and error.finding.kind == "shared"):
        return
    source = (error.finding and error.finding.table) or ""
    others = other_queues(conn, queue, source, table)
    if others:
        error.say_more(
            f"table {table} is also filled from queue {', '.join(others)}",
            hint="if two sources have the same key: change it at the other source if it is wrong;"
            f" or {rekeyed(source or table)}; then skip the event:"
            f" londiste events skip {error.event_id}; or use a separate table for this queue:"
            f" londiste remove-table {argument(table)}, then add-table {argument(table)}"
            " --no-merge --dest-table OTHER; londiste events show prints the rows",
        )


def rekeyed(table: str) -> str:
    """Pure: how the source of a failed event gives its row another key.

    Without an event of the old key, which is the key of another source's row: a DELETE or UPDATE
    of it would change that row on the leaf.
    """
    name = TableName.parse(table).quoted
    return (
        "at this event's source, without an event of the old key: begin; set local"  # noqa: S608
        f" session_replication_role = replica; delete from {name} where …; set local"
        f" session_replication_role = origin; insert into {name} …; commit"
    )


def others_filling(
    conn: Connection, queue: str, table: TableName | str, dest: TableName | str
) -> list[str]:
    """Other sources of the table ``dest`` of this leaf: tables, with their queue if different.

    queue, table -- the registration to exclude.
    """
    return [
        name if theirs == queue else f"{name} of queue {theirs}"
        for theirs, name in other_sources(conn, queue, table, dest)
    ]


def other_queues(
    conn: Connection, queue: str, table: TableName | str, dest: TableName | str
) -> list[str]:
    """The other queues that fill the table ``dest`` of this leaf."""
    return sorted(
        {theirs for theirs, _ in other_sources(conn, queue, table, dest) if theirs != queue}
    )


def other_sources(
    conn: Connection, queue: str, table: TableName | str, dest: TableName | str
) -> list[tuple[str, str]]:
    """(queue, table) of the other registrations that fill the table ``dest`` of this database.

    queue, table -- the registration to exclude.
    """
    rows = tuples(conn, "other_sources", dest=str(dest), queue=queue, table=str(table))
    return [(row[0], row[1]) for row in rows]


def others_apply(
    conn: Connection, queue: str, table: TableName | str, dest: TableName | str
) -> bool:
    """Whether changes of another registration are applied to the table ``dest`` of this leaf."""
    rows = tuples(conn, "other_sources", dest=str(dest), queue=queue, table=str(table))
    return any(row[2] for row in rows)


def refuse_truncate(conn: Connection, queue: str, change: Truncate, dest: TableName) -> None:
    """Raises EventError when TRUNCATE would delete rows of other sources."""
    others = others_filling(conn, queue, change.table, dest)
    if not others:
        return
    number = change.event_id
    raise EventError(
        f"event {number}: table {change.table}: TRUNCATE would delete rows of other sources from"
        f" {dest}",
        detail=f"it is also filled from {', '.join(others)}; nothing of the batch was applied",
        hint="delete the rows of this source on this node, because new ones may have their keys,"
        f" and skip the event: londiste events skip {number}; to ignore every TRUNCATE:"
        f" londiste change-handler {argument(change.table)} --handler londiste --handler-arg"
        " ignore_truncate=1",
        event_id=number,
        finding=ApplyError("shared", table=str(change.table), dest=str(dest), op="truncate"),
    )


def require_combined(state: WorkerState) -> None:
    """Raises StateError when the combined queue no longer exists in this database."""
    if state.combined_queue is not None and state.combined_type is None:
        raise StateError(
            f"node {state.name} merges queue {state.queue} into {state.combined_queue}, which is"
            " not a queue of this database",
            detail="its rows would exist on this node only, and on no stand-by",
            hint=f"make this database a root or branch of {state.combined_queue} again; or drop"
            f" the leaf and create it without --merge: londiste drop-node"
            f" {argument(state.name)}, then"
            f" {create_hint.create(state.type, state.name, provider=state.provider_location)}",
        )


def require_in_step(state: WorkerState, known: Sequence[ReplicatedTable]) -> None:
    """Raises StateError when a table of a part is not ok where its rows come from elsewhere."""
    for table in known:
        if table.local and table.state != "ok":
            raise StateError(
                f"table {table.name} is not in sync (it {described(table.state)}) and"
                f" cannot be copied here: its rows come through queue {state.combined_queue}",
                detail=f"the combined root had to copy it, and node {state.name} is below that"
                " root now",
                hint=f"londiste remove-table {argument(table.name)}, then add-table"
                f" {argument(table.name)} again; the"
                f" rows are copied by the worker of {state.combined_queue}",
            )
