"""Counters of a process: what a worker, a ticker, a consumer and ``run`` report about their work.

They are numbers in memory, or in a file that ``londiste run`` gives to its children and reads.
"""

from __future__ import annotations

import bisect
import contextlib
import mmap
import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO, ClassVar, TypeAlias

from londiste.metrics.catalog import Histogram, Sample
from londiste.ticker.rounds import Counts

_LIMITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
#: Environment variable with the number of the file for the counters of a child.
FILE = "LONDISTE_TALLY_FILE"
#: Numbers of a tally: its own counters, the sum of the histogram, and its buckets.
_OWN = 3
_SUM = _OWN
_BUCKETS = _SUM + 1
_NUMBERS = _BUCKETS + len(_LIMITS) + 1
_BYTES = 8 * _NUMBERS


Numbers: TypeAlias = "memoryview[float]"


def in_memory() -> Numbers:
    """Numbers that no other process reads."""
    return memoryview(bytearray(_BYTES)).cast("d")


def in_file(number: int) -> Numbers:
    """Numbers in a shared file.  Raises OSError or ValueError if it is not such a file."""
    found = os.fstat(number)
    if not stat.S_ISREG(found.st_mode) or found.st_size != _BYTES:
        raise ValueError("not a file of counters")
    return memoryview(mmap.mmap(number, _BYTES)).cast("d")


def inherited() -> Numbers:
    """The numbers in the file that the parent has given, or in memory."""
    given = os.environ.pop(FILE, "")
    if given:
        with contextlib.suppress(OSError, ValueError, OverflowError):
            found = in_file(int(given))
            # The mapping stays; programs that this one starts do not get the file.
            os.close(int(given))
            return found
    return in_memory()


class Tally:
    """Counters and a histogram of seconds; the names of their metrics are in the class."""

    totals: ClassVar[tuple[str, ...]] = ()
    durations: ClassVar[str] = ""

    def __init__(self, daemon: str = "", numbers: Numbers | None = None) -> None:
        self.daemon = daemon
        self._numbers = in_memory() if numbers is None else numbers
        self._lock = threading.Lock()

    def samples(self) -> Iterator[Sample]:
        """The values now."""
        with self._lock:
            numbers = self._numbers.tolist()
        labels = {"daemon": self.daemon}
        for name, value in zip(self.totals, numbers[:_OWN], strict=False):
            yield Sample(name, value, labels)
        counts = tuple(int(count) for count in numbers[_BUCKETS:])
        yield Sample(self.durations, Histogram(_LIMITS, counts, numbers[_SUM]), labels)

    def _took(self, seconds: float) -> None:
        self._numbers[_SUM] += seconds
        self._numbers[_BUCKETS + bisect.bisect_left(_LIMITS, seconds)] += 1

    def _add(self, *values: float) -> None:
        for index, value in enumerate(values):
            self._numbers[index] += value


class _BatchTally(Tally):
    def batch(self, events: int, seconds: float) -> None:
        """A batch was finished."""
        with self._lock:
            self._add(1, events)
            self._took(seconds)


class WorkerTally(_BatchTally):
    """Batches of a worker."""

    totals = ("londiste_worker_batches_total", "londiste_worker_events_total")
    durations = "londiste_worker_batch_duration_seconds"


class ConsumerTally(_BatchTally):
    """Batches of a consumer or a dispatcher, or epochs of a lake."""

    totals = ("londiste_consumer_batches_total", "londiste_consumer_events_total")
    durations = "londiste_consumer_batch_duration_seconds"


class TickerTally(Tally):
    """Rounds of a ticker."""

    totals = (
        "londiste_ticks_total",
        "londiste_ticker_retries_total",
        "londiste_ticker_maintenance_total",
    )
    durations = "londiste_tick_duration_seconds"

    def __init__(self, daemon: str = "", numbers: Numbers | None = None) -> None:
        super().__init__(daemon, numbers)
        self._last: dict[str, float] = {}

    def round(self, dsn: str, seconds: float) -> None:
        """A round of ticks of a database was finished."""
        with self._lock:
            self._took(seconds)
            self._last[dsn] = time.monotonic()

    def count(self, done: Counts) -> None:
        """Adds what was done."""
        with self._lock:
            self._add(done.ticks, done.retries, done.maintenance)

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


#: Tallies of the children of ``londiste run``, by the first word of their names.
_OF_CHILDREN: dict[str, type[Tally]] = {
    "worker": WorkerTally,
    "ticker": TickerTally,
    "lake": ConsumerTally,
    "dispatch": ConsumerTally,
}


class ChildTallies:
    """Counters of the daemons that a process starts; they continue when a daemon starts again."""

    def __init__(self) -> None:
        self._files: dict[str, IO[bytes]] = {}
        self._tallies: dict[str, Tally] = {}

    def file(self, daemon: str) -> Mapping[str, int]:
        """Variable and file for a daemon of this name; none for one without counters."""
        kind = _OF_CHILDREN.get(daemon.partition(" ")[0])
        if kind is None:
            return {}
        if daemon not in self._files:
            # Without a name: nothing is left of it, however this process ends.
            file = tempfile.TemporaryFile()  # noqa: SIM115
            file.truncate(_BYTES)
            self._files[daemon] = file
            self._tallies[daemon] = kind(daemon, in_file(file.fileno()))
        return {FILE: self._files[daemon].fileno()}

    def samples(self) -> Iterator[Sample]:
        """The values of all daemons now."""
        for _, tally in sorted(self._tallies.items()):
            yield from tally.samples()
