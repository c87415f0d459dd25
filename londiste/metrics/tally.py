"""Counters of a process: what the worker, the ticker and ``run`` report about their own work."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Iterator, Mapping

from londiste.metrics.catalog import Histogram, Sample
from londiste.ticker.database import Counts

_LIMITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Durations:
    """Collects a histogram of seconds."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_LIMITS) + 1)
        self._sum = 0.0

    def add(self, seconds: float) -> None:
        self._counts[bisect.bisect_left(_LIMITS, seconds)] += 1
        self._sum += seconds

    @property
    def value(self) -> Histogram:
        return Histogram(_LIMITS, tuple(self._counts), self._sum)


class WorkerTally:
    """Batches of a worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations = Durations()
        self._events = 0

    def batch(self, events: int, seconds: float) -> None:
        """A batch was applied."""
        with self._lock:
            self._durations.add(seconds)
            self._events += events

    def samples(self) -> Iterator[Sample]:
        with self._lock:
            events, durations = self._events, self._durations.value
        yield Sample("londiste_worker_batches_total", sum(durations.counts))
        yield Sample("londiste_worker_events_total", events)
        yield Sample("londiste_worker_batch_duration_seconds", durations)


class TickerTally:
    """Rounds of a ticker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._durations = Durations()
        self._counts = Counts()
        self._last: dict[str, float] = {}

    def round(self, dsn: str, seconds: float) -> None:
        """A round of ticks of a database was finished."""
        with self._lock:
            self._durations.add(seconds)
            self._last[dsn] = time.monotonic()

    def count(self, done: Counts) -> None:
        """Adds what was done."""
        with self._lock:
            self._counts += done

    def late(self, since: Mapping[str, float], allowed: float) -> list[str]:
        """The databases without a round for longer than ``allowed`` seconds.

        since -- databases, and when each was first served (monotonic).
        """
        now = time.monotonic()
        with self._lock:
            return [d for d, start in since.items() if now - self._last.get(d, start) > allowed]

    def ticked(self, dsn: str) -> bool:
        """Whether a database has had a round of ticks."""
        with self._lock:
            return dsn in self._last

    def samples(self) -> Iterator[Sample]:
        with self._lock:
            counts, durations = self._counts, self._durations.value
        yield Sample("londiste_ticks_total", counts.ticks)
        yield Sample("londiste_tick_duration_seconds", durations)
        yield Sample("londiste_ticker_retries_total", counts.retries)
        yield Sample("londiste_ticker_maintenance_total", counts.maintenance)
