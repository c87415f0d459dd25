"""Engine without Spark: tasks in a few processes of this host, psycopg only.

Processes, not threads: a pipe hands every row through the interpreter once, and two pipes in
two threads of one process are no faster than one.  Processes start on the first job with more
than one task, or with ``prepare``; a single task runs in the calling thread.  Checksums, for which
a server works and a task waits, are threads.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path
from typing import TypeVar

from londiste.daemon import crash
from londiste.daemon.child import WATCHER
from londiste.engine import group_task, tasks
from londiste.engine.local import threads
from londiste.engine.spec import (
    Checksum,
    ChunkDone,
    CompareSpec,
    CopySpec,
    GroupSpec,
    MemberDone,
)
from londiste.errors import LondisteError, TransientError

log = logging.getLogger(__name__)

T = TypeVar("T")
R = TypeVar("R")

#: How often a task is tried when it fails for a reason that may go away.
ATTEMPTS = 4
_PAUSE = 0.2
#: Largest pool that is started before it is needed.
_MOST_AHEAD = 8


class LocalEngine:
    """See ``engine.base.Engine``.  Safe to use from several threads at once."""

    name = "local"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None
        self._size = 0
        self._armed = True

    def prepare(self, parallel: int) -> None:
        """Starts the pool now, as copies of this process, where that is possible and costs little.

        Otherwise the first job starts it: programs that import for half a second each.  To be
        called before anything else that a copy should not have: sessions, threads.
        """
        size = _size(parallel)
        with self._lock:
            if self._pool is not None or size > _MOST_AHEAD or not _may_fork():
                return
            pool = self._made(size, "fork")
            # Only then all are there before the pool starts threads.
            if getattr(pool, "_safe_to_dynamically_spawn_children", True) is not False:
                return
            pool.submit(int)
            self._pool, self._size = pool, size

    def run(self, task: Callable[[T], R], items: Sequence[T], parallel: int) -> Iterator[R]:
        yield from self.run_while(task, deque(items), parallel, lambda: True)

    def run_while(
        self,
        task: Callable[[T], R],
        todo: deque[T],
        parallel: int,
        more: Callable[[], bool],
    ) -> Iterator[R]:
        """Results of the tasks that it takes from ``todo``: no further one when ``more`` is false.

        Those that run then end and are among the results.
        """
        if len(todo) == 1 or parallel <= 1:
            while todo and more():
                yield _patiently(task, todo.popleft())
            return
        yield from self._in_pool(task, todo, parallel, more)

    def copy(self, spec: CopySpec, parallel: int) -> Iterator[ChunkDone]:
        yield from self.run(tasks.copy_chunk, tasks.chunk_tasks(spec), parallel)

    def copy_group(self, shares: Sequence[GroupSpec], parallel: int) -> Iterator[list[MemberDone]]:
        yield from self.run(group_task.copy_members, shares, parallel)

    def checksum(self, specs: Sequence[CompareSpec], parallel: int) -> Iterator[Checksum]:
        yield from self.checksum_while(deque(specs), parallel, lambda: True)

    def checksum_while(
        self, todo: deque[CompareSpec], parallel: int, more: Callable[[], bool]
    ) -> Iterator[Checksum]:
        """See ``run_while``."""
        # The servers do the work and a task only waits for them: threads, which cost no start.
        yield from threads.run(partial(_patiently, tasks.checksum), todo, parallel, more)

    def starting(self) -> str:
        return ""

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            _kill(pool)

    def _in_pool(
        self,
        task: Callable[[T], R],
        todo: deque[T],
        parallel: int,
        more: Callable[[], bool],
    ) -> Iterator[R]:
        pool = self._started(parallel)
        #: Task and number of its attempt.
        running: dict[Future[R], tuple[T, int]] = {}
        try:
            while True:
                while todo and len(running) < parallel and more():
                    item = todo.popleft()
                    running[pool.submit(_attempt, task, item)] = (item, 1)
                if not running:
                    return
                for future in concurrent.futures.wait(running, return_when=FIRST_COMPLETED).done:
                    item, attempt = running.pop(future)
                    pause = _again(future.exception(), item, attempt)
                    if pause is None:
                        yield future.result()
                    else:
                        again = pool.submit(_attempt, task, item, pause)
                        running[again] = (item, attempt + 1)
        except (BrokenProcessPool, RuntimeError) as error:
            if not isinstance(error, BrokenProcessPool) and "shutdown" not in str(error):
                raise
            self._discard(pool)
            raise TransientError(
                "local engine: a process was killed",
                detail="its transaction was rolled back",
                hint="check the kernel's log for the out-of-memory killer",
            ) from None
        finally:
            for future in running:
                future.cancel()

    def _started(self, parallel: int) -> ProcessPoolExecutor:
        """The pool, with room for at least ``parallel`` tasks."""
        with self._lock:
            size = _size(parallel)
            if self._pool is None or self._size < size:
                # A smaller one ends when its last task has.
                if self._pool is not None:
                    self._pool.shutdown(wait=False)
                # Not fork: other threads of this process hold locks and connections.
                self._pool = self._made(size, "spawn")
                self._size = size
            return self._pool

    def _made(self, size: int, how: str) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            size,
            mp_context=multiprocessing.get_context(how),
            initializer=_begin,
            initargs=(self._armed,),
        )

    def _discard(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None
            # A crash point has fired; the following tasks must not repeat it.
            self._armed = False
        _kill(pool)


def _may_fork() -> bool:
    """Whether a fork of this process is safe: on Linux, from its only thread.

    The watcher of the parent holds no lock and does not count.
    """
    if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
        return False
    watchers = sum(thread.name == WATCHER for thread in threading.enumerate())
    try:
        return len(list(Path("/proc/self/task").iterdir())) == 1 + watchers
    except OSError:
        return False


def _size(parallel: int) -> int:
    return max(parallel, os.cpu_count() or 1)


def _begin(armed: bool) -> None:
    """First thing in a pool process: obey crash points, and do not outlive the parent."""
    crash.arm(None if armed else "")
    # The collector must not write to pages that are shared with the parent.
    gc.freeze()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _patiently(task: Callable[[T], R], item: T) -> R:
    attempt, pause = 1, 0.0
    while True:
        try:
            return _attempt(task, item, pause)
        except LondisteError as error:
            again = _again(error, item, attempt)
            if again is None:
                raise
            attempt, pause = attempt + 1, again


def _attempt(task: Callable[[T], R], item: T, pause: float = 0.0) -> R:
    """One attempt, after a pause.  Raises only errors of Londiste."""
    time.sleep(pause)
    try:
        return task(item)
    except Exception as error:
        raise tasks.failed(error, item) from error


def _again(error: BaseException | None, item: object, attempt: int) -> float | None:
    """Seconds until a task that failed is tried again, which is logged; None: it is not."""
    if not isinstance(error, LondisteError) or not error.retry or attempt == ATTEMPTS:
        return None
    log.info("%s is tried again, attempt %d: %s", tasks.label(item), attempt + 1, error)
    return _PAUSE * attempt


def _kill(pool: ProcessPoolExecutor) -> None:
    processes = list((pool._processes or {}).values())
    manager = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        with contextlib.suppress(OSError, ValueError):
            process.kill()
    for process in processes:
        with contextlib.suppress(OSError, ValueError):
            process.join(5)
    # An exit of Python while this thread closes its pipe prints a traceback.
    if manager is not None:
        manager.join(5)
