"""Polling for a condition with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds between two polls.
POLL_SECONDS = 0.2


def wait_until(
    predicate: Callable[[], bool], seconds: float, *, poll: float = POLL_SECONDS
) -> bool:
    """Calls ``predicate`` until it is true; False when it is not after ``seconds``.

    Calls it at least once, and the last time after the limit.  Sleeps ``poll`` seconds between two
    calls, or twice the duration of a call: polling a busy server must not slow it down.
    """
    deadline = time.monotonic() + seconds
    while True:
        started = time.monotonic()
        if predicate():
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(max(poll, 2 * (time.monotonic() - started)))
