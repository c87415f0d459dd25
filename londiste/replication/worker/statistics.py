"""Periodic log line of the worker's counters."""

from __future__ import annotations

import logging
import time

from londiste.replication.apply.batch import BatchStats

log = logging.getLogger(__name__)


class WorkerStatistics:
    """Counts batches and logs the sums every ``period`` seconds."""

    def __init__(self, period: float) -> None:
        self.period = period
        self._start()

    def count(self, batch: BatchStats) -> None:
        """Adds a batch."""
        self._batches += 1
        self._events += batch.events
        self._ignored += batch.ignored
        self._conflicts += batch.conflicts
        self._seconds += batch.seconds

    def log_when_due(self) -> None:
        """Logs the sums and resets them, when the period is over."""
        passed = time.monotonic() - self._since
        if passed < self.period:
            return
        numbers = {
            "count": self._events,
            "ignored": self._ignored,
            "batches": self._batches,
            "duration": round(self._seconds, 1),
            "idle": round(max(0.0, passed - self._seconds), 1),
        }
        if self._conflicts:
            numbers["conflicts"] = self._conflicts
        text = ", ".join(f"{name}: {value}" for name, value in numbers.items())
        log.info("{%s}", text, extra={"statistics": numbers})
        self._start()

    def _start(self) -> None:
        self._since = time.monotonic()
        self._batches = self._events = self._ignored = self._conflicts = 0
        self._seconds = 0.0
