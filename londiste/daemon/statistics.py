"""Batch statistics: a periodic log line with the sums of a worker or consumer."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

log = logging.getLogger(__name__)


class BatchStatistics:
    """Counts batches and logs the sums every ``period`` seconds.

    keepalive -- seconds between two lines while there is no batch; None: the period.
    always -- counters that are logged even if they are 0.
    """

    def __init__(
        self, period: float, keepalive: float | None = None, *, always: Iterable[str] = ()
    ) -> None:
        self.period = period
        self.keepalive = keepalive
        #: Called with the events and the seconds of each batch.
        self.observe: Callable[[int, float], None] | None = None
        self._always = tuple(always)
        self._start()

    def count(self, events: int, seconds: float, counters: Mapping[str, int]) -> None:
        """Adds a batch: its events, the time it took, and other counters."""
        self._batches += 1
        self._events += events
        self._seconds += seconds
        self._counters.update(counters)
        if self.observe is not None:
            self.observe(events, seconds)

    def log_when_due(self, *, now: bool = False) -> None:
        """Logs and resets the sums at the end of the period; ``now``: at once, if there are any."""
        passed = time.monotonic() - self._since
        idle_period = self.period if self.keepalive is None else self.keepalive
        due = passed >= (self.period if self._batches else idle_period)
        if not due and not (now and self._batches):
            return
        numbers = {
            "count": f"{self._events}",
            "batches": f"{self._batches}",
            "duration": f"{self._seconds:.2f}",
            "idle": f"{max(0.0, passed - self._seconds):.1f}",
            **{name: f"{value}" for name, value in sorted(self._counters.items())},
        }
        text = ", ".join(f"{name}: {value}" for name, value in numbers.items())
        summed = {name: float(value) for name, value in numbers.items()}
        log.info("{%s}", text, extra={"statistics": summed})
        self._start()

    def _start(self) -> None:
        self._since = time.monotonic()
        self._batches = self._events = 0
        self._seconds = 0.0
        self._counters: Counter[str] = Counter(dict.fromkeys(self._always, 0))
