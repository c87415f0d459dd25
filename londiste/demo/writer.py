"""Demo writer: random transactions on the demo's tables until it gets a stop request.

    python -m londiste.demo.writer DSN [--rate N] [--connections N] [--seed N] [--parent PID]

Inserts, updates, deletes, changed keys that cascade, swapped keys, savepoints rolled back,
whole transactions rolled back, one token written to three tables; each session with settings
of its own for dates, intervals and floats.  Every committed transaction adds one row to
shop.audit with a number of its own, which also tells whether a commit arrived when the
server broke off in the middle of it.

On SIGTERM or SIGINT it finishes what it is doing and prints one JSON object:
``transactions`` committed (as many rows are in shop.audit with token > 0), ``rolled_back``,
``retried`` (deadlocks and broken connections), ``statements`` per kind, ``seconds``.
It ends by itself, with exit code 1, when the server is away for a minute or refuses a
statement; and when the process that started it is gone.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence

import psycopg

from londiste.demo.transactions import WORK, RollBack

_AWAY_SECONDS = 60.0
_SESSION = {
    "datestyle": ("ISO, DMY", "SQL, DMY", "SQL, MDY", "German", "Postgres, YMD"),
    "intervalstyle": ("postgres", "postgres_verbose", "sql_standard", "iso_8601"),
    "timezone": ("UTC", "Asia/Kolkata", "America/St_Johns", "Pacific/Apia"),
    "extra_float_digits": ("-15", "0", "1", "3"),
    "bytea_output": ("hex", "escape"),
}


class Session:
    """One connection's share of the work; runs in a thread."""

    def __init__(self, dsn: str, number: int, seed: int, rate: float) -> None:
        self.random = random.Random(f"{seed}:{number}")
        self.counts: Counter[str] = Counter()
        self.committed = self.rolled_back = self.retried = 0
        self.failure: BaseException | None = None
        self._dsn = dsn
        self._pause = 1 / rate
        # Tokens differ between sessions and between runs, so that any repetition shows.
        self._token = (time.time_ns() // 1000 % 10**12) * 1000 + number
        self._conn: psycopg.Connection | None = None

    def run(self, stop: threading.Event) -> None:
        """Transactions until ``stop``; a failure is kept in ``failure`` and stops the others."""
        try:
            while not stop.wait(self._pause * self.random.random() * 2):
                self._one(stop)
        except BaseException as error:
            self.failure = error
            stop.set()
        finally:
            if self._conn is not None:
                self._conn.close()

    def _one(self, stop: threading.Event) -> None:
        """One transaction; repeated after a deadlock, checked after a lost connection."""
        self._token += 1000
        work = self.random.choices(list(WORK), list(WORK.values()))[0]
        away_since: float | None = None
        while not (away_since and stop.is_set()):
            counts: Counter[str] = Counter()
            try:
                conn = self._connected()
                if away_since and self._arrived(conn):
                    self.committed += 1
                    return
                with conn.transaction():
                    with conn.cursor() as cursor:
                        work(cursor, self.random, self._token, counts)
                        cursor.execute(
                            "insert into shop.audit (token, what) values (%s, %s)",
                            [self._token, work.__name__],
                        )
            except RollBack:
                self.rolled_back += 1
                return
            except (
                psycopg.errors.DeadlockDetected,
                psycopg.errors.SerializationFailure,
                psycopg.errors.UniqueViolation,  # two sessions took the same new key
                psycopg.errors.ForeignKeyViolation,  # the row referred to was just deleted
            ):
                self.retried += 1
                continue
            except psycopg.OperationalError:
                self.retried += 1
                away_since = away_since or time.monotonic()
                if time.monotonic() - away_since > _AWAY_SECONDS:
                    raise
                time.sleep(0.1)
                continue
            self.committed += 1
            self.counts += counts
            return

    def _connected(self) -> psycopg.Connection:
        if self._conn is None or self._conn.closed or self._conn.broken:
            self._conn = psycopg.connect(
                self._dsn, autocommit=True, application_name="demo writer", connect_timeout=5
            )
            for name, values in _SESSION.items():
                self._conn.execute(
                    "select set_config(%s, %s, false)", [name, self.random.choice(values)]
                )
        return self._conn

    def _arrived(self, conn: psycopg.Connection) -> bool:
        """Whether a commit without an answer took place."""
        found = conn.execute("select 1 from shop.audit where token = %s", [self._token])
        return found.fetchone() is not None


def main(argv: Sequence[str] | None = None) -> int:
    """Writes until a stop request; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m londiste.demo.writer")
    parser.add_argument("dsn")
    parser.add_argument("--rate", type=float, default=100, help="transactions per second")
    parser.add_argument("--connections", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    # It may be gone before this process can ask who it is.
    parser.add_argument(
        "--parent", type=int, default=os.getppid(), help="end when the process PID has ended"
    )
    options = parser.parse_args(argv)

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    started = time.monotonic()
    sessions = [
        Session(options.dsn, number, options.seed, options.rate / options.connections)
        for number in range(1, options.connections + 1)
    ]
    threads = [threading.Thread(target=session.run, args=[stop]) for session in sessions]
    for thread in threads:
        thread.start()
    # Without this a demo that was killed would leave its writer behind.
    while not stop.wait(0.5):
        if os.getppid() != options.parent:
            stop.set()
    for thread in threads:
        thread.join()
    statements: Counter[str] = sum((session.counts for session in sessions), Counter())
    summary = {
        "transactions": sum(session.committed for session in sessions),
        "rolled_back": sum(session.rolled_back for session in sessions),
        "retried": sum(session.retried for session in sessions),
        "statements": dict(sorted(statements.items())),
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(summary), flush=True)
    failures = [session.failure for session in sessions if session.failure is not None]
    for failure in failures:
        print(f"error: {str(failure).strip()}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
