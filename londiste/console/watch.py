"""Watch: a thread that collects snapshots, often while a page is open, and keeps the newest."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from londiste.console.collect import Snapshot
from londiste.console.history import History
from londiste.daemon.loop import as_londiste, describe

log = logging.getLogger(__name__)

#: Seconds between two collections while no page is open; the history continues.
IDLE_SECONDS = 15.0
#: Seconds after a request for which a page counts as open.
_OPEN_SECONDS = 30.0
#: Seconds that the first page waits for the first snapshot.
_FIRST_SECONDS = 10.0
#: Seconds, and refreshes, after which a collection that has not ended is reported.
_LATE_SECONDS, _LATE_REFRESHES = 30.0, 3


@dataclass(frozen=True)
class View:
    """The newest snapshot.

    error -- why the last collection failed, or that the present one does not end; else empty.
    """

    number: int
    snapshot: Snapshot | None
    error: str = ""


class Watch:
    """Holds the newest view; refresh -- seconds between two collections."""

    def __init__(
        self, collect: Callable[[], Snapshot], history: History, *, refresh: float = 2.0
    ) -> None:
        self.history = history
        self.refresh = refresh
        self._collect = collect
        self._view = View(0, None)
        self._changed = threading.Condition()
        self._wake = threading.Event()
        self._stopping = False
        #: When the collection that is under way has begun.
        self._began: datetime | None = None
        self._asked = 0.0
        self._listeners: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._thread = threading.Thread(target=self._run, name="console watch", daemon=True)

    def start(self) -> None:
        """Begins to collect."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the collection, and the streams of all pages."""
        self._stopping = True
        self._wake.set()
        self._notify()

    @property
    def stopping(self) -> bool:
        return self._stopping

    def view(self) -> View:
        """The newest view for a request; waits for one that is new enough."""
        with self._changed:
            idle = time.monotonic() - self._asked > _OPEN_SECONDS and not self._listeners
            self._asked = time.monotonic()
            number = self._view.number
            if idle or self._view.snapshot is None:
                self._wake.set()
                patience = _FIRST_SECONDS if self._view.snapshot is None else self.refresh
                self._changed.wait_for(
                    lambda: self._view.number > number or self._stopping, patience
                )
            return self._present()

    def again(self) -> View:
        """A view that was collected after this call, for what a command has just changed."""
        with self._changed:
            # One that is under way has begun before.
            number = self._view.number + (self._began is not None)
            self._wake.set()
            self._changed.wait_for(
                lambda: self._view.number > number or self._stopping, _FIRST_SECONDS
            )
            return self._present()

    def _present(self) -> View:
        """The newest view; its error is a collection that does not end.  Under the lock."""
        limit = max(_LATE_SECONDS, _LATE_REFRESHES * self.refresh)
        if self._began is None or (datetime.now(UTC) - self._began).total_seconds() < limit:
            return self._view
        since = f"{self._began:%F %T} UTC"
        return replace(
            self._view, error=f"the facts are old: their collection has not ended since {since}"
        )

    async def views(self) -> AsyncIterator[View]:
        """Every new view, for a page that stays open."""
        event = asyncio.Event()
        listener = (asyncio.get_running_loop(), event)
        with self._listening(listener):
            seen = (-1, "")
            while not self._stopping:
                with self._changed:
                    view = self._present()
                if (view.number, view.error) != seen:
                    seen = view.number, view.error
                    yield view
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(event.wait(), max(1.0, self.refresh))
                event.clear()

    @contextlib.contextmanager
    def _listening(
        self, listener: tuple[asyncio.AbstractEventLoop, asyncio.Event]
    ) -> Iterator[None]:
        with self._changed:
            if not self._listeners:
                self._wake.set()
            self._listeners.add(listener)
        try:
            yield
        finally:
            with self._changed:
                self._listeners.discard(listener)

    def _run(self) -> None:
        while not self._stopping:
            with self._changed:
                self._wake.clear()
                self._began = datetime.now(UTC)
            started = time.monotonic()
            snapshot, error = self._view.snapshot, ""
            try:
                snapshot = self._collect()
                self.history.add(snapshot)
            except Exception as failure:
                error = describe(as_londiste(failure))
                if not self._view.error:
                    log.warning("console: %s", error)
            with self._changed:
                self._began = None
                self._view = View(self._view.number + 1, snapshot, error)
                self._changed.notify_all()
            self._notify()
            self._pause(started)

    def _pause(self, started: float) -> None:
        with self._changed:
            is_open = bool(self._listeners) or time.monotonic() - self._asked < _OPEN_SECONDS
        # At most half of the time is spent with collecting.
        least = time.monotonic() - started
        self._wake.wait(max(least, self.refresh if is_open else IDLE_SECONDS))

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()
            listeners = list(self._listeners)
        for loop, event in listeners:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(event.set)
