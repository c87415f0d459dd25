"""Engine that begins on this host and moves over to Spark, if there is enough left for it.

Tasks have the same form in both engines.  So the first ones run in processes of this host at once.
Spark starts beside them as soon as the rest would take longer than the start, and gets what is left
when it is ready.  What ends before needs no Spark.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from londiste.engine import group_task, tasks
from londiste.engine.base import Engine, R, T
from londiste.engine.local.engine import LocalEngine
from londiste.engine.spec import (
    Checksum,
    ChunkDone,
    CompareSpec,
    CopySpec,
    GroupSpec,
    MemberDone,
)
from londiste.errors import LondisteError

log = logging.getLogger(__name__)

#: Seconds of work that must be left for a session of Spark to start.
WORTH = 10.0
#: The same where its tasks run on this host: they are not faster than those that run already, and
#: the start takes 10 s of processor time from them.
WORTH_HERE = 60.0
#: Times this of work with tasks left, after which more of it is expected.
_BUSY = 3.0
_POLL_SECONDS = 0.25


class Startable(Engine, Protocol):
    """An engine that takes seconds to start."""

    def start(self) -> None:
        """Starts it now.  Raises LondisteError."""
        ...

    def ready(self) -> bool:
        """Whether a job would begin at once."""
        ...


def worth_starting(
    left: int, done: int, running: int, seconds: float, busy: float, worth: float
) -> bool:
    """Whether Spark should start for the tasks that are left.

    left, done, running -- tasks; one that runs counts as half done.
    seconds -- since the first of them began; busy -- that the engine has worked in all.
    worth -- seconds of work that must be left.
    """
    if left == 0:
        return False
    return left * seconds / max(0.5, done + running / 2) > worth or busy > worth * _BUSY


class LocalFirst:
    """See ``engine.base.Engine``.  Safe to use from several threads at once.

    worth -- as in ``worth_starting``.
    tell -- gets the steps of the start, for a user who watches.
    """

    def __init__(
        self,
        local: LocalEngine,
        large: Startable,
        worth: float,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.name = large.name
        self._local = local
        self._large = large
        self._worth = worth
        self._tell = tell or (lambda text: None)
        self._lock = threading.Lock()
        self._begun = False
        self._closed = False
        self._busy = 0.0

    def run(self, task: Callable[[T], R], items: Sequence[T], parallel: int) -> Iterator[R]:
        yield from self._carried(
            items,
            parallel,
            lambda todo, more: self._local.run_while(task, todo, parallel, more),
            lambda rest: self._large.run(task, rest, parallel),
        )

    def copy(self, spec: CopySpec, parallel: int) -> Iterator[ChunkDone]:
        yield from self.run(tasks.copy_chunk, tasks.chunk_tasks(spec), parallel)

    def copy_group(self, shares: Sequence[GroupSpec], parallel: int) -> Iterator[list[MemberDone]]:
        yield from self.run(group_task.copy_members, shares, parallel)

    def checksum(self, specs: Sequence[CompareSpec], parallel: int) -> Iterator[Checksum]:
        yield from self._carried(
            specs,
            parallel,
            lambda todo, more: self._local.checksum_while(todo, parallel, more),
            lambda rest: self._large.checksum(rest, parallel),
        )

    def starting(self) -> str:
        return self._large.starting()

    def close(self) -> None:
        self._closed = True
        self._local.close()
        self._large.close()

    def _carried(
        self,
        items: Sequence[T],
        parallel: int,
        small: Callable[[deque[T], Callable[[], bool]], Iterator[R]],
        large: Callable[[Sequence[T]], Iterator[R]],
    ) -> Iterator[R]:
        """Results; ``small`` takes tasks from the queue until Spark is ready."""
        todo = deque(items)
        done = 0

        def worth(seconds: float) -> bool:
            running = min(parallel, len(items) - len(todo) - done)
            return worth_starting(
                len(todo), done, running, seconds, self._busy + seconds, self._worth
            )

        if not self._large.ready():
            with self._watched(worth):
                for result in small(todo, lambda: not self._large.ready()):
                    done += 1
                    yield result
            if todo:
                log.info("%d of %d tasks are left for Spark", len(todo), len(items))
        if todo:
            yield from large(list(todo))

    @contextlib.contextmanager
    def _watched(self, worth: Callable[[float], bool]) -> Iterator[None]:
        """Starts Spark during the block when it is worth it."""
        began = time.monotonic()
        end = threading.Event()

        def watch() -> None:
            while not end.wait(_POLL_SECONDS):
                if worth(time.monotonic() - began):
                    self._start()
                    return

        thread = threading.Thread(target=watch, daemon=True, name="start of Spark")
        thread.start()
        try:
            yield
        finally:
            end.set()
            self._busy += time.monotonic() - began

    def _start(self) -> None:
        """Starts Spark, once; a failure leaves the work to this host."""
        with self._lock:
            if self._begun or self._closed:
                return
            self._begun = True
        self._tell("starting Spark")
        try:
            self._large.start()
        except LondisteError as error:
            if not self._closed:
                text = f"this host continues without Spark: {error}"
                log.warning("%s", text)
                self._tell(text)
        else:
            self._tell(self._large.starting())
            if self._closed:
                # It was closed before the start had anything to give up.
                self._large.close()
