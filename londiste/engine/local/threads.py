"""Threads for tasks that only wait for a server.

They are daemon threads: an interrupted command does not wait for their statements.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def run(task: Callable[[T], R], items: Sequence[T], parallel: int) -> Iterator[R]:
    """Results of ``task(item)``, as they become ready, at most ``parallel`` at a time.

    The first error of a task is raised.  No further task begins after that, and none after the
    caller has stopped asking; those that run are let go.
    """
    if len(items) == 1 or parallel <= 1:
        yield from map(task, items)
        return
    todo = iter(items)
    lock = threading.Lock()
    over = threading.Event()
    done: queue.SimpleQueue[Future[R]] = queue.SimpleQueue()

    def work() -> None:
        while True:
            with lock:
                if over.is_set():
                    return
                try:
                    item = next(todo)
                except StopIteration:
                    return
            future: Future[R] = Future()
            try:
                future.set_result(task(item))
            except BaseException as error:
                future.set_exception(error)
            done.put(future)

    for _ in range(min(parallel, len(items))):
        threading.Thread(target=work, name="londiste waiting", daemon=True).start()
    try:
        for _ in items:
            yield done.get().result()
    finally:
        over.set()
