"""The consumer's line of numbers in the log, now and then."""

from __future__ import annotations

import logging
import time
from collections import Counter

from londiste.consumer.context import Context

log = logging.getLogger(__name__)


class ConsumerStatistics:
    """Counts batches and logs the sums every ``period`` seconds.

    While nothing happens there is a line every ``keepalive`` seconds, so that a silent log means
    a stopped process.
    """

    def __init__(self, period: float, keepalive: float) -> None:
        self.period = period
        self.keepalive = keepalive
        self._start()

    def count(self, events: int, seconds: float, done: Context | None) -> None:
        """Adds a batch: events handed to the function, time it took, what it decided."""
        self._batches += 1
        self._events += events
        self._seconds += seconds
        if done is not None:
            self._more.update(done.stats)
            for outcome in done.outcomes.values():
                self._more["dead" if outcome.seconds is None else "retried"] += 1

    def log_when_due(self, *, now: bool = False) -> None:
        """Logs the sums and begins anew, when the period is over."""
        passed = time.monotonic() - self._since
        if passed < (self.period if self._batches else self.keepalive) and not (
            now and self._batches
        ):
            return
        numbers = {
            "count": f"{self._events}",
            "batches": f"{self._batches}",
            "duration": f"{self._seconds:.2f}",
            "idle": f"{max(0.0, passed - self._seconds):.1f}",
            **{key: f"{value}" for key, value in sorted(self._more.items())},
        }
        text = ", ".join(f"{key}: {value}" for key, value in numbers.items())
        summed = {key: float(value) for key, value in numbers.items()}
        log.info("{%s}", text, extra={"statistics": summed})
        self._start()

    def _start(self) -> None:
        self._since = time.monotonic()
        self._batches = self._events = 0
        self._seconds = 0.0
        self._more: Counter[str] = Counter()
