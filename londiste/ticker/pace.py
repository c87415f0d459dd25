"""Tick pace: ticks of a queue slow down while a consumer falls behind.

A branch applies every tick of its provider as a batch, and so does any consumer that joins no
ticks.  A tick every few milliseconds may be too many; then the consumer would fall behind while
changes continue.  A queue whose consumer falls behind ticks a little more slowly than that consumer
works, until it has caught up; then it returns to ``ticker_max_lag`` step by step.

No clock, no connection: what was seen goes in, seconds come out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: Looks that are compared, one a second.
WINDOW = 6

#: A consumer that was this many ticks behind at all these looks, and is farther now, falls back.
BEHIND = 100

#: One that is nearer than this has come up.
NEAR = 50

#: The longest time between two ticks, in seconds, that is asked for here.
SLOWEST = 1.0

#: Ticks for each batch of the slowest consumer, so that it comes nearer.
_SHARE = 0.8

#: The time between two ticks from one look to the next, when all consumers are near.
_EASE = 0.8


@dataclass(frozen=True)
class Standing:
    """One observation of a queue.

    now -- seconds of a clock that never goes back.
    lag -- ticker_max_lag, seconds.
    tick -- the newest one; events -- last number of an event at that tick.
    consumers -- their ticks by their names.
    """

    queue: str
    now: float
    lag: float
    tick: int
    events: int
    consumers: Mapping[str, int]


@dataclass
class Pace:
    """Times between two ticks for each queue of a database."""

    _seen: dict[str, deque[Standing]] = field(default_factory=dict)
    _slowed: dict[str, float] = field(default_factory=dict)

    @property
    def lags(self) -> Mapping[str, float]:
        """Seconds between two ticks of every queue that ticks here, at the last observation."""
        return {name: self._slowed.get(name, looks[-1].lag) for name, looks in self._seen.items()}

    @property
    def events(self) -> float:
        """New events per second of all queues, between the last two observations."""
        return sum(event_rate(looks) for looks in self._seen.values())

    @property
    def slowed(self) -> Mapping[str, float]:
        """Seconds between two ticks of the queues that are slowed down."""
        return self._slowed

    def look(self, standings: Iterable[Standing]) -> None:
        """Adds an observation of all queues; queues that are missing in it are removed."""
        seen, slowed = {}, {}
        for one in standings:
            history = self._seen.get(one.queue, deque(maxlen=WINDOW))
            history.append(one)
            seen[one.queue] = history
            wanted = wait(history, self._slowed.get(one.queue, 0.0))
            if wanted > one.lag:
                slowed[one.queue] = wanted
        self._seen, self._slowed = seen, slowed


def event_rate(history: Iterable[Standing]) -> float:
    """Events per second of a queue between the last two observations; 0 for one alone."""
    *before, last = history
    if not before or last.now <= before[-1].now:
        return 0.0
    return max(0, last.events - before[-1].events) / (last.now - before[-1].now)


def wait(history: Iterable[Standing], before: float) -> float:
    """Seconds between two ticks of a queue from now on; 0 for no slowdown.

    history -- observations of it, the last one at the end.
    before -- the result of the previous observation.
    """
    looks = list(history)
    first, last = looks[0], looks[-1]
    rates = []
    near = True
    for name, tick in last.consumers.items():
        behind = [one.tick - one.consumers[name] for one in looks if name in one.consumers]
        moved = tick - first.consumers.get(name, tick)
        if last.now <= first.now or not moved:
            # It stands still, for a reason of its own: it has ended, it is paused, it copies.
            continue
        near = near and behind[-1] <= NEAR
        if len(behind) == WINDOW and min(behind) > BEHIND and behind[-1] > behind[0]:
            rates.append(moved / (last.now - first.now))
    if rates:
        return min(SLOWEST, max(before, last.lag, 1 / (min(rates) * _SHARE)))
    return before * _EASE if near else before
