"""Task schedule of the ticker: due tasks and sleep times; pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Task(StrEnum):
    """A task of the ticker for a database; in order of execution."""

    TICK = "tick"
    RETRY = "retry"
    MAINTENANCE = "maintenance"
    STATISTICS = "statistics"


#: Times are kept in fractions that do not add up exactly; less than this is no time at all.
_INSTANT = 1e-3


def due(now: float, last: Mapping[Task, float], periods: Mapping[Task, float]) -> list[Task]:
    """The tasks whose period is over, in the order of ``Task``.

    now, last -- seconds of one clock that never goes back; a task that never ran is due.
    periods -- seconds from one start to the next; tasks without a period are never due.
    """
    return [task for task in Task if task in periods and _left(task, now, last, periods) == 0]


def pause(now: float, last: Mapping[Task, float], periods: Mapping[Task, float]) -> float:
    """Seconds until the next task is due; 0 when one is."""
    return min(_left(task, now, last, periods) for task in periods)


#: Shortest time between two looks at the queues, in seconds.
SHORTEST_LOOK = 0.002

#: After a quiet time a look comes late by this part of it at most.
_LATE = 0.05

#: Part of the time that looking may take, where looking at all queues takes long.
_BUSY = 0.2

#: The same of a look that made a tick: it waits for the disk most of that time.
_BUSY_TICKING = 0.5

#: Events a second up to which ticks may take that part of the time.
_CALM = 250.0

#: What is left of it under load: ticks and the batches they cause compete with the writers.
_BUSY_LOADED = 0.05

#: Longest pause because of load, in seconds.
_LOADED_PAUSE = 0.1


def ticking_share(events: float) -> float:
    """Part of the time that making ticks may take, by the events per second of the queues.

    Few writers do not notice a tick every few milliseconds, and it makes events visible at once.
    Writers that keep the server busy pay for each tick, and for each batch that a consumer opens
    for it, with their own rate; the more events, the more of them a tick has to serve.
    """
    return max(_BUSY_LOADED, _BUSY_TICKING * min(1.0, _CALM / max(events, 1.0)))


def look_pause(
    period: float,
    lag: float | None,
    quiet: float,
    took: float,
    *,
    ticked: bool = False,
    events: float = 0.0,
) -> float:
    """Seconds between the end of one check of the queues and the next.

    period -- the longest pause, for idle queues.
    lag -- the shortest lag of a queue; None: no queues.
    quiet -- seconds since a tick was made.
    took -- duration of the check.
    ticked -- it made a tick.
    events -- new ones per second.

    While there are events, looks follow each other so fast that the lag is kept: the next tick
    is due a lag after the last, and later events have waited for half of it at most.  The longer
    nothing came, the rarer looks get, so that idle queues cost next to nothing; the first event
    after that waits a twentieth of the quiet time, and never longer than a period.
    """
    if lag is None:
        return period
    if ticked:
        wanted = lag - took
        rest = max(
            _rest(took, _BUSY_TICKING), min(_LOADED_PAUSE, _rest(took, ticking_share(events)))
        )
    else:
        wanted = lag / 2 - took
        rest = _rest(took, _BUSY)
    return min(period, max(SHORTEST_LOOK, wanted, quiet * _LATE, rest))


def _rest(took: float, share: float) -> float:
    """Pause after work, so that work takes this part of the time."""
    return took * (1 / share - 1)


def due_pause(period: float, seconds: float | None) -> float:
    """Seconds until the next check for due retries and delayed events.

    period -- the longest pause: new events may be due earlier.
    seconds -- until the first waiting one; None: none.
    """
    return period if seconds is None else min(period, max(SHORTEST_LOOK, seconds))


def _left(
    task: Task, now: float, last: Mapping[Task, float], periods: Mapping[Task, float]
) -> float:
    if task not in last:
        return 0.0
    left = last[task] + periods[task] - now
    return left if left > _INSTANT else 0.0
