"""History of lag and rates in memory: bounded in the number of series and of their points."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping

from londiste.console.collect import Snapshot
from londiste.monitor.queues import rules
from londiste.monitor.queues.model import MonitorFacts

#: Points of a series, and series of the console.
POINTS = 720
MOST_SERIES = 400

#: What a series is about: (lag, node), (backlog, node), (written, node, queue), …
Key = tuple[str, ...]


class Series:
    """Values over time, one for each span of ``step`` seconds: the largest of the span."""

    def __init__(self, step: float) -> None:
        self._step = step
        self._points: deque[tuple[int, float]] = deque(maxlen=POINTS)

    def add(self, at: float, value: float) -> None:
        """Adds a value at a time in seconds."""
        span = int(at // self._step)
        if self._points and self._points[-1][0] >= span:
            span, before = self._points.pop()
            value = max(before, value)
        self._points.append((span, value))

    def points(self, now: float) -> list[tuple[float, float]]:
        """(seconds before ``now``, value), the oldest first; none older than POINTS spans."""
        found = [(max(0.0, now - span * self._step), value) for span, value in self._points]
        return [point for point in found if point[0] <= POINTS * self._step]

    @property
    def newest(self) -> int:
        """The span of the newest point."""
        return self._points[-1][0] if self._points else -1


class History:
    """The series of a console; hours -- that a series covers."""

    def __init__(self, hours: float) -> None:
        self.seconds = hours * 3600
        self._step = self.seconds / POINTS
        self._series: dict[Key, Series] = {}
        self._before: tuple[float, dict[str, MonitorFacts]] | None = None
        self._lock = threading.Lock()

    def add(self, snapshot: Snapshot) -> None:
        """Adds the values of a snapshot."""
        now = snapshot.taken_at.timestamp()
        facts = {n: f.queues for n, f in snapshot.nodes.items() if f.queues is not None}
        values = measured(snapshot, facts)
        if self._before is not None and now > self._before[0]:
            values |= rates(self._before[1], facts, now - self._before[0])
        self._before = (now, facts)
        with self._lock:
            for key, value in values.items():
                if key not in self._series:
                    self._make_room()
                    self._series[key] = Series(self._step)
                self._series[key].add(now, value)

    def points(self, key: Key, now: float) -> list[tuple[float, float]]:
        """The points of a series; none if it is unknown."""
        with self._lock:
            series = self._series.get(key)
            return [] if series is None else series.points(now)

    def latest(self, key: Key, now: float) -> float | None:
        """The newest value of a series, if it is not older than three spans or ten seconds."""
        points = self.points(key, now)
        return points[-1][1] if points and points[-1][0] <= max(10.0, 3 * self._step) else None

    def _make_room(self) -> None:
        if len(self._series) >= MOST_SERIES:
            del self._series[min(self._series, key=lambda key: self._series[key].newest)]


def measured(snapshot: Snapshot, facts: Mapping[str, MonitorFacts]) -> dict[Key, float]:
    """Pure: the values of a snapshot."""
    found: dict[Key, float] = {}
    for node in snapshot.status.nodes:
        if node.behind is not None and node.type != "root":
            if node.behind.seconds is not None:
                found["lag", node.name] = node.behind.seconds
            found["backlog", node.name] = float(node.behind.events)
    for name, database in facts.items():
        for one in database.consumers:
            if one.pending is not None:
                key = ("pending", name, one.queue)
                found[key] = max(found.get(key, 0.0), float(one.pending))
    return found


def rates(
    before: Mapping[str, MonitorFacts], after: Mapping[str, MonitorFacts], seconds: float
) -> dict[Key, float]:
    """Pure: events per second between two snapshots, written and read."""
    found: dict[Key, float] = {}
    for name in before.keys() & after.keys():
        speed = rules.compare(before[name], after[name], seconds)
        for queue, rate in speed.produced.items():
            found["written", name, queue] = max(0.0, rate)
        for (queue, consumer), rate in speed.consumed.items():
            found["read", name, queue, consumer] = max(0.0, rate)
    return found
