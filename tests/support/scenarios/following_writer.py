"""A writer that follows the root, like an application behind a proxy."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import psycopg

from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

SCHEMA = """
create table public.written (id bigserial primary key, n bigint not null unique, at text not null);
create table public.counter (id int primary key, total bigint not null);
"""
DATA = "insert into public.counter select i, 0 from generate_series(1, 5) i;"
TABLES = ("public.written", "public.counter")


class Follower:
    """Writes numbers one after the other; a number that is refused goes to the next database.

    first -- the first number.
    confirmed -- the last number that some database has confirmed.
    longest -- seconds between two confirmations, at most.
    """

    def __init__(self, databases: Sequence[Database], *, first: int = 1) -> None:
        self._databases = list(databases)
        self._first = first
        self.confirmed = first - 1
        self.longest = 0.0
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def __enter__(self) -> Follower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def wait(self, count: int, seconds: float = 60.0) -> None:
        """Waits until so many more are confirmed."""
        target = self.confirmed + count

        def reached() -> bool:
            assert self._error is None, f"the writer has failed: {self._error!r}"
            return self.confirmed >= target

        wait_for(reached, timeout=seconds, what=f"{count} more numbers")

    def stop(self) -> int:
        """Ends it; the last number that is confirmed."""
        self._stop.set()
        self._thread.join(30)
        assert self._error is None, f"the writer has failed: {self._error!r}"
        return self.confirmed

    def _run(self) -> None:
        try:
            self._write()
        except BaseException as error:
            self._error = error

    def _write(self) -> None:
        n, place, last = self._first, 0, time.monotonic()
        conn: psycopg.Connection | None = None
        while not self._stop.is_set():
            database = self._databases[place % len(self._databases)]
            try:
                if conn is None or conn.closed:
                    conn = psycopg.connect(database.dsn)
                with conn.transaction():
                    conn.execute(
                        "insert into public.written (n, at) values (%s, %s)", [n, database.name]
                    )
                    conn.execute(
                        "update public.counter set total = total + %s where id = %s",
                        [n, n % 5 + 1],
                    )
            except psycopg.Error as error:
                if error.sqlstate != "LD102" and not isinstance(error, psycopg.OperationalError):
                    raise
                if conn is not None:
                    conn.close()
                conn = None
                place += 1
                self._stop.wait(0.005)
                continue
            now = time.monotonic()
            self.longest = max(self.longest, now - last)
            last = now
            self.confirmed = n
            n += 1
            self._stop.wait(0.002)
        if conn is not None:
            conn.close()
