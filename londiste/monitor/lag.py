"""Distance of a node to the last change, and the parts of its latency."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

import psycopg

from londiste.cascade import sqlapi as nodes
from londiste.cascade import topology
from londiste.cascade.model import NodeInfo, NodeType
from londiste.daemon.durations import dhms
from londiste.db.connection import Connection
from londiste.db.connstr.locations import reach, with_parameters
from londiste.db.queries import tuples
from londiste.errors import AccessDenied, InstallError, LondisteError
from londiste.pgq import counting, position_check
from londiste.pgq import ticks as ticks_of
from londiste.replication.tablesync.wait import NotCurrent

#: Levels of a cascade after which the search for its root ends.
_DEEPEST = 16
#: Seconds after the longest time until a tick after which its lack is reported.
TICK_PATIENCE = 10.0


@dataclass(frozen=True)
class Behind:
    """Distance of a position to the last change in the root's queue.

    ticks -- after the position.
    events -- counted up to ``counting.COUNTED``; above it an upper limit by the ids.
    seconds -- by the root's clock since the first tick with changes after the position; without
        one, since it was due; None: unknown, as the clock was set back.
    """

    ticks: int
    events: int
    seconds: float | None

    @property
    def idle(self) -> bool:
        """Whether everything up to the last change is applied."""
        return not self.events

    @property
    def needs_tick(self) -> bool:
        """Whether all events wait for a tick, and for longer than a ticker lets them wait."""
        late = self.seconds is None or self.seconds > TICK_PATIENCE
        return bool(self.events) and not self.ticks and late

    def __str__(self) -> str:
        if self.idle:
            return "idle"
        if not self.ticks:
            return f"about {self.events:,} events wait for a tick"
        ticks = "1 tick" if self.ticks == 1 else f"{self.ticks} ticks"
        events = "1 event" if self.events == 1 else f"about {self.events:,} events"
        time = "time unknown" if self.seconds is None else dhms(self.seconds)
        return f"behind by {ticks}, {events}, {time}"


@dataclass(frozen=True)
class Position:
    """A tick in the root's queue, in relation to its newest.

    time -- when it was created: another tick of the same number has another time.
    age -- seconds since the tick; None: unknown.
    max_lag -- the longest time an event waits for its tick.
    events -- of the queue, before the tick.
    """

    time: datetime
    age: float | None
    behind: Behind
    max_lag: float
    events: int


@dataclass(frozen=True)
class Latency:
    """Parts of the time from a commit on the root until the change is visible on a node.

    tick -- longest time until the ticker creates a tick.
    fetch -- from that tick until this node opened its last batch.
    apply -- time that the batch took, until its commit made it visible.
    """

    tick: float
    fetch: float | None = None
    apply: float | None = None

    @property
    def total(self) -> float:
        """All parts that are known."""
        return self.tick + (self.fetch or 0.0) + (self.apply or 0.0)

    def __str__(self) -> str:
        parts = [("tick", self.tick), ("fetch", self.fetch), ("apply", self.apply)]
        known = [(name, value) for name, value in parts if value is not None]
        worst = max(known, key=lambda part: part[1])[0]
        text = " + ".join(f"{name} {value:.3g}s" for name, value in known)
        return f"{text}; most: {_WORST[worst]}"


_WORST = {
    "tick": "waiting for a tick (ticker_max_lag)",
    "fetch": "waiting for the worker to open the batch",
    "apply": "applying the batch",
}


def positions(root_dsn: str, queue: str, ticks: Iterable[int]) -> dict[int, Position] | None:
    """The ticks that the root's queue has, by id; None if the root does not answer."""
    try:
        dsn = with_parameters(root_dsn, connect_timeout=topology.CONNECT_SECONDS)
        with topology.asking(dsn, name="londiste status") as conn:
            return positions_at(conn, queue, ticks)
    except (LondisteError, psycopg.Error):
        return None


def without_tick(conn: Connection, queue: str, extra: str) -> NotCurrent | None:
    """Why a node whose worker runs is not current: events of the root wait too long for a tick.

    conn -- a session of the node.  extra -- connection parameters added to every location.
    None also if the root does not answer.
    """
    node = nodes.get_node_info(conn, queue)
    if node.type is NodeType.ROOT:
        return None
    root = find_root(node.provider_location, queue, extra)
    told = positions(root, queue, [node.last_tick]) if root is not None else None
    position = (told or {}).get(node.last_tick)
    if position is None or not position.behind.needs_tick:
        return None
    late = position.behind.seconds
    since = "" if late is None else f", which is {dhms(late)} late"
    return NotCurrent("stale", f"{position.behind}{since}: londiste check", ("no tick",))


def positions_at(conn: Connection, queue: str, ticks: Iterable[int]) -> dict[int, Position]:
    """The ticks that the root's queue has, by id; ``conn`` is a session on the root."""
    rows = tuples(conn, "tick_lags", queue=queue, ticks=list(ticks))
    oldest_event = functools.cache(lambda: counting.oldest_since_tick(conn, queue))
    found = {}
    for tick, time, age, later, most, missing, missing_age, newest_age, lag, before in rows:
        behind = Behind(later, _events(conn, queue, tick, later, most), 0.0)
        if behind.events and missing is not None:
            behind = replace(behind, seconds=ticks_of.age(conn, queue, missing, missing_age))
        elif behind.events:
            unknown = newest_age < -ticks_of.AHEAD
            late = None if unknown else overdue(newest_age, oldest_event(), lag)
            behind = replace(behind, seconds=late)
        found[int(tick)] = Position(
            time, ticks_of.age(conn, queue, tick, age), behind, float(lag), int(before)
        )
    return found


def overdue(newest_age: float, oldest: float | None, max_lag: float) -> float:
    """Pure: the seconds for which events wait for a tick longer than they should.

    newest_age -- since the newest tick.  oldest -- since the oldest of them; None: unknown.
    """
    # In an idle queue the tick is older than they are; a transaction may be older than the tick.
    waited = newest_age if oldest is None else min(newest_age, oldest)
    return max(0.0, waited - max_lag)


def _events(conn: Connection, queue: str, tick: int, later: int, most: int) -> int:
    """The events after a tick, counted: a forced tick consumes ids without events."""
    if most <= 0:
        return 0
    events = counting.between(conn, queue, tick, tick + later, most) if later else 0
    return min(most, events + counting.since_tick(conn, queue, most))


def find_root(location: str, queue: str, extra: str) -> str | None:
    """The connection string of the root above a node's provider; None: a node does not answer."""
    try:
        for _ in range(_DEEPEST):
            root = reach(location, extra)
            dsn = with_parameters(root, connect_timeout=topology.CONNECT_SECONDS)
            with topology.asking(dsn, name="londiste status") as conn:
                info = nodes.get_node_info(conn, queue)
            if info.type is NodeType.ROOT:
                return root
            location = info.provider_location
    except (LondisteError, psycopg.Error):
        return None
    return None


def tick_time(conn: Connection, queue: str, info: NodeInfo) -> datetime | None:
    """When the tick of the node's position was created; None: of the root, or unknown."""
    if info.type is NodeType.ROOT:
        return None
    with contextlib.suppress(InstallError, AccessDenied):
        known = position_check.recall(conn, queue, info.worker)
        if known is not None and known.tick == info.last_tick:
            return known.tick_time
    return None
