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


def look_pause(
    period: float, lag: float | None, quiet: float, took: float, *, ticked: bool = False
) -> float:
    """Seconds between the end of one check of the queues and the next.

    period -- the longest pause, for idle queues.
    lag -- the shortest lag of a queue; None: no queues.
    quiet -- seconds since a tick was made.
    took -- duration of the check.
    ticked -- it made a tick.

    While there are events, looks follow each other so fast that the lag is kept: the next tick
    is due a lag after the last, and later events have waited for half of it at most.  The longer
    nothing came, the rarer looks get, so that idle queues cost next to nothing; the first event
    after that waits a twentieth of the quiet time, and never longer than a period.
    """
    if lag is None:
        return period
    busy = _BUSY_TICKING if ticked else _BUSY
    wanted = (lag if ticked else lag / 2) - took
    return min(period, max(SHORTEST_LOOK, wanted, quiet * _LATE, took * (1 / busy - 1)))


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
