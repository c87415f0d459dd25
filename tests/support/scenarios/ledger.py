"""Expected rows of every node at every moment, computed without Londiste's code.

The rows of the root are read after each write, and remembered with each tick.  So a node that
stands at a tick has to hold what was remembered with it: no more, no less, at any time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import psycopg

from tests.support.scenarios.harness import QUEUE
from tests.support.scenarios.in_process import Place, Stage

TABLES = ("public.a", "public.b", "public.c")
#: Table -> its rows as text.
Content: TypeAlias = dict[str, tuple[str, ...]]

_ROWS = " union all ".join(f"select '{t}', x::text from {t} x" for t in TABLES)
_NODE = """
select i.node_type, s.paused, s.cur_error,
    -- The position of a root is what all others have.
    case i.node_type when 'root' then (select max(tick_id) from pgq.tick) else s.last_tick_id end
from pgq_node.node_info i join pgq_node.local_state s
    on s.queue_name = i.queue_name and s.consumer_name = i.worker_name
"""
_IN_STEP = "select table_name from londiste.table_info where local and merge_state = 'ok'"
_TICKS = "select tick_id, tick_time::text from pgq.tick order by 1"
_EVENTS = """
select t.tick_id, e.ev_id, e.ev_time::text, e.ev_type, e.ev_data, e.ev_extra1, e.ev_extra2,
    e.ev_extra3, e.ev_extra4
from {} e cross join lateral (
    select min(tick_id) as tick_id from pgq.tick
    where txid_visible_in_snapshot(e.ev_txid, tick_snapshot)
) t
where t.tick_id is not null
"""


@dataclass(frozen=True)
class Seen:
    """A node at this moment."""

    kind: str
    tick: int
    paused: bool
    error: str | None


def look(place: Place) -> Seen | None:
    """What the node is; None when it is none."""
    rows = place.rows(_NODE)
    if not rows:
        return None
    kind, paused, error, tick = rows[0]
    return Seen(kind, tick, paused, error)


def content(place: Place) -> Content:
    """The rows of all tables."""
    found: dict[str, list[str]] = {table: [] for table in TABLES}
    for table, row in place.rows(_ROWS):
        found[table].append(row)
    return {table: tuple(sorted(rows)) for table, rows in found.items()}


def in_step(place: Place) -> set[str]:
    """The tables that a node keeps and that are not being copied."""
    return {table for (table,) in place.rows(_IN_STEP)}


def takes_writes(place: Place) -> bool:
    """Whether an event can be written there; it is not."""
    conn = place.session()
    try:
        with conn.transaction(force_rollback=True):
            conn.execute("select pgq.insert_event(%s, 'probe', '')", [QUEUE])
    except psycopg.Error as error:
        assert error.sqlstate in {"LD102", "LD101", "LD404"}, f"{error.sqlstate} {error}"
        return False
    return True


@dataclass
class Ledger:
    """What is remembered in one run.

    root -- who has taken writes last, as far as it is not lost.
    away -- roots that are lost and have not been taken back.
    beyond -- nodes that have more than the new root: they are to be made anew.
    """

    stage: Stage
    root: Place
    now: Content = field(default_factory=dict)
    at: dict[int, Content] = field(default_factory=dict)
    away: list[Place] = field(default_factory=list)
    beyond: list[Place] = field(default_factory=list)
    least: int = 0
    roots: int = 1

    def begin(self) -> None:
        """All nodes are in step."""
        self.now = content(self.root)
        self._remember()

    def nodes(self) -> Iterable[tuple[Place, Seen]]:
        """The nodes of the true line."""
        for place in self.stage.places:
            seen = look(place) if place not in self.away else None
            if seen is not None:
                yield place, seen

    def lose(self, place: Place) -> None:
        """The root is lost; what some live node has is not.  It may go on for itself."""
        self.away.append(place)
        self.least = max(
            (s.tick for p, s in self.nodes() if s.kind == "branch" and not p.cut), default=0
        )

    def found(self, place: Place) -> None:
        """The lost root is back and no other one has taken its place."""
        self.away.remove(place)

    def observe(self) -> None:
        """Who is the root, one only; the ticks that are new.  AssertionError on two, or a loss."""
        for place in list(self.away):
            if place is not self.root and (seen := look(place)) and seen.kind == "branch":
                self.away.remove(place)
        nodes = list(self.nodes())
        open_ = [p for p, s in nodes if s.kind != "leaf" and takes_writes(p)]
        assert len(open_) <= 1, f"{' and '.join(p.name for p in open_)} take writes"
        self._remember()
        for place in open_:
            if place is not self.root:
                self._another(place)

    def wrote(self) -> None:
        """Something was committed on the root."""
        self.now = content(self.root)

    def check(self) -> None:
        """Every node holds what it has to hold."""
        self.observe()
        for place, seen in self.nodes():
            if place is self.root:
                wanted, tables = self.now, set(TABLES)
            elif place in self.beyond:
                continue
            else:
                assert seen.tick in self.at, f"{place.name} stands at tick {seen.tick}, of nobody"
                wanted, tables = self.at[seen.tick], in_step(place)
            found = content(place)
            for table in tables:
                assert found[table] == wanted[table], (
                    f"{table} on {place.name} ({seen.kind}, tick {seen.tick}):"
                    f" {different(wanted[table], found[table])}"
                )

    def _remember(self) -> None:
        newest = max(self.at, default=0)
        for (tick,) in self.root.rows("select tick_id from pgq.tick where tick_id > %s", newest):
            self.at[tick] = self.now

    def _another(self, place: Place) -> None:
        """Another root takes writes: planned, or since the old one was lost."""
        lost = self.root in self.away
        (tick,) = place.rows("select max(tick_id) from pgq.tick")[0]
        assert tick in self.at, f"{place.name} is the root at tick {tick}, of nobody"
        if lost:
            assert tick >= self.least, f"{place.name} took over at {tick}, {self.least} was left"
            self.now = self.at[tick]
            self.at = {t: held for t, held in self.at.items() if t <= tick}
            self.beyond += [p for p, s in self.nodes() if s.tick > tick and p is not place]
        else:
            last = max(self.at)
            assert tick == last, f"{place.name} took over at {tick}, the last was {last}"
        found = content(place)
        for table in in_step(place):
            assert found[table] == self.now[table], (
                f"{table} on the new root {place.name}: {different(self.now[table], found[table])}"
            )
        self.root = place
        self.roots += 1
        self.now = found


def same_events(places: list[Place]) -> int:
    """Asserts that queues have the same events between the same ticks; the number of events.

    Ids, times, types and data; the transaction ids are each database's own.  The first tick of a
    branch is that of its making.
    """
    ticks = {p.slot: dict(p.rows(_TICKS)) for p in places}
    events = {p.slot: _events(p) for p in places}
    count = 0
    for number, one in enumerate(places):
        for other in places[number + 1 :]:
            first = max(one.born, other.born)
            mine, theirs = (
                {t: when for t, when in ticks[p.slot].items() if t > first} for p in (one, other)
            )
            assert mine == theirs, (
                f"ticks of {one.name} and {other.name}: {set(mine.items()) ^ set(theirs.items())}"
            )
            for tick in mine:
                here, there = events[one.slot][tick], events[other.slot][tick]
                odd = set(here) ^ set(there)
                assert here == there, (
                    f"events before tick {tick} of {one.name} and {other.name} differ:"
                    f" {sorted(odd)[:5]}; "
                    + "; ".join(f"{p.name}: {_whereabouts(p, events, odd)}" for p in places)
                )
                count += len(here)
    return count


def _events(place: Place) -> dict[int, list[tuple[Any, ...]]]:
    parent = place.value("select queue_data_pfx from pgq.queue")
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for tick, *event in place.rows(_EVENTS.format(parent)):
        found[tick].append(tuple(event))
    for events in found.values():
        events.sort()
    return found


def _whereabouts(
    place: Place, events: dict[int, dict[int, list[tuple[Any, ...]]]], odd: set[tuple[Any, ...]]
) -> str:
    """Before which ticks a queue has these events, and the newest tick that it has."""
    ids = {event[0] for event in odd}
    found = [
        (tick, event[0])
        for tick, some in events[place.slot].items()
        for event in some
        if event[0] in ids
    ]
    at = place.rows(
        "select t.tick_id, e.ev_id, e.ev_txid, t.tick_snapshot::text"
        f" from {place.value('select queue_data_pfx from pgq.queue')} e, pgq.tick t"
        " where e.ev_id = any(%s) and t.tick_id between %s and %s order by 1",
        list(ids),
        min([t for t, _ in found], default=0) - 1,
        max([t for t, _ in found], default=0),
    )
    return f"{sorted(found)[:5]} {at[:4]}"


def different(wanted: Iterable[Any], found: Iterable[Any]) -> str:
    """What is missing and what is too much."""
    here, there = set(wanted), set(found)
    return f"missing {sorted(here - there)[:5]}, too many {sorted(there - here)[:5]}"
