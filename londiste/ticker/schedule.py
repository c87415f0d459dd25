"""Which tasks are due, and how long until the next one; no clock, no connection."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Task(StrEnum):
    """What a ticker does for a database, in the order in which it does it."""

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


def _left(
    task: Task, now: float, last: Mapping[Task, float], periods: Mapping[Task, float]
) -> float:
    if task not in last:
        return 0.0
    left = last[task] + periods[task] - now
    return left if left > _INSTANT else 0.0
