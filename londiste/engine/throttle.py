"""Throttle of copy tasks: pause, rate limits and waits for disk space.

Pause and limits are in the database of the target (``londiste.copy_control``), so tasks find them
on any machine.  A task that starts reads them in its own transaction; a running one polls once a
second, in a session of its own, and only when its chunk takes that long.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

import psycopg

from londiste.db import call
from londiste.db.connection import Connection, connect
from londiste.errors import DiskFull, LondisteError, StateError

R = TypeVar("R")

#: Poll interval of a running task.  A chunk that takes less needs no second session.
POLL_SECONDS = 1.0
#: The same in a task that waits for its turn.
_WAIT = 0.5
#: Seconds after which a waiting task checks that its copy is still requested.
_STILL_WANTED = 5.0
#: Longest pause in seconds between two tries of a chunk for which there was no space.
_LONGEST = 10.0


#: Seconds of the rate that can be saved up.
BURST = 0.25


@dataclass
class Bucket:
    """Token bucket: the wait that keeps a flow of bytes below a rate; times are arguments.

    Bytes are taken when they were sent, so the bucket can owe: the wait is as long as paying back
    takes.  What is saved up in idle time is bounded, so that no flood follows a pause.

    rate -- bytes per second; None: no limit.
    """

    rate: float | None = None
    _tokens: float = 0.0
    _at: float = 0.0

    def set_rate(self, rate: float | None, now: float) -> None:
        """Another rate from now on; debts stay, what was saved up is cut to the new burst."""
        if rate == self.rate:
            return
        if self.rate is None:
            self._tokens = 0.0
        self._fill(now)
        self.rate = rate

    def take(self, count: int, now: float) -> None:
        """Counts bytes that were sent."""
        self._fill(now)
        if self.rate is not None:
            self._tokens -= count

    def wait(self, now: float) -> float:
        """Seconds until more may be sent; 0 for at once."""
        self._fill(now)
        if self.rate is None or self._tokens >= 0:
            return 0.0
        return -self._tokens / self.rate

    def _fill(self, now: float) -> None:
        if self.rate is not None:
            gained = max(0.0, now - self._at) * self.rate
            self._tokens = min(self._tokens + gained, self.rate * BURST)
        self._at = now


class NotYet(StateError):
    """The task may not begin now: the copies are paused, or enough others run."""


class BrokenOff(StateError):
    """The chunk is rolled back, to be copied again after the pause."""


class Pace:
    """Pause and rate limit of one task.

    dsn, queue -- whose limits; name -- application_name of the session that reads them.
    table -- what is copied, by its name in the queue.
    """

    def __init__(self, dsn: str, queue: str, name: str, table: str) -> None:
        self._dsn = dsn
        self._queue = queue
        self._name = name
        self._table = table
        self._refused = 0
        self._conn: Connection | None = None
        self._bucket = Bucket()
        self._looked = 0.0
        self._counted = 0

    def __enter__(self) -> Pace:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._conn is not None:
            self._conn.close()

    def about(self, name: str, table: str) -> None:
        """Switches the task to another table."""
        self._name = name
        self._table = table
        self._refused = 0

    def begin(self, target: Connection) -> None:
        """Takes a place among the running tasks, in the transaction of the chunk.

        Raises NotYet when there is none.
        """
        turn = call.row(target, "londiste.copy_turn", self._queue)
        if not turn["may_begin"]:
            raise NotYet(f"queue {self._queue}: copies wait: {turn['reason']}")
        self._counted = 0
        if time.monotonic() - self._looked >= POLL_SECONDS:
            self._obey(target)

    def wait(self) -> None:
        """Waits until a task may start, or until it is time to check that it is still requested."""
        self._looked = 0.0
        deadline = time.monotonic() + _STILL_WANTED
        while time.monotonic() < deadline:
            time.sleep(_WAIT)
            if call.row(self._session(), "londiste.copy_turn", self._queue)["may_begin"]:
                return

    def no_space(self, error: LondisteError) -> None:
        """Waits because the disk of the target is full, longer each time.

        The blocks of the chunk that was rolled back stay with the table, for later rows: no
        VACUUM frees them here, because it would read the whole table.  A try while the disk is
        full takes no more of it.
        """
        self._refused += 1
        # On a disk that is full this may fail, too.
        with contextlib.suppress(LondisteError, psycopg.Error):
            self._waits(f"{error.message}; continues automatically when there is space")
        time.sleep(min(_LONGEST, 0.5 * 2.0 ** min(self._refused - 1, 10)))

    def went_on(self) -> None:
        """Clears a wait for space, after the chunk was copied."""
        if self._refused:
            self._refused = 0
            with contextlib.suppress(LondisteError, psycopg.Error):
                self._waits(None)

    def _waits(self, reason: str | None) -> None:
        call.value(
            self._session(), "londiste.copy_step_waits", self._queue, self._table, "load", reason
        )

    def moved(self, total: int) -> None:
        """To be called by the pipe after every block: waits as long as the limit asks for.

        total -- bytes of this chunk so far.

        Raises BrokenOff when the chunk must stop, and errors of an unreachable target.
        """
        self._bucket.take(total - self._counted, time.monotonic())
        self._counted = total
        while True:
            if time.monotonic() - self._looked >= POLL_SECONDS:
                self._obey(self._session())
            seconds = self._bucket.wait(time.monotonic())
            if seconds <= 0:
                return
            time.sleep(min(seconds, _WAIT))

    def _obey(self, conn: Connection) -> None:
        orders = call.row(conn, "londiste.copy_pace", self._queue)
        self._looked = time.monotonic()
        self._bucket.set_rate(orders["bytes_per_second"], self._looked)
        if orders["break_off"]:
            raise BrokenOff(f"queue {self._queue}: copies are paused")

    def _session(self) -> Connection:
        if self._conn is None or self._conn.closed:
            self._conn = connect(self._dsn, name=self._name, autocommit=True)
        return self._conn


def in_turn(pace: Pace, attempt: Callable[[Pace], R]) -> R:
    """Runs ``attempt`` until no pause, limit or full disk interrupts it.

    Other errors are raised.

    ``attempt`` calls ``pace.begin`` in its transaction, and rolls back when that raises.
    """
    while True:
        try:
            result = attempt(pace)
        except (NotYet, BrokenOff):
            pace.wait()
        except DiskFull as error:
            # Memory and connections are the same class; only space is worth a long wait.
            if not isinstance(error.__cause__, psycopg.errors.DiskFull):
                raise
            pace.no_space(error)
        else:
            pace.went_on()
            return result
