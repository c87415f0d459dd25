"""Batches of a consumer: register, open a batch, read its events, finish it.

    batch = next_batch(conn, queue, consumer)      None: nothing new
    for chunk in events(conn, batch): ...          in the order of event ids
    for block in stream(conn, batch): ...          the same, faster; the connection is busy
    finish_batch(conn, batch.id)                   never again

A batch stays open, with the same events, until it is finished; so a consumer that stored what it
did in one transaction with the batch's tick can finish later, and skip what it has seen.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.queries import first, savepoint
from londiste.pgq.blocks import batch_event_sql as batch_event_sql
from londiste.pgq.blocks import stream as stream
from londiste.pgq.types import Batch, Event

#: Bytes of events in one list, unless a single event is longer.
CHUNK_BYTES = 16 << 20


def register_consumer(conn: Connection, queue: str, consumer: str) -> int:
    """Registers a consumer after the newest tick: 1, or 0 if it is registered."""
    return int(call.value(conn, "pgq.register_consumer", queue, consumer))


def register_consumer_at(conn: Connection, queue: str, consumer: str, tick: int | None) -> int:
    """Registers a consumer after a tick (1), or moves it there (0), dropping an open batch.

    None: after the newest tick for a new consumer, no change for a registered one.  Raises
    StateError if the queue does not have this tick.
    """
    return int(call.value(conn, "pgq.register_consumer_at", queue, consumer, tick))


def unregister_consumer(conn: Connection, queue: str, consumer: str) -> int:
    """Unregisters a consumer; the number of registrations removed, 0 if none."""
    return int(call.value(conn, "pgq.unregister_consumer", queue, consumer))


def next_batch(
    conn: Connection,
    queue: str,
    consumer: str,
    *,
    min_lag: timedelta | None = None,
    min_count: int | None = None,
    min_interval: timedelta | None = None,
) -> Batch | None:
    """Opens the next batch, or returns the open one; None if there is no new tick.

    min_lag -- the batch ends at least this long ago.
    min_count, min_interval -- wait for this number of events or this interval (either is enough),
        and join several ticks for it.

    Raises UnknownConsumer if the consumer is not registered, PositionLost if its position is not a
    tick of the queue.
    """
    if min_lag is None and min_count is None and min_interval is None:
        row = call.row(conn, "pgq.next_batch_info", queue, consumer)
    else:
        row = call.row(
            conn, "pgq.next_batch_custom", queue, consumer, min_lag, min_count, min_interval
        )
    return _batch(row, queue, consumer)


@dataclass(frozen=True)
class Opened:
    """An open batch and the query of its events, valid while the batch is open.

    followed -- a later tick existed when it was opened.
    """

    batch: Batch
    query: str
    followed: bool


def finish_and_next(
    conn: Connection,
    queue: str,
    consumer: str,
    finish: int | None = None,
    *,
    min_lag: timedelta | None = None,
    min_count: int | None = None,
    min_interval: timedelta | None = None,
    from_tick: int | None = None,
    max_count: int | None = None,
    max_tick: int | None = None,
    durable: bool = True,
) -> Opened | None:
    """Finishes a batch, if one is given, and opens the next, in one call and one transaction.

    from_tick, max_count -- without a minimum: the position of the consumer, and the approximate
        number of events up to which waiting ticks are joined.
    max_tick -- ticks are joined up to this one and not beyond.
    durable -- False: a crash of the server may lose that a batch was finished or opened.

    Otherwise as ``finish_batch`` and ``next_batch``; after an error neither has happened.
    """
    row = call.row(
        conn,
        "pgq.finish_and_next",
        queue,
        consumer,
        finish,
        min_lag,
        min_count,
        min_interval,
        from_tick,
        max_count,
        durable,
        max_tick,
    )
    batch = _batch(row, queue, consumer)
    return None if batch is None else Opened(batch, row["event_sql"], row["is_followed"])


@contextlib.contextmanager
def opening(
    conn: Connection,
    queue: str,
    consumer: str,
    finish: int | None,
    *,
    min_lag: timedelta | None,
    from_tick: int,
    max_count: int | None,
    max_tick: int | None,
) -> Iterator[list[Opened]]:
    """Opens the next batch while the with block uses another database; available after the block.

    As ``finish_and_next`` that is not durable; the list stays empty if there is no next batch.
    If the block fails, it is unknown whether the batch was finished: it may be delivered again.
    """
    found: list[Opened] = []
    with call.meanwhile(
        conn,
        "pgq.finish_and_next",
        *(queue, consumer, finish, min_lag, None, None, from_tick, max_count, False, max_tick),
    ) as rows:
        yield found
    batch = _batch(rows[0], queue, consumer)
    if batch is not None:
        found.append(Opened(batch, rows[0]["event_sql"], rows[0]["is_followed"]))


@dataclass(frozen=True)
class Coming:
    """The expected next batch, as far as it is known before it is opened."""

    prev_tick_id: int
    tick_id: int
    tick_time: datetime
    event_seq: int
    query: str

    def is_now(self, batch: Batch) -> bool:
        """Whether the opened batch is the expected one."""
        return (self.prev_tick_id, self.tick_id, self.tick_time, self.event_seq) == (
            batch.prev_tick_id,
            batch.tick_id,
            batch.tick_time,
            batch.event_seq,
        )


def coming(
    conn: Connection,
    queue: str,
    consumer: str,
    from_tick: int,
    *,
    min_count: int | None = None,
    min_interval: timedelta | None = None,
    max_count: int | None = None,
    max_tick: int | None = None,
) -> Coming | None:
    """The batch that ``finish_and_next`` will probably open after a tick; None: nothing yet."""
    row = call.row(
        conn,
        "pgq.read_ahead",
        queue,
        consumer,
        from_tick,
        min_count,
        min_interval,
        max_count,
        max_tick,
    )
    if row["tick_id"] is None:
        return None
    return Coming(from_tick, row["tick_id"], row["tick_time"], row["event_seq"], row["event_sql"])


def _batch(row: dict[str, Any], queue: str, consumer: str) -> Batch | None:
    if row["batch_id"] is None:
        return None
    return Batch(
        id=row["batch_id"],
        queue=queue,
        consumer=consumer,
        prev_tick_id=row["prev_tick_id"],
        tick_id=row["cur_tick_id"],
        prev_tick_time=row["prev_tick_time"],
        tick_time=row["cur_tick_time"],
        prev_event_seq=row["prev_tick_event_seq"],
        event_seq=row["cur_tick_event_seq"],
    )


def events(
    conn: Connection,
    batch: Batch,
    *,
    chunk: int = 5000,
    chunk_bytes: int = CHUNK_BYTES,
    where: str | None = None,
) -> Iterator[list[Event]]:
    """The events of an open batch in the order of their ids, in lists of up to ``chunk``.

    chunk_bytes -- a list ends with the event whose values reach this size. So a larger event
        comes, but not many of them at once.
    where -- condition over the columns ``ev_id``, ``ev_type``, … as SQL; None for all.

    At most one list is in memory.  Works in a savepoint of the caller's transaction, in autocommit
    mode in a transaction of its own, which stays open until the last list was taken or the
    iterator is closed.  Raises StateError if the batch is not open.
    """
    name = f"londiste_batch_{batch.id}"
    with savepoint(conn):
        call.rows(conn, "pgq.get_batch_cursor", batch.id, name, 0, where)
        yield from read_cursor(conn, name, chunk, chunk_bytes)


def read_cursor(conn: Connection, name: str, chunk: int, chunk_bytes: int) -> Iterator[list[Event]]:
    """Reads a cursor over events to its end and closes it."""
    while found := call.records(conn, Event, "pgq.fetch_batch_events", name, chunk, chunk_bytes):
        yield found
        if len(found) < chunk and _surely_below(chunk_bytes, found):
            break
    # A caller that reads the same again in the same transaction may use the name.
    conn.execute(sql.SQL("close {}").format(sql.Identifier(name)))


def _surely_below(size: int, found: list[Event]) -> bool:
    """Whether the list cannot have ended by size; a character has up to four bytes."""
    characters = 0
    for event in found:
        characters += sum(map(len, filter(None, event[5:])))
    return characters * 4 < size


def finish_batch(conn: Connection, batch_id: int) -> int:
    """Finishes a batch: 1, or 0 if it was finished before."""
    return int(call.value(conn, "pgq.finish_batch", batch_id))


def event_retry(conn: Connection, batch_id: int, event_id: int, after: datetime | int) -> int:
    """Schedules a retry of an event, at a time or after seconds: 1, or 0 if it was scheduled.

    Raises StateError when the batch is not open or has no such event.
    """
    return int(call.value(conn, "pgq.event_retry", batch_id, event_id, after))


@dataclass(frozen=True)
class BlockRange:
    """A range of event ids: its number of events in a batch, and their pages in one event table."""

    first_id: int
    events: int
    table: str
    first_page: int
    last_page: int


def batch_event_spread(conn: Connection, batch_id: int, width: int = 4096) -> list[BlockRange]:
    """The ranges of ``width`` ids with events of an open batch, in order.

    One pass over the batch.  Raises StateError if the batch is not open.
    """
    return call.records(conn, BlockRange, "pgq.batch_event_spread", batch_id, width)


def id_bounds(conn: Connection, batch: Batch) -> tuple[int, int | None]:
    """Ids that all events of an open batch are above, and all events of the batches after it.

    Retried events aside, which keep their ids.  The second is None if the transactions that are
    open at the batch's last tick are so old that the answer would be expensive, and on a branch.
    """
    row = first(
        conn,
        "batch_id_bounds",
        queue=batch.queue,
        from_tick=batch.prev_tick_id,
        to_tick=batch.tick_id,
        batch=batch.id,
    )
    return (batch.prev_event_seq, None) if row is None else (row[0], row[1])


def batch_page_sql(conn: Connection, batch_id: int, pages: Mapping[str, tuple[int, int]]) -> str:
    """The query of the events of an open batch in some pages.

    pages -- by event table the first and the last of them.
    """
    return str(
        call.value(
            conn,
            "pgq.batch_page_sql",
            batch_id,
            list(pages),
            [first for first, _ in pages.values()],
            [last for _, last in pages.values()],
        )
    )


def get_batch_info(conn: Connection, batch_id: int) -> Batch | None:
    """Owner and content of an open batch; None if it is not open."""
    row = call.row(conn, "pgq.get_batch_info", batch_id)
    if row["queue_name"] is None:
        return None
    return Batch(
        id=batch_id,
        queue=row["queue_name"],
        consumer=row["consumer_name"],
        prev_tick_id=row["prev_tick_id"],
        tick_id=row["tick_id"],
        prev_tick_time=row["batch_start"],
        tick_time=row["batch_end"],
        prev_event_seq=row["seq_start"],
        event_seq=row["seq_end"],
    )
