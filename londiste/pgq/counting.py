"""Counts of waiting events, from the event tables.

The positions of consumers only give an upper limit, because ids are also consumed without events:
``force_tick()`` consumes thousands, and a rolled back transaction its own.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
from datetime import timedelta

from londiste.db.connection import Connection
from londiste.db.queries import first, savepoint, translated
from londiste.errors import LondisteError
from londiste.pgq import queues, ticks
from londiste.pgq.types import ConsumerInfo

#: Events that a count reads at most; above it the upper limit is shown.
COUNTED = 10_000


def between(conn: Connection, queue: str, first: int | None, last: int | None, most: int) -> int:
    """The number of events between two ticks, without retries.

    most -- upper limit by the ids; it is the answer for more than COUNTED events, and to users who
        may not read the events.
    """
    if first is None or last is None or most <= 0:
        return most
    try:
        with savepoint(conn):
            return _count(conn, ticks.tick_event_sql(conn, queue, first, last, ordered=False), most)
    except LondisteError:
        return most


def since_tick(conn: Connection, queue: str, most: int) -> int:
    """The number of committed events after the newest tick; ``most`` as in ``between``."""
    if most <= 0:
        return most
    try:
        with savepoint(conn):
            row = first(conn, "new_event_sql", queue=queue)
            return most if row is None else _count(conn, str(row[0]), most)
    except LondisteError:
        return most


def oldest_since_tick(conn: Connection, queue: str) -> float | None:
    """Seconds since the oldest of the events after the newest tick, by the server's clock.

    Of COUNTED of them, if there are more.  None: there is none, or the user may not read them.
    """
    with contextlib.suppress(LondisteError), savepoint(conn):
        row = first(conn, "new_event_sql", queue=queue)
        if row is None:
            return None
        text = (
            "select extract(epoch from clock_timestamp() - min(n.ev_time))::float8"  # noqa: S608
            f" from (select e.ev_time from ({row[0]}) as e limit {COUNTED}) as n"
        )
        with translated(conn):
            found = conn.execute(text.encode()).fetchone()
        return None if found is None else found[0]
    return None


def with_age(conn: Connection, one: ConsumerInfo) -> ConsumerInfo:
    """The consumer with a lag that is not negative, also after the clock was set back."""
    if one.lag is None or one.last_tick is None:
        return one
    seconds = ticks.age(conn, one.queue_name, one.last_tick, one.lag.total_seconds())
    if seconds == one.lag.total_seconds():
        return one
    return dataclasses.replace(one, lag=None if seconds is None else timedelta(seconds=seconds))


def pending(conn: Connection, found: Iterable[ConsumerInfo]) -> list[ConsumerInfo]:
    """The consumers with counted ``pending_events``, and their lag as ``with_age``."""
    newest: dict[str, int | None] = {}
    known: dict[tuple[str, int | None], int] = {}
    result = []
    for one in found:
        if one.pending_events:
            if one.queue_name not in newest:
                tick = ticks.newest(conn, one.queue_name)
                newest[one.queue_name] = None if tick is None else tick.id
            key = one.queue_name, one.last_tick
            if key not in known:
                last = newest[one.queue_name]
                known[key] = between(conn, *key, last, one.pending_events)
            one = dataclasses.replace(one, pending_events=known[key])
        result.append(with_age(conn, one))
    return result


def consumers(
    conn: Connection, queue: str | None = None, consumer: str | None = None
) -> list[ConsumerInfo]:
    """``queues.get_consumer_info`` with counted events."""
    return pending(conn, queues.get_consumer_info(conn, queue, consumer))


def uncounted(conn: Connection, queue: str) -> list[ConsumerInfo]:
    """The consumers of a queue with upper limits of events, and their lag as ``with_age``."""
    return [with_age(conn, one) for one in queues.get_consumer_info(conn, queue)]


def words(number: int | None) -> str:
    """``1 event``, ``7 events``, ``up to 20000 events``."""
    if number == 1:
        return "1 event"
    return f"{'up to ' if (number or 0) > COUNTED else ''}{number or 0} events"


def _count(conn: Connection, events: str, most: int) -> int:
    text = f"select count(*) from (select from ({events}) as e limit {COUNTED + 1}) as n"  # noqa: S608
    with translated(conn):
        row = conn.execute(text.encode()).fetchone()
    number = most if row is None else int(row[0])
    return number if number <= COUNTED else most
