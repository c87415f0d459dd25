"""Writers on every possible root: which node accepts writes, in which order.

Each row carries the clock of the moment in which it was written.  All servers of a test share one
machine and so one clock: the rows in the order of that clock tell who was the root when.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Mapping, Sequence

import psycopg

from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

_INSERT = (
    "insert into public.written (node, n, at) values (%s, %s, 'x')"
    " returning extract(epoch from clock_timestamp())::float8"
)


class Everywhere:
    """One thread for each database; each writes rows of its own, with its name and a number.

    first -- the number of the first row.
    once -- by node: nobody writes there before this statement answers true.
    """

    def __init__(
        self,
        databases: dict[str, Database],
        *,
        pause: float = 0.004,
        first: int = 1,
        once: Mapping[str, str] | None = None,
    ) -> None:
        self._pause = pause
        self._once = dict(once or {})
        self._first = first
        self._lock = threading.Lock()
        #: (time, node, number) of what was confirmed.
        self._accepted: list[tuple[float, str, int]] = []
        #: What may be there or not: the answer was lost.
        self._unknown: set[tuple[str, int]] = set()
        self._errors: list[str] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(name, db), name=f"writes {name}", daemon=True)
            for name, db in databases.items()
        ]

    def __enter__(self) -> Everywhere:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the threads.  AssertionError when one met an error that no writer should meet."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        assert not self._errors, self._errors

    def wait(self, count: int, seconds: float = 60.0, *, on: str = "") -> None:
        """Waits until so many more are accepted, on a certain node or on any."""

        def number() -> int:
            with self._lock:
                return sum(1 for _, node, _ in self._accepted if not on or node == on)

        target = number() + count
        wait_for(
            lambda: number() >= target,
            timeout=seconds,
            what=f"{count} more rows {on and 'on '}{on}",
        )

    def history(self, *, ignoring: Collection[str] = ()) -> list[str]:
        """The nodes that accepted rows, in their order, each turn once."""
        with self._lock:
            ordered = sorted(a for a in self._accepted if a[1] not in ignoring)
        found: list[str] = []
        for _, node, _ in ordered:
            if not found or found[-1] != node:
                found.append(node)
        return found

    def confirmed(self, *nodes: str) -> set[tuple[str, int]]:
        """The rows that were accepted, on these nodes or on any."""
        with self._lock:
            return {(node, n) for _, node, n in self._accepted if not nodes or node in nodes}

    def unknown(self) -> set[tuple[str, int]]:
        """The rows whose answer was lost."""
        with self._lock:
            return set(self._unknown)

    def block(self, old: str, new: str) -> float:
        """Seconds between the last row on ``old`` and the first one on ``new``."""
        with self._lock:
            last = max(t for t, node, _ in self._accepted if node == old)
            first = min(t for t, node, _ in self._accepted if node == new)
        return first - last

    def _may_begin(self, name: str, database: Database) -> bool:
        try:
            return bool(database.value(self._once[name]))
        except psycopg.OperationalError:
            # Its server is away.
            return False

    def _run(self, name: str, database: Database) -> None:
        while name in self._once and not self._may_begin(name, database):
            if self._stop.wait(0.05):
                return
        n = self._first - 1
        conn: psycopg.Connection | None = None
        while not self._stop.is_set():
            n += 1
            sent = False
            try:
                if conn is None or conn.closed:
                    conn = psycopg.connect(database.dsn, autocommit=True)
                sent = True
                row = conn.execute(_INSERT, [name, n]).fetchone()
                assert row is not None
                with self._lock:
                    self._accepted.append((row[0], name, n))
            except psycopg.Error as error:
                if error.sqlstate == "LD102":
                    self._stop.wait(self._pause)
                    continue
                if not isinstance(error, psycopg.OperationalError) and not _is_gone(error):
                    self._errors.append(f"{name}: {error!r}")
                    return
                with self._lock:
                    if sent:
                        self._unknown.add((name, n))
                if conn is not None:
                    with contextlib.suppress(psycopg.Error):
                        conn.close()
                conn = None
                self._stop.wait(0.05)
            self._stop.wait(self._pause)
        if conn is not None:
            conn.close()


def _is_gone(error: psycopg.Error) -> bool:
    """The database or its server is on its way out, or the node was dropped."""
    return error.sqlstate in {None, "3D000", "57P01", "57P02", "57P03", "LD404"}


def rows(database: Database) -> Sequence[tuple[str, int]]:
    """The rows of a node, each as often as it is there."""
    return [(node, n) for node, n in database.execute("select node, n from public.written")]
