"""Events between two ticks, for readers that keep their own position.

A stream reads tick by tick, and again from any tick that is still present.  Rotation waits for
registered consumers only: such a reader registers one and keeps it at or before its position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from londiste.db import call
from londiste.db.connection import Connection
from londiste.db.queries import first, savepoint, tuples
from londiste.pgq.batches import CHUNK_BYTES, read_cursor
from londiste.pgq.types import Event, Tick

#: Seconds by which a tick may lie in the future: the clocks of two servers differ a little.
AHEAD = 30.0


def age(conn: Connection, queue: str, tick: int, seconds: float) -> float | None:
    """Seconds since a tick, also after the clock was set back; None: unknown.

    seconds -- since the tick by the server's clock; negative after it was set back.  Later ticks
        tell by how much; while the newest one lies in the future nothing does.
    """
    if seconds >= 0:
        return seconds
    ((back, ahead),) = tuples(conn, "clock_set_back", queue=queue, tick=tick)
    return None if ahead is None or ahead > AHEAD else max(0.0, seconds + back)


def tick_events(
    conn: Connection,
    queue: str,
    from_tick: int,
    to_tick: int,
    *,
    chunk: int = 5000,
    chunk_bytes: int = CHUNK_BYTES,
    where: str | None = None,
) -> Iterator[list[Event]]:
    """The events that came after one tick, up to another, by id, in lists of up to ``chunk``.

    chunk_bytes -- a list ends with the event that makes the values in it this long.
    where -- condition over the columns ``ev_id``, ``ev_type``, … as SQL; None for all.

    Excludes retries of other consumers.  Never holds more than one list.  Works in a savepoint
    or a transaction as ``batches.events`` does.  Raises PositionLost when a
    tick, or events after it, are rotated away, and StateError for a tick that does not exist yet:
    never a part of the events.
    """
    name = f"londiste_ticks_{from_tick}_{to_tick}"
    with savepoint(conn):
        call.rows(conn, "pgq.get_tick_cursor", queue, from_tick, to_tick, name, 0, where)
        yield from read_cursor(conn, name, chunk, chunk_bytes)


def tick_event_sql(
    conn: Connection, queue: str, from_tick: int, to_tick: int, *, ordered: bool = True
) -> str:
    """The query of ``tick_events``, for COPY and the like; valid in this transaction.

    ordered -- by id; False avoids a sort of a large backlog on the server's disk.
    """
    found = str(call.value(conn, "pgq.tick_event_sql", queue, from_tick, to_tick))
    return found if ordered else found.removesuffix("\norder by 1")


def between(
    conn: Connection,
    queue: str,
    first: int,
    last: int | None = None,
    *,
    skip: int = 0,
    most: int | None = None,
) -> list[Tick]:
    """The ticks from one to another, both included, in their order; None: to the newest.

    skip -- number of ticks to exclude at the beginning; most -- maximum number of ticks.
    """
    given = {"queue": queue, "first": first, "last": last, "skip": skip, "most": most}
    return [Tick(*row) for row in tuples(conn, "ticks_between", **given)]


def apart(conn: Connection, queue: str, first: int, last: int, most: int) -> list[Tick]:
    """About ``most`` ticks between two, with both of them; their ids lie equally far apart.

    All ticks, where the ids do not exceed that number.
    """
    step = -(-(last - first) // most)
    if step <= 1:
        return between(conn, queue, first, last)
    given = {"queue": queue, "first": first, "last": last, "step": step}
    return [Tick(*row) for row in tuples(conn, "ticks_apart", **given)]


def last_such(
    conn: Connection, queue: str, first: Tick, last: Tick, holds: Callable[[Tick], bool]
) -> Tick:
    """The last of some ticks for which a condition holds.

    holds -- true for the first, and false for all ticks after one for which it is false.

    Asks for some forty ticks, however many lie between the two.
    """
    if holds(last):
        return last
    low, high = first, last.id
    while high - low.id > 1:
        middle = low.id + (high - low.id) // 2
        (found,) = between(conn, queue, middle, last.id, most=1)
        if found.id < high and holds(found):
            low = found
        else:
            high = middle
    return low


def newest(conn: Connection, queue: str, *, before: int | None = None) -> Tick | None:
    """The newest tick, or the newest before another; None if there is none."""
    row = first(conn, "newest_tick", queue=queue, before=before)
    return None if row is None else Tick(*row)


def oldest_complete(conn: Connection, queue: str) -> Tick | None:
    """The oldest tick after which no event is missing; None if there is none."""
    row = first(conn, "oldest_complete_tick", queue=queue)
    return None if row is None else Tick(*row)
