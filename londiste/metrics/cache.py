"""Cache of a collection: one at a time, in its own thread, however many clients ask."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from londiste.daemon.loop import as_londiste, describe

log = logging.getLogger(__name__)
T = TypeVar("T")

#: Seconds for which a value is new enough.
FRESH = 5.0
#: Seconds for which a client waits; a scrape of Prometheus waits for 10.
PATIENCE = 8.0
#: Seconds after which an old value is no longer shown.
OLDEST = 60.0


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """The newest value.

    value -- None: there is none, or it is too old.  ok -- whether the last collection succeeded.
    """

    value: T | None
    ok: bool
    age: float
    seconds: float


class Cache(Generic[T]):
    """Holds the newest result of ``collect``, which is called when a client asks."""

    def __init__(
        self,
        collect: Callable[[], T],
        *,
        fresh: float = FRESH,
        patience: float = PATIENCE,
        oldest: float = OLDEST,
    ) -> None:
        self._collect = collect
        self._fresh, self._patience, self._oldest = fresh, patience, oldest
        self._lock = threading.Lock()
        self._done: threading.Event | None = None
        self._value: T | None = None
        self._taken = 0.0
        self._tried = float("-inf")
        self._seconds = 0.0
        self._ok = False

    def get(self) -> Outcome[T]:
        """The newest value; waits for a collection if it is not new enough."""
        with self._lock:
            if self._done is None and time.monotonic() - self._tried > self._fresh:
                self._done = threading.Event()
                threading.Thread(target=self._run, name="metrics", daemon=True).start()
            done = self._done
        in_time = done is None or done.wait(self._patience)
        with self._lock:
            age = time.monotonic() - self._taken
            value = self._value if age <= self._oldest else None
            return Outcome(value, self._ok and in_time, age, self._seconds)

    def _run(self) -> None:
        started = time.monotonic()
        value: T | None = None
        try:
            value = self._collect()
        except Exception as error:
            log.warning("metrics: %s", describe(as_londiste(error)))
        with self._lock:
            self._ok = value is not None
            self._tried = time.monotonic()
            self._seconds = self._tried - started
            if value is not None:
                self._value, self._taken = value, self._tried
            done, self._done = self._done, None
        if done is not None:
            done.set()
