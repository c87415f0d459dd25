"""The application: one transaction of random work after another, on the root.

What it does is decided by the number of the life, and by nothing else; when it does it is up to the
machine.  Whatever it cannot commit is rolled back, and counted by its SQLSTATE.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg

from londiste.selftest.shapes import Table
from londiste.selftest.work import WORK

#: What every life replicates from its beginning.  The ledger has no key: a row that is applied
#: twice stays visible.
SCHEMA = """
create schema nemesis;
create table nemesis.ledger (n bigint not null, era int not null, txid bigint not null);
create table nemesis.token (n bigint primary key, v text not null);
create table nemesis.notice (n bigint primary key, v text not null);
create table nemesis.account (id int primary key, balance bigint not null);
insert into nemesis.account select i, 100 from generate_series(1, 8) i;
create table nemesis.ticket (n bigserial primary key, w bigint not null);
create table nemesis.consumed (n bigint not null);
"""
#: A queue of applications, and which transactions write an event into it.
APP_QUEUE = "app"
EVERY = 3
ALWAYS = (
    "nemesis.ledger",
    "nemesis.token",
    "nemesis.account",
    "nemesis.notice",
    "nemesis.ticket",
)
TOTAL = 800

_SETTINGS = (
    "set local datestyle = 'SQL, DMY'",
    "set local datestyle = 'German'",
    "set local timezone = 'Asia/Kolkata'",
    "set local intervalstyle = 'sql_standard'",
    "set local extra_float_digits = -10",
    "set local bytea_output = 'escape'",
    "set local search_path = nemesis, pg_temp",
    "set local standard_conforming_strings = on",
    "set local xmlbinary = 'hex'",
    "set local lc_monetary = 'C'",
)
#: Of an application that writes; a statement that waits longer than this waits for the program.
_PATIENCE = "15s"

#: What random work meets without anybody's fault: constraints of the tables, a busy or lost server.
_EXPECTED = ("08", "23", "40", "57P", "53", "55P03", "55006", "25P")


class Writer:
    """Commits transactions until it is stopped; ``held`` keeps it from beginning another one."""

    def __init__(
        self, dsn: Callable[[], str], seed: int, kinds: Sequence[str], pause: float = 0.004
    ) -> None:
        self.tables: list[Table] = []
        self.committed = 0
        self.era = 1
        self.ends: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()
        self.wrong: list[str] = []
        #: Transactions that were not committed, as far as is known.
        self.failed: set[int] = set()
        #: No TRUNCATE: a comparison starts again after each.
        self.calm = False
        #: SQLSTATEs that are no fault while something happens to the root.
        self.allowed: set[str] = set()
        #: Whether the database has a queue of the application.
        self.queue = True
        self._dsn = dsn
        self._seed = seed
        self._kinds = list(kinds)
        self._pause = pause
        self._n = 0
        self._plain = False
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._long: psycopg.Connection[Any] | None = None
        self._long_left = 0
        self._prepared: list[str] = []
        self._conn: psycopg.Connection[Any] | None = None
        self._thread = threading.Thread(target=self._run, name="nemesis writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the writer hangs: something of ours blocks it"
        with self._turn:
            with contextlib.suppress(psycopg.Error):
                self._finish_open()
            for conn in (self._conn, self._long):
                if conn is not None:
                    conn.close()

    @contextlib.contextmanager
    def held(self, seconds: float = 40.0) -> Iterator[None]:
        """No transaction is open or begins within the block.  AssertionError when one hangs."""
        assert self._turn.acquire(timeout=seconds), "a transaction of the application hangs"
        try:
            self._finish_open()
            yield
        finally:
            self._turn.release()

    def first(self, number: int, era: int) -> None:
        """Before the start: numbers and era of the transactions."""
        self._n, self.era = number, era

    def next_number(self) -> int:
        """Of a transaction that writes a notice: the next one."""
        self._plain = True
        return self._n + 1

    def moved(self) -> None:
        """Another root takes the writes: sessions end."""
        self.era += 1
        if self._conn is not None:
            self._conn.close()

    # -- transactions ----------------------------------------------------------------------

    def _run(self) -> None:
        while not self._over.is_set():
            with self._turn:
                if not self._over.is_set():
                    self.one()
            self._over.wait(self._pause)

    def one(self) -> None:
        """One transaction."""
        self._n += 1
        chance = random.Random(f"{self._seed} {self._n}")
        kind = WORK[chance.choices(self._kinds, [WORK[k].weight for k in self._kinds])[0]]
        plain, self._plain = self._plain, False
        if plain or (self.calm and kind.name == "truncate"):
            kind = WORK["rows"]
        self.kinds[kind.name] += 1
        try:
            conn = self._session()
            if kind.more == "long":
                self._begin_long(chance)
                return
            if kind.more == "serializable":
                conn.execute("begin isolation level serializable")
            else:
                conn.execute("begin")
            for setting in chance.sample(_SETTINGS, chance.randint(0, 3)):
                conn.execute(setting)
            self._promise(conn, chance)
            if plain:
                conn.execute("insert into nemesis.notice values (%s, 'qz7value')", [self._n])
            elif self.tables:
                kind.run(conn, self.tables, chance)
            self._end(conn, kind.more, chance)
            self._long_left -= 1
            if self._long is not None and self._long_left < 0:
                self._finish_long()
        except psycopg.Error as error:
            self.failed.add(self._n)
            self._failed(error, kind.name)

    def _promise(self, conn: psycopg.Connection[Any], chance: random.Random) -> None:
        """What every transaction does."""
        self._mark(conn)
        one, other = sorted(chance.sample(range(1, 9), 2))
        amount = chance.randint(-9, 9)
        for account, change in ((one, amount), (other, -amount)):
            conn.execute(
                "update nemesis.account set balance = balance + %s where id = %s",
                [change, account],
            )
        if chance.random() < 0.3:
            conn.execute("insert into nemesis.ticket (w) values (%s)", [self._n])

    def _mark(self, conn: psycopg.Connection[Any]) -> None:
        """By this a transaction is known, on subscribers and to consumers."""
        conn.execute(
            "insert into nemesis.ledger values (%s, %s, txid_current())", [self._n, self.era]
        )
        conn.execute("insert into nemesis.token values (%s, 'qz7value')", [self._n])
        if self.queue and self._n % EVERY == 0:
            conn.execute("select pgq.insert_event(%s, 'n', %s)", [APP_QUEUE, str(self._n)])

    def _end(self, conn: psycopg.Connection[Any], how: str | None, chance: random.Random) -> None:
        if how == "rollback":
            conn.execute("rollback")
            self.ends["rolled back"] += 1
        elif how == "prepare":
            gid = f"nemesis {self._seed} {self._n} {id(self)}"
            conn.execute(f"prepare transaction '{gid}'".encode())
            self._prepared.append(gid)
            if chance.random() < 0.5:
                self._finish_prepared()
        else:
            conn.execute("commit")
            self.committed += 1
            self.ends["committed"] += 1
        if self._prepared:
            # Its locks are in the way of whatever comes next.
            self._finish_prepared()

    def _finish_prepared(self) -> None:
        conn = self._session()
        while self._prepared:
            conn.execute(f"commit prepared '{self._prepared[0]}'".encode())
            self._prepared.pop(0)
            self.committed += 1

    def _begin_long(self, chance: random.Random) -> None:
        if self._long is not None:
            return self._finish_long()
        self._long = psycopg.connect(self._dsn(), autocommit=True, connect_timeout=5)
        self._long.execute("begin")
        self._mark(self._long)
        self._long_left = chance.randint(3, 40)
        return None

    def _finish_long(self) -> None:
        long, self._long = self._long, None
        if long is not None:
            with contextlib.closing(long):
                long.execute("commit")
                self.committed += 1

    def _finish_open(self) -> None:
        """Ends what is open: the long transaction, and what is prepared, also after a crash."""
        try:
            self._finish_long()
        except psycopg.Error:
            self.ends["lost"] += 1
        try:
            conn = self._session()
            for (gid,) in conn.execute(
                "select gid from pg_prepared_xacts where database = current_database()"
            ).fetchall():
                conn.execute(f"commit prepared '{gid}'".encode())
            self._prepared.clear()
        except psycopg.OperationalError:
            self.ends["lost"] += 1

    def _session(self) -> psycopg.Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(self._dsn(), autocommit=True, connect_timeout=5)
            self._conn.execute(f"set statement_timeout = '{_PATIENCE}'")
            for (gid,) in self._conn.execute(
                "select gid from pg_prepared_xacts where database = current_database()"
            ).fetchall():
                self._conn.execute(f"commit prepared '{gid}'".encode())
            self._prepared.clear()
        return self._conn

    def _failed(self, error: psycopg.Error, kind: str) -> None:
        state = error.sqlstate or "08000"
        self.ends[state] += 1
        if not state.startswith(_EXPECTED) and state not in self.allowed:
            self.wrong.append(f"work {kind}: {state} {error}")
        if error.diag.constraint_name == "ticket_pkey":
            self.wrong.append(f"a number of a sequence came twice: {error}")
        if state == "57014":
            self.wrong.append(f"work {kind}: a statement took longer than {_PATIENCE}: {error}")
        self._long_left -= 1
        if self._long is not None and self._long_left < 0:
            with contextlib.suppress(psycopg.Error):
                self._finish_long()
        if self._conn is not None and not self._conn.closed:
            try:
                self._conn.execute("rollback")
            except psycopg.Error:
                self._conn.close()
