"""Writers on the source, each with something a reader of the target can check.

``TokenWriter`` makes transactions whose parts are recognisable on the other side; ``pgbench``
makes many, of the ordinary kind.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import psycopg

from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import Database
from tests.support.scenarios.harness import Cascade
from tests.support.scenarios.processes import Process
from tests.support.waiting import wait_for

#: The tables of TokenWriter.  ``scenario.log`` has no key: rows applied twice stay visible.
SCHEMA = """
create schema scenario;
create table scenario.token_a (id bigint primary key, token text not null);
create table scenario.token_b (token text not null, id bigint primary key, note text);
create table scenario."Token C" (region text, "Id" bigint, token text not null,
    primary key (region, "Id"));
create table scenario.log (writer int not null, n bigint not null, token text not null);
create table scenario.account (id int primary key, balance bigint not null);
create table scenario.item (k1 int, k2 text, payload jsonb, amount numeric, primary key (k1, k2));
"""
DATA = """
insert into scenario.account select i, 1000 from generate_series(1, 20) i;
insert into scenario.item select i, 'k' || i % 7, jsonb_build_object('n', i), i / 3.0
    from generate_series(1, 500) i;
"""
#: ``bulk`` gives the copy something to do.
BULK = """
create table scenario.bulk (id int primary key, filler text);
"""
#: Without the tables of TokenWriter.
BULK_SCHEMA = "create schema scenario;" + BULK
BULK_ROWS = """
insert into scenario.bulk select i, repeat(md5(i::text), 8) from generate_series(1, 20000) i;
"""

KEYED = (
    "scenario.token_a",
    "scenario.token_b",
    "scenario.Token C",
    "scenario.account",
    "scenario.item",
)
KEYLESS = ("scenario.log",)


class TokenWriter:
    """Commits transactions until it is stopped; survives a source that goes away.

    A transaction writes one token into three tables and, with the next number of this writer,
    into the log; moves an amount between two accounts; and changes items: updates, updates of
    the key, deletes, inserts.  Some transactions are rolled back, some have a savepoint that
    is.  ``committed`` counts those that the source has confirmed.

    number -- 1 or 2; two writers do not wait for each other.
    pause -- seconds between two transactions.
    hold -- seconds in the middle of each transaction: ticks and copies come in between.
    two_phase -- prepares every third transaction, and commits it after ``hold`` once more.
    """

    def __init__(
        self,
        database: Database,
        *,
        number: int = 1,
        pause: float = 0.005,
        hold: float = 0.0,
        two_phase: bool = False,
    ) -> None:
        self.database = database
        self.number = number
        self._hold = hold
        self._two_phase = two_phase
        self.committed = 0
        self.failures: list[str] = []
        self._pause = pause
        self._random = random.Random(number)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"writer {number}", daemon=True)
        self._error: BaseException | None = None

    def __enter__(self) -> TokenWriter:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()

    def stop(self) -> int:
        """Ends it after its transaction; how many the source has confirmed."""
        self._end()
        if self._error is not None:
            raise AssertionError("the writer has failed") from self._error
        return self.committed

    def wait(self, transactions: int, seconds: float = 60.0) -> None:
        """Waits until it has committed so many more."""
        target = self.committed + transactions

        def reached() -> bool:
            assert self._error is None, f"the writer has failed: {self._error!r}"
            return self.committed >= target

        wait_for(reached, timeout=seconds, what=f"{transactions} transactions of the writer")

    def _end(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(60)
            assert not self._thread.is_alive(), "the writer hangs: something of ours blocks it"

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    with psycopg.connect(self.database.dsn, connect_timeout=5) as conn:
                        self._write(conn)
                except psycopg.OperationalError as error:
                    self.failures.append(str(error))
                    self._stop.wait(0.1)
        except BaseException as error:
            self._error = error

    def _write(self, conn: psycopg.Connection[Any]) -> None:
        found = conn.execute(
            "select coalesce(max(n), 0) from scenario.log where writer = %s", [self.number]
        ).fetchone()
        assert found is not None
        number = int(found[0])
        conn.rollback()
        while not self._stop.is_set():
            number += 1
            if number % 7 == 0:
                self._transaction(conn, number, savepoint=False)
                conn.rollback()
            if self._two_phase and number % 3 == 0:
                conn.tpc_begin(conn.xid(self.number, f"scenario {number}", ""))
                self._transaction(conn, number, savepoint=False)
                conn.tpc_prepare()
                self._stop.wait(self._hold)
                conn.tpc_commit()
            else:
                self._transaction(conn, number, savepoint=number % 5 == 0)
                conn.commit()
            self.committed += 1
            self._stop.wait(self._pause)

    def _transaction(self, conn: psycopg.Connection[Any], number: int, *, savepoint: bool) -> None:
        rand = self._random
        token = f"{self.number}:{number}"
        row = number * 10 + self.number
        conn.execute("insert into scenario.token_a values (%s, %s)", [row, token])
        conn.execute("insert into scenario.log values (%s, %s, %s)", [self.number, number, token])
        conn.execute("insert into scenario.token_b values (%s, %s, %s)", [token, row, "é\\\t'\n"])
        first = 10 * self.number - 9
        one, other = rand.sample(range(first, first + 10), 2)
        amount = rand.randint(-50, 50)
        for account, change in ((one, -amount), (other, amount)):
            conn.execute(
                "update scenario.account set balance = balance + %s where id = %s",
                [change, account],
            )
        if self._hold:
            self._stop.wait(self._hold)
        if savepoint:
            with conn.transaction(force_rollback=True):
                conn.execute("delete from scenario.token_b where id = %s", [row])
        self._items(conn, number)
        conn.execute(
            'insert into scenario."Token C" values (%s, %s, %s)', [f"r{number % 3}", row, token]
        )

    def _items(self, conn: psycopg.Connection[Any], number: int) -> None:
        # Every writer has items of its own.
        base = self.number * 1_000_000 + number
        conn.execute(
            "insert into scenario.item values (%s, 'new', %s, 1.50)", [base, f'{{"n": {number}}}']
        )
        conn.execute(
            "update scenario.item set amount = amount + 0.01, payload = payload || '{\"u\": 1}'"
            " where k1 = %s",
            [base - self._random.randint(0, 5)],
        )
        conn.execute(
            "update scenario.item set amount = amount * -1.1 where k1 = %s",
            [number * 2 % 500 + self.number],
        )
        if number % 3 == 0:
            conn.execute("update scenario.item set k2 = 'moved ' || k2 where k1 = %s", [base - 1])
        if number % 4 == 0:
            conn.execute("delete from scenario.item where k1 = %s", [base - 4])


@contextlib.contextmanager
def quick_and_slow(database: Database) -> Iterator[tuple[TokenWriter, TokenWriter]]:
    """Two writers: many short transactions, and long ones with two-phase commits."""
    with (
        TokenWriter(database) as quick,
        TokenWriter(database, number=2, hold=0.25, two_phase=True) as slow,
    ):
        yield quick, slow


def start_pgbench(
    cascade: Cascade, database: Database, *, clients: int = 4, seconds: int = 600
) -> Process:
    """pgbench's own transactions, until it is stopped."""
    server = database.cluster
    assert isinstance(server, Cluster)
    return cascade.processes.start(
        "pgbench",
        [
            str(server.program("pgbench")),
            *("-n", "-c", str(clients), "-j", "1", "-T", str(seconds), "--max-tries=10"),
            database.dsn,
        ],
        server.environment(),
    )


def initialise_pgbench(cascade: Cascade, database: Database, *, scale: int, empty: bool) -> None:
    """``pgbench -i``; only the empty tables when ``empty``."""
    server = database.cluster
    assert isinstance(server, Cluster)
    steps = "dtp" if empty else "dtgp"
    done = cascade.processes.run(
        [str(server.program("pgbench")), "-i", "-q", "-s", str(scale), "-I", steps, database.dsn],
        server.environment(),
    )
    assert done.code == 0, str(done)
