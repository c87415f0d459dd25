"""Queue functions of schema ``pgq``: create, tick, maintain, read.

Nothing here commits: on a connection that is not in autocommit the caller decides.  Errors of
the database are translated (``londiste.db.call``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg import sql

from londiste.db import call
from londiste.db.connection import Connection, describe_dsn
from londiste.db.names import TableName
from londiste.db.queries import first, savepoint, translated, tuples
from londiste.errors import UnknownQueue
from londiste.pgq.types import ConsumerInfo, QueueInfo, QueueParameter

#: The ticker tells here which queue has a new tick, for consumers that LISTEN.
TICK_CHANNEL = "pgq_tick"

#: ``force_tick`` tells here which queue wants one, for tickers that LISTEN.
FORCE_TICK_CHANNEL = "pgq_force_tick"

# -- queues ---------------------------------------------------------------------------------------


def create_queue(conn: Connection, queue: str) -> int:
    """Creates a queue with its first tick: 1, or 0 if it exists."""
    return int(call.value(conn, "pgq.create_queue", queue))


def drop_queue(conn: Connection, queue: str, force: bool = False) -> None:
    """Drops a queue and its events.  ``force`` also unregisters its consumers, else an error."""
    call.value(conn, "pgq.drop_queue", queue, force)


def set_queue_config(conn: Connection, queue: str, param: str, value: str | None) -> None:
    """Sets a parameter, given as text; ``ticker_max_lag`` and so on.

    Raises UnknownQueue, BadOption, and StateError if ``ntables`` would drop a table that is
    needed.
    """
    call.value(conn, "pgq.set_queue_config", queue, param, value)


def get_queue_config(conn: Connection, queue: str) -> list[QueueParameter]:
    """All parameters of a queue, as ``set_queue_config`` takes them.  Raises UnknownQueue."""
    return call.records(conn, QueueParameter, "pgq.get_queue_config", queue)


def is_node(conn: Connection, queue: str) -> bool:
    """Whether a queue is a node of a cascade; False for an unknown one."""
    return any(node for (node,) in tuples(conn, "queue_is_node", queue=queue))


def get_queue_info(conn: Connection, queue: str | None = None) -> list[QueueInfo]:
    """Settings and state of one queue or of all; empty for an unknown queue."""
    return call.records(conn, QueueInfo, "pgq.get_queue_info", queue)


def get_consumer_info(
    conn: Connection, queue: str | None = None, consumer: str | None = None
) -> list[ConsumerInfo]:
    """Positions of consumers; None stands for all queues, all consumers."""
    return call.records(conn, ConsumerInfo, "pgq.get_consumer_info", queue, consumer)


def current_event_table(conn: Connection, queue: str) -> str:
    """The current event table, ``schema.name``; good until this transaction ends.

    Raises StateError when the queue rejects events of this session.
    """
    name = call.value(conn, "pgq.current_event_table", queue)
    # A session with the client encoding SQL_ASCII has texts as bytes.
    return name.decode() if isinstance(name, bytes) else str(name)


def unproven_events(
    conn: Connection, queue: str, events: Sequence[tuple[int, int, str]]
) -> list[int]:
    """The ids of control events that nobody entitled has written.

    events -- id, transaction and type of each.
    """
    ids, txids, types = ([one[nr] for one in events] for nr in range(3))
    return call.records(conn, int, "pgq.unproven_events", queue, ids, txids, types)


def prove_forwarded(conn: Connection, queue: str, events: Sequence[tuple[int, str]]) -> None:
    """Notes control events that were copied into a queue in this transaction, by id and type.

    From the first call on, which may be without events, subscribers of the queue refuse others.
    """
    ids, types = [id for id, _ in events], [kind for _, kind in events]
    call.value(conn, "pgq.prove_forwarded", queue, ids, types)


@dataclass(frozen=True)
class ListedQueue:
    """A queue.

    consumers -- their number.
    ticker_lag -- time since the last tick.
    ev_new -- events since the last tick.
    """

    queue: str
    consumers: int
    last_tick: int | None
    ticker_lag: timedelta | None
    ev_per_sec: float | None
    ev_new: int | None


def listed(conn: Connection) -> list[ListedQueue]:
    """All queues, as ``londiste queue list`` and the shell show them."""
    consumers = Counter(one.queue_name for one in get_consumer_info(conn))
    return [
        ListedQueue(
            one.queue_name,
            consumers[one.queue_name],
            one.last_tick_id,
            one.ticker_lag,
            None if one.ev_per_sec is None else round(one.ev_per_sec, 1),
            one.ev_new,
        )
        for one in get_queue_info(conn)
    ]


def take_ids(conn: Connection, queue: str, count: int) -> list[int]:
    """The next ids of a queue, for events that are copied into it."""
    return [int(row[0]) for row in tuples(conn, "take_ids", queue=queue, count=count)]


def newest_event(conn: Connection, queue: str) -> int:
    """The id of the newest event; every later event has a higher id."""
    rows = tuples(conn, "newest_event", queue=queue)
    if not rows:
        raise UnknownQueue(f"unknown queue {queue}", hint="londiste queue list")
    return int(rows[0][0])


def event_table(conn: Connection, queue: str) -> TableName:
    """The table from which all event tables of a queue inherit."""
    parent = first(conn, "event_parent", queue=queue)
    if parent is None:
        raise UnknownQueue(
            f"no queue {queue}",
            detail=f"in {describe_dsn(conn.info.dsn)}",
            hint="londiste queue list",
        )
    return TableName.parse(parent[0])


def lock_out_writers(conn: Connection, queue: str) -> None:
    """Waits for transactions that have written into the queue; others wait until this one ends."""
    lock = sql.SQL("lock table {} in exclusive mode").format(event_table(conn, queue).sql)
    with translated(conn):
        conn.execute(lock)


def event_count(conn: Connection, queue: str) -> int:
    """How many events the tables of the queue hold, read or not; counts them one by one."""
    count = sql.SQL("select count(*) from {}").format(event_table(conn, queue).sql)
    with translated(conn):
        row = conn.execute(count).fetchone()
    assert row is not None
    return int(row[0])


def version(conn: Connection) -> str:
    """The release of the schema ``pgq`` in the database."""
    return str(call.value(conn, "pgq.version"))


def queue_generation(conn: Connection, queue: str) -> UUID | None:
    """The present generation of a queue; it changes with a rebase or a new queue of this name."""
    found = call.value(conn, "pgq.queue_generation", queue)
    return None if found is None else UUID(str(found))


# -- ticks ----------------------------------------------------------------------------------------


def ticker(conn: Connection, queue: str | None = None) -> int | None:
    """Creates the ticks that are due.

    With a queue: the id of the new tick, or None if none was due.  Without: the number of queues
    with a new tick.  Needs its own transaction in isolation level read committed.
    """
    answer = call.value(conn, "pgq.ticker", *(() if queue is None else (queue,)))
    return None if answer is None else int(answer)


def ticker_and_due(conn: Connection) -> tuple[int, float | None]:
    """``ticker`` of all queues, and what ``seconds_until_due`` was before; one round trip."""
    row = first(conn, "ticker_and_due")
    assert row is not None
    return int(row[0] or 0), None if row[1] is None else max(0.0, float(row[1]))


def shortest_tick_lag(conn: Connection) -> float | None:
    """Shortest ``ticker_max_lag`` of the queues that tick here, in seconds; None without."""
    row = first(conn, "shortest_tick_lag")
    return None if row is None or row[0] is None else float(row[0])


def queue_writers(conn: Connection, queue: str) -> list[str]:
    """Tables whose triggers write into the queue, as the server writes their names."""
    return [name for (name,) in tuples(conn, "queue_writers", queue=queue)]


def tick_paces(conn: Connection) -> list[tuple[str, float, int, int, dict[str, int]]]:
    """Queues that tick in this database.

    Name, ticker_max_lag in seconds, newest tick, last number of an event at that tick, and the
    ticks of their consumers by name.
    """
    return [
        (name, float(lag), tick or 0, events or 0, consumers)
        for name, lag, tick, events, consumers in tuples(conn, "tick_paces")
    ]


def external_ticker(
    conn: Connection, queue: str, tick_id: int, time: datetime, event_seq: int
) -> int:
    """Creates a tick of another database, after its events are committed; ``tick_id``."""
    return int(call.value(conn, "pgq.ticker", queue, tick_id, time, event_seq))


def force_tick(conn: Connection, queue: str) -> int | None:
    """Forces a tick in the next run of the ticker; the newest tick so far, None if none."""
    answer = call.value(conn, "pgq.force_tick", queue)
    return None if answer is None else int(answer)


def lock_ticks(conn: Connection, queue: str) -> int | None:
    """Blocks other ticks until this transaction ends; the newest tick, None if none."""
    answer = call.value(conn, "pgq.lock_ticks", queue)
    return None if answer is None else int(answer)


def tick_at_snapshot(conn: Connection, queue: str, snapshot: str) -> int:
    """Creates a tick at a snapshot that another session took after ``lock_ticks``; its id."""
    return int(call.value(conn, "pgq.tick_at_snapshot", queue, snapshot))


def create_tick(conn: Connection, queue: str) -> int:
    """Creates a tick at this moment, without consuming event ids as ``force_tick`` does; its id."""
    with savepoint(conn):
        lock_ticks(conn, queue)
        # Taken after the lock is granted.
        ((snapshot,),) = tuples(conn, "current_snapshot")
        return tick_at_snapshot(conn, queue, snapshot)


# -- maintenance ----------------------------------------------------------------------------------


def maint_operations(conn: Connection) -> list[tuple[str, str | None]]:
    """The due maintenance operations in order: function (or ``vacuum [analyze]``) and argument."""
    rows = call.rows(conn, "pgq.maint_operations")
    return [(str(row["func_name"]), row["func_arg"]) for row in rows]


def maint_retry_events(conn: Connection) -> int:
    """Inserts due retries and delayed events into their queues; their number.  Call it until 0."""
    return int(call.value(conn, "pgq.maint_retry_events"))


def seconds_until_due(conn: Connection) -> float | None:
    """Seconds until ``next_due`` by the server's clock, 0 when it has passed; None without."""
    row = first(conn, "seconds_until_due")
    return None if row is None or row[0] is None else max(0.0, float(row[0]))


def maint_tables_to_vacuum(conn: Connection) -> list[str]:
    """Tables that need a vacuum where autovacuum is off."""
    return call.records(conn, str, "pgq.maint_tables_to_vacuum")
