"""Bounds of reads: where a query starts, where a batch ends, and the parts between the two.

A queue may have millions of ticks after a position.  The driver asks for single ticks and for some
that lie apart, so a question costs it the same whatever their number; a task asks for the ticks of
its own part.
"""

# ruff: noqa: S608 - the query comes from pgq.tick_event_sql()

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from londiste.db.connection import Connection
from londiste.db.queries import translated
from londiste.engine.spark.stream import offsets
from londiste.engine.spark.stream.offsets import TickRange
from londiste.engine.spark.stream.options import Net, Options
from londiste.errors import BadOption, PositionLost, StateError
from londiste.pgq import ticks
from londiste.pgq.types import Tick

log = logging.getLogger(__name__)

#: Ticks that the driver reads for one batch; a task asks for those between them.
MOST_TICKS = 1_000
#: Ticks that a task has in memory.
PAGE_TICKS = 5_000
#: Events of a page whose net changes a task finds; one tick may have more.
PAGE_EVENTS = 100_000
#: Events of which the average size is taken, and what counts for a queue without events.
SAMPLE_EVENTS = 1_000


def starting_tick(conn: Connection, options: Options, *, otherwise: str) -> Tick:
    """The tick after which a query starts; otherwise -- when the options do not name one.

    With failOnDataLoss=false that is the oldest complete tick if the one that is named has gone.
    Raises StateError or PositionLost for a tick that does not exist, BadOption for a future time.
    """
    try:
        return _starting_tick(conn, options, otherwise)
    except PositionLost as error:
        oldest = ticks.oldest_complete(conn, options.queue)
        if options.fail_on_loss or oldest is None:
            raise
        log.warning(
            "%s: starts after tick %s of %s (failOnDataLoss=false)",
            error.message,
            oldest.id,
            oldest.time.isoformat(),
        )
        return oldest


def _starting_tick(conn: Connection, options: Options, otherwise: str) -> Tick:
    start, queue = options.start, options.queue
    oldest, newest = ticks.oldest_complete(conn, queue), ticks.newest(conn, queue)
    if start.tick is not None:
        found = (_before if start.inclusive else _at)(conn, queue, start.tick)
        if oldest is None or found.id < oldest.id:
            raise lost(conn, queue, found.id)
        return found
    if oldest is None or newest is None:
        raise no_tick(queue)
    if start.time is None:
        return oldest if (start.end or otherwise) == "earliest" else newest
    begin = _last_until(conn, "startingTimestamp", oldest, newest, options, start.time)
    if begin is None:
        raise PositionLost(
            f"queue {queue}: events since {start.time.isoformat()} are incomplete",
            detail=f"complete since {oldest.time.isoformat()}, tick {oldest.id}",
            hint="use startingOffsets=earliest, or a later startingTimestamp; with"
            " failOnDataLoss=false the query starts with the oldest complete tick",
        )
    return begin


def ending_tick(conn: Connection, options: Options, first: Tick) -> Tick:
    """The tick with which a batch ends that starts after ``first``.

    Raises as ``starting_tick`` does, and BadOption for an end before the start.
    """
    end, queue = options.end, options.queue
    newest = ticks.newest(conn, queue) or first
    if not end.given:
        return newest
    found: Tick | None
    if end.time is not None:
        shown = f"endingTimestamp {end.time.isoformat()}"
        found = _last_until(conn, "endingTimestamp", first, newest, options, end.time, end=True)
    else:
        assert end.tick is not None
        shown = f"endingTick {end.tick}"
        found = first
        if end.tick >= first.id:
            if end.tick > newest.id:
                raise StateError(
                    f"queue {queue} has no tick {end.tick} yet",
                    detail=f"newest tick: {newest.id}",
                    hint=f"set endingTick={newest.id}, or omit it to read up to the newest",
                )
            found = (_at if end.inclusive else _before)(conn, queue, end.tick)
        if found.id < first.id or end.tick < first.id:
            found = None
    if found is None:
        raise BadOption(
            f"{shown} is before the start, tick {first.id}", hint="set a later one, or remove it"
        )
    return found


def batch_end(conn: Connection, options: Options, start: Tick, last: Tick) -> Tick:
    """The tick with which a micro-batch ends by the limits of the options.

    start -- the tick after which it starts; last -- the last tick that it may have.

    It has one tick at least.
    """
    queue, most, events = options.queue, options.max_ticks, options.max_events
    # The next has another id by one at least.
    if most is not None and last.id - start.id > most:
        last = next(iter(ticks.between(conn, queue, start.id, last.id, skip=most, most=1)), last)
    if options.max_bytes is not None:
        fitting = max(1, options.max_bytes // _average_size(conn, queue, start, last))
        events = fitting if events is None else min(events, fitting)
    if events is not None and last.seq > start.seq + events:
        limit = start.seq + events
        last = ticks.last_such(conn, queue, start, last, lambda tick: tick.seq <= limit)
        if last.id == start.id:
            (last,) = ticks.between(conn, queue, start.id, skip=1, most=1)
    return last


def parts(
    conn: Connection, options: Options, first: int, last: int, seen: str = ""
) -> tuple[Tick, Tick, list[TickRange]] | None:
    """The two ticks, and the parts of the events between them; None: one of the two is missing."""
    found = ticks.apart(conn, options.queue, first, last, MOST_TICKS)
    if not found or found[0].id != first or found[-1].id != last:
        return None
    made = offsets.slices(
        found,
        options.partitions,
        seen,
        sampled=last - first > MOST_TICKS,
        whole=options.net is Net.NET_CHANGES,
    )
    return found[0], found[-1], made


def pages(conn: Connection, options: Options, part: TickRange) -> Iterator[TickRange]:
    """In a task: its part with all ticks, divided so that each piece fits into memory.

    Raises PositionLost for ticks that no longer exist.
    """
    net = options.net is Net.NET_CHANGES
    if not part.sampled and not net:
        yield part
        return
    begin, last = part.ticks[0], part.ticks[-1]
    while begin.id < last.id:
        found = ticks.between(conn, options.queue, begin.id, last.id, most=PAGE_TICKS + 1)
        if len(found) < 2 or found[0].id != begin.id:
            raise lost(conn, options.queue, begin.id)
        if net:
            limit = begin.seq + PAGE_EVENTS
            fitting = sum(1 for tick in found[1:] if tick.seq <= limit)
            found = found[: max(1, fitting) + 1]
        yield replace(part, ticks=tuple(found), sampled=False)
        begin = found[-1]


def _at(conn: Connection, queue: str, tick: int) -> Tick:
    found = ticks.between(conn, queue, tick, tick)
    if not found:
        raise lost(conn, queue, tick)
    return found[0]


def _before(conn: Connection, queue: str, tick: int) -> Tick:
    """The tick after which the events of a tick come."""
    newest = ticks.newest(conn, queue)
    if newest is None or newest.id < tick:
        raise lost(conn, queue, tick)
    found = ticks.newest(conn, queue, before=tick)
    if found is None and tick == 1:
        # Nothing comes with the first tick of a queue.
        return _at(conn, queue, tick)
    if found is None:
        raise lost(conn, queue, tick - 1)
    return found


def _last_until(
    conn: Connection,
    name: str,
    first: Tick,
    last: Tick,
    options: Options,
    time: datetime,
    *,
    end: bool = False,
) -> Tick | None:
    """The last tick before a time, or at it; None: there is none."""
    with translated(conn):
        row = conn.execute("select now()").fetchone()
    assert row is not None
    if time > row[0]:
        raise BadOption(
            f"{name}: {time.isoformat()} is in the future",
            detail=f"the server's time is {row[0].isoformat()}",
            hint=f"use an earlier time, or omit {name}",
        )
    # What is read begins after the tick that is found, or ends with it.
    at = options.end.inclusive if end else not options.start.inclusive

    def holds(tick: Tick) -> bool:
        return tick.time < time or (at and tick.time == time)

    return ticks.last_such(conn, options.queue, first, last, holds) if holds(first) else None


def _average_size(conn: Connection, queue: str, start: Tick, last: Tick) -> int:
    """Bytes of an event between two ticks, about."""
    with translated(conn), conn.transaction():
        events = ticks.tick_event_sql(conn, queue, start.id, last.id, ordered=False)
        row = conn.execute(
            f"select avg(pg_catalog.octet_length(concat(ev_data, ev_extra2)))::int8 from"
            f" ({events}\nlimit {SAMPLE_EVENTS}) as ev".encode()
        ).fetchone()
    return max(1, (row and row[0]) or 1)


def no_tick(queue: str) -> StateError:
    """Error for a queue without ticks."""
    return StateError(f"queue {queue} has no tick", hint="start the ticker: londiste ticker")


def lost(conn: Connection, queue: str, tick: int) -> PositionLost | StateError:
    """Error for a tick that no longer exists, or does not exist yet."""
    first, last = ticks.oldest_complete(conn, queue), ticks.newest(conn, queue)
    if last is None or tick > last.id:
        return StateError(
            f"queue {queue} has no tick {tick} yet",
            detail="the queue has no tick" if last is None else f"newest tick: {last.id}",
            hint="start with startingOffsets=latest",
        )
    return PositionLost(
        f"queue {queue}: events after tick {tick} no longer exist",
        detail=(
            "no tick has all events after it"
            if first is None
            else f"all events exist after ticks {first.id} to {last.id}"
        )
        + "; rotation removes what no registered consumer needs",
        hint="read the rows of the table again: a new query with mode=snapshot-then-changes and"
        " another checkpoint, or spark.read with mode=snapshot; with failOnDataLoss=false the query"
        " skips lost events",
    )
