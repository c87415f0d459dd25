"""Launcher of the copy process: starts it when tables wait, restarts it when it fails."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from londiste.daemon.child import Child
from londiste.daemon.loop import pause
from londiste.errors import StateError

log = logging.getLogger(__name__)

#: Seconds after which a process that dies has died of something new.
HEALTHY_AFTER = 30.0
#: Copy processes in a row that may die before ``--once`` gives up.
_ONCE_FAILURES = 4


class Copies:
    """At most one copy process.

    argv -- its command line.  The process exits when no table is left to copy.
    failures -- how often in a row it has failed.
    """

    def __init__(self, argv: Sequence[str], *, longest_pause: float) -> None:
        self._argv = list(argv)
        self.longest_pause = longest_pause
        self._child: Child | None = None
        self._started = 0.0
        self._next_start = 0.0
        self.failures = 0

    @property
    def alive(self) -> bool:
        """Whether it was running at the last check."""
        return self._child is not None

    def look_after(self, wanted: bool) -> None:
        """Starts the process when tables wait and none runs; with a delay after a failure."""
        now = time.monotonic()
        if self._child is not None:
            code = self._child.exit_code()
            if code is None:
                return
            self._child = None
            self._ended(code, now)
        if wanted and now >= self._next_start:
            self._started = now
            try:
                self._child = self._begin()
            except OSError as error:
                # The worker applies events all the same.
                self._failed(f"cannot start: {error.strerror or error}", now)
                return
            log.info("copy process %d started", self._child.pid)

    def require_alive(self) -> None:
        """Raises StateError when it has failed too often to wait for it."""
        if self.failures >= _ONCE_FAILURES:
            raise StateError(
                f"copy process failed {self.failures} times", hint="londiste -c FILE copy"
            )

    def stop(self) -> None:
        """Stops the process; its work so far is kept."""
        if self._child is not None:
            self._child.terminate()
            self._child = None

    def _begin(self) -> Child:
        return Child.start(self._argv)

    def _ended(self, code: int, now: float) -> None:
        if code == 0:
            # Tables that were added while it ended want a new one soon.
            self.failures = 0
            self._next_start = now + 0.1
            return
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        self._failed(f"ended with {how}", now)

    def _failed(self, what: str, now: float) -> None:
        if now - self._started > HEALTHY_AFTER:
            self.failures = 0
        self.failures += 1
        wait = pause(self.failures, longest=self.longest_pause)
        self._next_start = now + wait
        log.warning("copy process %s, restarting in %.1f s", what, wait)
