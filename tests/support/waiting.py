"""Waiting for something to happen, in place of sleeping, and writing meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

#: The session of the test counts its own changes later, if nobody asks it to do so now.
COUNTED = """
    do $$
    begin
        perform pg_stat_force_next_flush();
    exception
        when undefined_function then null;
    end $$
"""


@contextlib.contextmanager
def written_meanwhile(
    session: Callable[[], contextlib.AbstractContextManager[T]],
    write: Callable[[T, int], object],
    *,
    least: int,
) -> Iterator[None]:
    """Writes in a session of its own until the with block ends: once for each number from 1.

    Raises AssertionError unless it came further than ``least``.
    """
    end = threading.Event()

    def work() -> int:
        with session() as conn:
            for number in itertools.count(1):
                write(conn, number)
                if end.wait(0.02):
                    break
        return number

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(work)
        try:
            yield
        finally:
            end.set()
        assert written.result() > least


def wait_for(predicate: Callable[[], T], *, timeout: float = 60.0, what: str) -> T:
    """Calls ``predicate`` until it answers something true, and returns that.

    A call that takes much of the processor, like a command, is made less often.
    Raises AssertionError naming ``what`` and the last answer after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    pause = 0.005
    while True:
        begun = time.thread_time()
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {what}; last: {answer!r}")
        time.sleep(max(pause, min(4 * (time.thread_time() - begun), 0.5)))
        pause = min(pause * 1.5, 0.1)


def readable(files: Iterable[int], seconds: float) -> list[int]:
    """The files with input, or that were closed, as soon as there is one; empty after the time."""
    poll = select.poll()
    for file in files:
        poll.register(file, select.POLLIN)
    return [file for file, _ in poll.poll(seconds * 1000)]
