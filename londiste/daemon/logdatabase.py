"""Database logging: calls a function of the user for every line.

A thread does it, with a bounded queue in front: with a slow or unreachable database lines are
dropped, counted and reported, but the work never waits.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
import time
from typing import NamedTuple

from psycopg import sql

from londiste.db.connection import Connection, connect, describe_dsn
from londiste.db.queries import translated
from londiste.errors import LondisteError, NodeUnreachable, TransientError

#: Lines that wait; more are dropped.
LINES = 1000

#: Seconds between the sums of lines of statistics.
STATS_PERIOD = 60.0

#: Seconds for the last lines at the end of the process.
_GRACE = 2.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 20.0


class Line(NamedTuple):
    """What the function gets."""

    service: str
    level: str
    message: str


class Database(logging.Handler):
    """Log handler that calls ``function(service, level, message)`` in a database for every line.

    dsn -- where the function is; keep the password out of it (~/.pgpass, or a service).
    function -- its name, with the schema.
    service -- first argument; the job when empty.
    lines -- maximum number of waiting lines.
    stats_period -- seconds; lines of statistics are added up and sent as one per period.
    """

    def __init__(
        self,
        dsn: str,
        function: str = "log.add",
        service: str = "",
        lines: int = LINES,
        stats_period: float = STATS_PERIOD,
    ) -> None:
        parts = function.split(".")
        if not 1 <= len(parts) <= 2 or not all(parts):
            raise ValueError(f"function {function!r}: not in the form schema.name")
        if lines < 1 or stats_period <= 0:
            raise ValueError("lines and stats_period must be greater than 0")
        super().__init__()
        self.where = describe_dsn(dsn)
        self.service = service
        self.lines = lines
        self.stats_period = stats_period
        self.lost = 0
        self._dsn = dsn
        self._call = sql.SQL("select {}(%s::text, %s::text, %s::text)").format(
            sql.Identifier(*parts)
        )
        self._sums: dict[str, dict[str, float]] = {}
        self._said = ""
        self._thread: threading.Thread | None = None
        self._begin()

    # -- the side of the work --------------------------------------------------------------

    def emit(self, record: logging.LogRecord) -> None:
        if threading.current_thread() is self._thread:
            # What is logged about the log would be logged again.
            return
        try:
            if self._pid != os.getpid():
                # After a fork the thread is in the other process.
                self._begin()
            service = self.service or getattr(record, "job", None) or "londiste"
            statistics = getattr(record, "statistics", None)
            if isinstance(statistics, dict):
                self._add(service, statistics)
            else:
                self._put(Line(service, record.levelname, _text(self.format(record))))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="log", daemon=True)
                self._thread.start()
        except Exception as error:
            _say(f"log database {self.where}: {error}")

    def close(self) -> None:
        """Sends waiting lines for at most two seconds, and reports the lost ones."""
        self._end.set()
        thread = self._thread
        if thread is not None and self._pid == os.getpid():
            with contextlib.suppress(queue.Full):
                self._queue.put_nowait(None)
            thread.join(_GRACE)
            left = sum(1 for one in list(self._queue.queue) if one is not None)
            lost = self.lost + left + (1 if self._at_hand else 0)
            if lost:
                _say(f"log database {self.where}: {lost} lines were lost")
            self.lost = 0
            self._begin()
        super().close()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._queue: queue.Queue[Line | None] = queue.Queue(self.lines)
        self._thread = None
        self._end = threading.Event()
        self._at_hand = False

    def _add(self, service: str, statistics: dict[str, float]) -> None:
        sums = self._sums.setdefault(service, {})
        for name, value in statistics.items():
            sums[name] = sums.get(name, 0) + value

    def _put(self, line: Line) -> None:
        try:
            self._queue.put_nowait(line)
        except queue.Full:
            self.lost += 1

    # -- the side of the thread ------------------------------------------------------------

    def _run(self) -> None:
        end, lines = self._end, self._queue
        conn: Connection | None = None
        next_sums = time.monotonic() + self.stats_period
        try:
            while True:
                line: Line | None = None
                with contextlib.suppress(queue.Empty):
                    line = lines.get(timeout=max(0.0, min(1.0, next_sums - time.monotonic())))
                if line is not None:
                    conn = self._send(conn, line, end)
                if end.is_set() or time.monotonic() >= next_sums:
                    next_sums = time.monotonic() + self.stats_period
                    for sums in self._take_sums():
                        conn = self._send(conn, sums, end)
                if end.is_set() and lines.empty():
                    return
        finally:
            if conn is not None:
                conn.close()

    def _send(self, conn: Connection | None, line: Line, end: threading.Event) -> Connection | None:
        """Writes one line, waiting for an unreachable database; drops a line that it rejects."""
        pause = _FIRST_PAUSE
        self._at_hand = True
        while True:
            old = conn is not None
            try:
                if conn is None or conn.closed:
                    old = False
                    conn = connect(
                        self._dsn, name="londiste log", autocommit=True, statement_timeout_ms=10_000
                    )
                self._write(conn, line)
                self._report_lost(conn, line.service)
                break
            except LondisteError as error:
                if not isinstance(error, TransientError | NodeUnreachable):
                    self.lost += 1
                    self._trouble(error)
                    break
                if conn is not None:
                    conn.close()
                    conn = None
                if old:
                    # The server may be back already.
                    continue
                self._trouble(error)
                if end.wait(pause):
                    # The process ends, and says how many lines are lost.
                    self.lost += 1
                    break
                pause = min(pause * 2, _LONGEST_PAUSE)
        self._at_hand = False
        return conn

    def _write(self, conn: Connection, line: Line) -> None:
        with translated(self.where):
            conn.execute(self._call, line)

    def _report_lost(self, conn: Connection, service: str) -> None:
        lost, self._said = self.lost, ""
        if lost:
            self._write(conn, Line(service, "WARNING", f"{lost} lines of the log were lost"))
            self.lost -= lost

    def _trouble(self, error: LondisteError) -> None:
        if error.message != self._said:
            self._said = error.message
            _say(f"log database: {error.message}")

    def _take_sums(self) -> list[Line]:
        taken: list[Line] = []
        for service in list(self._sums):
            sums = self._sums.pop(service)
            numbers = ", ".join(f"{name}: {value:g}" for name, value in sums.items())
            taken.append(Line(service, "INFO", f"{{{numbers}}}"))
        return taken


def _text(text: str) -> str:
    """Text that PostgreSQL accepts: no zero bytes, no surrogate halves."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()


def _say(text: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        print(text, file=sys.stderr)
