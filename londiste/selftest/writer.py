"""The application of a self-test: one random transaction after another in the source.

What it does follows from the seed.  It remembers which transactions it has committed, and when.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import psycopg

from londiste.db.connection import Connection, connect
from londiste.errors import LondisteError
from londiste.selftest.pair import ACCOUNT, LEDGER, NAME, TOKEN
from londiste.selftest.promises import Book
from londiste.selftest.shapes import MARK, Table
from londiste.selftest.work import WORK

TOTAL = 800
#: Milliseconds after which a statement was blocked by replication.
_PATIENCE_MS = 15_000
#: What random work meets without a fault: constraints of the tables, a busy or lost server.
_EXPECTED = ("08", "23", "40", "57P", "53", "55P03", "55006", "25P")
#: Work that needs no more rights than those on its tables, nor a second session.
_KINDS = [kind.name for kind in WORK if kind.more not in ("prepare", "long")]
_SETTINGS = (
    "set local datestyle = 'SQL, DMY'",
    "set local timezone = 'Asia/Kolkata'",
    "set local intervalstyle = 'sql_standard'",
    "set local extra_float_digits = -10",
    "set local bytea_output = 'escape'",
)


class Writer:
    """Commits transactions until it is stopped; ``held`` keeps it from starting another one."""

    def __init__(self, dsn: str, seed: int, tables: Sequence[Table], book: Book) -> None:
        self.committed: dict[int, float] = {}
        self.kinds: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        #: Transactions of which the answer to the commit was lost.
        self.unknown: set[int] = set()
        #: No TRUNCATE: a comparison starts again after each.
        self.calm = False
        self._dsn, self._seed, self._tables, self._book = dsn, seed, list(tables), book
        self._pause = 0.005
        self._n = 0
        self._turn = threading.RLock()
        self._over = threading.Event()
        self._conn: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="selftest writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends after the present transaction."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(2 * _PATIENCE_MS / 1000)
        if self._conn is not None:
            self._conn.close()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No transaction is open or begins in the with block, which may be nested."""
        with self._turn:
            yield

    def _run(self) -> None:
        while not self._over.is_set():
            with self._turn:
                self._one()
            self._over.wait(self._pause)

    def _one(self) -> None:
        self._n += 1
        chance = random.Random(f"{self._seed} {self._n}")
        kind = WORK[chance.choices(_KINDS, [WORK[name].weight for name in _KINDS])[0]]
        if self.calm and kind.name == "truncate":
            kind = WORK["rows"]
        self.kinds[kind.name] += 1
        committing = False
        try:
            conn = self._session()
            conn.execute(
                b"begin isolation level serializable" if kind.more == "serializable" else b"begin"
            )
            for setting in chance.sample(_SETTINGS, chance.randint(0, 2)):
                conn.execute(setting.encode())
            self._promise(conn, chance)
            kind.run(conn, self._tables, chance)
            if kind.more == "rollback":
                conn.execute("rollback")
                self.ends["rolled back"] += 1
            else:
                committing = True
                conn.execute("commit")
                self.committed[self._n] = time.monotonic()
                self.ends["committed"] += 1
            self._book.checked("application")
        except (psycopg.Error, LondisteError) as error:
            self._failed(error, kind.name, committing)

    def _promise(self, conn: Connection, chance: random.Random) -> None:
        """What every transaction does."""
        conn.execute(f"insert into {LEDGER} values (%s, txid_current())".encode(), [self._n])
        conn.execute(f"insert into {TOKEN} values (%s, %s)".encode(), [self._n, MARK])
        one, other = sorted(chance.sample(range(1, 9), 2))
        amount = chance.randint(-9, 9)
        for account, change in ((one, amount), (other, -amount)):
            conn.execute(
                f"update {ACCOUNT} set balance = balance + %s where id = %s".encode(),
                [change, account],
            )

    def _session(self) -> Connection:
        if self._conn is None or self._conn.closed:
            self._conn = connect(
                self._dsn,
                name=f"{NAME}: application",
                autocommit=True,
                statement_timeout_ms=_PATIENCE_MS,
            )
        return self._conn

    def _failed(self, error: psycopg.Error | LondisteError, kind: str, committing: bool) -> None:
        cause = error.__cause__ if isinstance(error, LondisteError) else error
        state = (cause.sqlstate if isinstance(cause, psycopg.Error) else None) or "08000"
        self.ends[f"SQLSTATE {state}"] += 1
        if committing and state.startswith(("08", "57P")):
            self.unknown.add(self._n)
        if not state.startswith(_EXPECTED):
            slow = f"a statement took longer than {_PATIENCE_MS // 1000} s"
            self._book.broke(
                "application",
                slow if state == "57014" else f"a statement failed with SQLSTATE {state}",
                f"source, work {kind!r}",
                "check the server log of the source at this time",
            )
        conn = self._conn
        if conn is not None and not conn.closed:
            try:
                conn.execute("rollback")
            except psycopg.Error:
                conn.close()
