"""Waiting for something to happen, in place of sleeping."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(predicate: Callable[[], T], *, timeout: float = 60.0, what: str) -> T:
    """Calls ``predicate`` until it answers something true, and returns that.

    Raises AssertionError naming ``what`` and the last answer after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    pause = 0.005
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}; last: {answer!r}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
