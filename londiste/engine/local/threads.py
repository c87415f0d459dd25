"""Threads for tasks that only wait for a server.

They are daemon threads: an interrupted command does not wait for their statements.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def run(
    task: Callable[[T], R],
    todo: deque[T],
    parallel: int,
    more: Callable[[], bool] = lambda: True,
) -> Iterator[R]:
    """Results of ``task(item)``, as they become ready, at most ``parallel`` at a time.

    todo -- items are taken from it; none when ``more`` is false.

    The first error of a task is raised.  No further task begins after that, and none after the
    caller has stopped asking; those that run are let go.
    """
    if len(todo) == 1 or parallel <= 1:
        while todo and more():
            yield task(todo.popleft())
        return
    lock = threading.Lock()
    over = threading.Event()
    # None: a thread has no more to do.
    done: queue.SimpleQueue[Future[R] | None] = queue.SimpleQueue()

    def work() -> None:
        while True:
            with lock:
                if over.is_set() or not todo or not more():
                    done.put(None)
                    return
                item = todo.popleft()
            future: Future[R] = Future()
            try:
                future.set_result(task(item))
            except BaseException as error:
                future.set_exception(error)
            done.put(future)

    at_work = min(parallel, len(todo))
    for _ in range(at_work):
        threading.Thread(target=work, name="londiste waiting", daemon=True).start()
    try:
        while at_work:
            found = done.get()
            if found is None:
                at_work -= 1
            else:
                yield found.result()
    finally:
        over.set()
