"""Forwarding: a branch keeps a copy of the queue, with the same events, ids and ticks.

So a subscriber of a branch can switch to another node at the same tick.  Events are
written in the transaction of the batch.  The tick follows in a transaction of its own, because
its snapshot must see them; when the process dies in between, ``recover`` makes the tick.

A leaf that merges into a combined queue writes its events there with ids of that queue, whose own
ticker creates the ticks; with each batch it publishes the position of its part (``Combiner``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import psycopg
from psycopg import sql

from londiste.cascade import sqlapi as nodes
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import translated
from londiste.errors import EventError, PositionLost, StateError
from londiste.pgq import queues
from londiste.pgq.blocks import EventBlock
from londiste.pgq.types import Batch

_COLUMNS = (
    "ev_id",
    "ev_time",
    "ev_type",
    "ev_data",
    "ev_extra1",
    "ev_extra2",
    "ev_extra3",
    "ev_extra4",
)

_WATERMARK = b"pgq.global-watermark\t"


class Forwarder:
    """Writes into the branch's own queue through ``conn``, a session with role replica."""

    #: Events keep the ids that they have on the provider.
    keep_ids = True

    def __init__(self, conn: Connection, queue: str, *, own_watermark: bool = False) -> None:
        """own_watermark -- nodes below get this node's global watermark, not the root's."""
        self.conn = conn
        self.queue = queue
        self.own_watermark = own_watermark
        #: Whether the queue is known to prove its control events; told with the first events.
        self._announced = self._said = False

    def forward(self, events: EventBlock, proven: Sequence[tuple[int, str]] = ()) -> int:
        """Copies events unchanged into the queue's current table; returns their number.

        proven -- id and type of those among them that are control events, and that the provider
            has proven: they are for the readers of this queue, too.

        Runs inside the caller's transaction.  Raises EventError for a retried event, which
        other nodes would not receive; StateError when the session may not write to the queue.
        """
        return self._write(events, proven, self.keep_ids)

    def _write(self, events: EventBlock, proven: Sequence[tuple[int, str]], ids: bool) -> int:
        """ids -- the events keep theirs; otherwise the queue gives them new ones."""
        try:
            table = TableName.parse(queues.current_event_table(self.conn, self.queue))
        except StateError as error:
            raise StateError(
                error.message,
                detail=f"queue {self.queue} of {describe_dsn(self.conn.info.dsn)} takes events"
                " only from sessions with session_replication_role = replica",
                hint="grant it to the worker's user: GRANT SET ON PARAMETER"
                " session_replication_role TO the user",
            ) from error
        statement = sql.SQL("copy {} ({}) from stdin").format(
            table.sql,
            sql.SQL(", ").join(map(sql.Identifier, _COLUMNS if ids else _COLUMNS[1:])),
        )
        alone = len(events) == 1 and not self.own_watermark
        # Before COPY begins: it may have to ask this database.
        if proven or not self._announced:
            queues.prove_forwarded(self.conn, self.queue, proven)
            self._said = True
        rows = b"" if alone else self._rows(events, ids)
        with translated(self.conn), self.conn.cursor() as cursor, cursor.copy(statement) as copy:
            if alone:
                # A long event is a block of its own and must not be copied in memory.
                head, rest = self._row(events.data, ids)
                copy.write(head)
                copy.write(rest)
            else:
                copy.write(rows)
        return len(events)

    def _rows(self, events: EventBlock, ids: bool) -> bytes:
        """COPY's text without the two columns that are each database's own."""
        rows = []
        replace = self.own_watermark and _WATERMARK in events.data
        for line in events.data.splitlines(keepends=True):
            id, time, _txid, retry, rest = line.split(b"\t", 4)
            if retry != rb"\N":
                raise _retried(int(id), self.queue)
            if replace and rest.startswith(_WATERMARK):
                rest = self._with_own(rest)
            rows.append(b"\t".join((id, time, rest) if ids else (time, rest)))
        return b"".join(rows)

    def _with_own(self, rest: bytes) -> bytes:
        """The root's watermark event, rewritten with this node's watermark for the nodes below."""
        kind, data, others = rest.split(b"\t", 2)
        own = nodes.get_node_info(self.conn, self.queue).global_watermark
        if own is not None and data.isdigit():
            data = str(min(own, int(data))).encode()
        return b"\t".join((kind, data, others))

    def _row(self, line: bytes, ids: bool) -> tuple[bytes, memoryview]:
        """The same of one line, in two pieces of which the second is not copied."""
        end = 0
        for _ in range(4):
            end = line.index(b"\t", end) + 1
        id, time, _txid, retry, _ = line[:end].split(b"\t")
        if retry != rb"\N":
            raise _retried(int(id), self.queue)
        head = (id, time, b"") if ids else (time, b"")
        return b"\t".join(head), memoryview(line)[end:]

    def ending(self, batch: Batch) -> Callable[[], None]:
        """The last statement of a batch's transaction, after its position; in the caller's
        pipeline.  The returned function is called after it, and may refuse the batch."""
        return _nothing

    def tick(self, batch: Batch) -> None:
        """Creates the provider's tick.  The batch must be committed and no transaction open."""
        if self.conn.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            raise StateError(
                f"queue {self.queue}: tick {batch.tick_id} cannot be created in a transaction",
                detail="its snapshot would not include the events of the batch",
            )
        self._announced = self._said
        with self.conn.transaction():
            queues.external_ticker(
                self.conn, self.queue, batch.tick_id, batch.tick_time, batch.event_seq
            )

    def recover(self, batch: Batch) -> bool:
        """For a batch that is committed: creates its tick if it is missing; returns True then.

        Raises PositionLost when the local queue is at neither end of the batch.
        """
        with self.conn.transaction():
            top = nodes.get_worker_state(self.conn, self.queue).queue_top
        if top == batch.tick_id:
            return False
        if top == batch.prev_tick_id:
            self.tick(batch)
            return True
        raise PositionLost(
            f"queue {self.queue} of this branch ends at tick {top},"
            f" its tables are at tick {batch.tick_id}",
            detail=f"expected tick {batch.prev_tick_id} or {batch.tick_id}",
            hint="create the branch again: another program has written to its queue",
        )


class Combiner(Forwarder):
    """Writes the events of a part into the combined queue, which is a root in this database."""

    keep_ids = False

    def __init__(self, conn: Connection, queue: str, part: str) -> None:
        super().__init__(conn, queue)
        self.part = part
        # A root proves its control events from the start.
        self._announced = True

    def forward(self, events: EventBlock, proven: Sequence[tuple[int, str]] = ()) -> int:
        """As ``Forwarder``; events among which there are proven ones get their new ids here."""
        if not proven:
            return super().forward(events)
        kinds = dict(proven)
        found: list[tuple[int, str]] = []
        lines = []
        new = queues.take_ids(self.conn, self.queue, len(events))
        for id, line in zip(new, events.data.splitlines(keepends=True), strict=True):
            old, rest = line.split(b"\t", 1)
            kind = kinds.get(int(old))
            # A row may have the number of a script; a proof without its script would fit another.
            if kind is not None and rest.split(b"\t", 4)[3] == kind.encode():
                found.append((id, kind))
            lines.append(b"%d\t%b" % (id, rest))
        return self._write(EventBlock(b"".join(lines), len(lines)), found, True)

    def ending(self, batch: Batch) -> Callable[[], None]:
        """Publishes the part's position.  The returned function raises CombinedClosed."""
        return nodes.insert_part_tick(self.conn, self.queue, self.part, batch.tick_id)

    def tick(self, batch: Batch) -> None:
        """Does nothing: the combined queue has a ticker."""

    def recover(self, batch: Batch) -> bool:
        """Does nothing: events and position were one transaction."""
        return False


def _nothing() -> None:
    pass


def _retried(event: int, queue: str) -> EventError:
    return EventError(
        f"queue {queue}: event {event} is a retried event",
        detail="a retried event exists on one node only, so it cannot be replicated",
        hint="delete the event on the provider; never call event_retry for a node's worker",
        queue=queue,
        event_id=event,
    )
