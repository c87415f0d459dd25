"""Records the locks that sessions ask for on a table: a gate blocks each of them until it is seen.

The gate holds the table in EXCLUSIVE mode, which only ACCESS SHARE passes.  A session that asks for
a stronger lock is blocked, and recorded.  Before the gate opens it asks for the table again, queued
after that session: it has the table back as soon as the session's transaction ends.  ``modes``
waits until every gate that is open at the call is closed again, so the locks of one step are
never reported for the next one.

A stronger lock that a session takes after it has passed is recorded if a poll finds it: that can
add a lock that the reference lacks, and no test requires one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg
from psycopg import sql

from londiste.replication.ddl.locks import STRENGTH
from tests.fixtures.cluster import Database

_NAME = "lock watch"
_ASKING = """
select l.pid, l.mode, a.application_name, a.query
from pg_locks l join pg_stat_activity a using (pid)
where l.relation = %s and a.datname = current_database() and l.database = a.datid
    and l.granted = %s and l.locktype = 'relation' and a.application_name <> %s
"""


@dataclass(frozen=True)
class Taken:
    """One lock that was asked for."""

    table: str
    mode: str
    application: str
    statement: str


@dataclass
class Gate:
    """How often the gate of a table was opened, and closed again."""

    table: str
    opened: int = 0
    closed: int = 0


class Watch:
    """Locks from ROW SHARE up that Londiste's sessions ask for on some tables of a database."""

    def __init__(self, database: Database, tables: Sequence[str]) -> None:
        self._dsn = psycopg.conninfo.make_conninfo(database.dsn, application_name=_NAME)
        self._stop = threading.Event()
        #: Guards what the threads and the test share, and tells that a gate was closed.
        self._changed = threading.Condition()
        self._taken: set[Taken] = set()
        self._gates = [Gate(table) for table in tables]
        self._failed: list[BaseException] = []
        ready = [threading.Event() for _ in tables]
        self._threads = [
            threading.Thread(target=self._run, args=(gate, event), daemon=True)
            for gate, event in zip(self._gates, ready, strict=True)
        ]
        for thread in self._threads:
            thread.start()
        assert all(event.wait(30) for event in ready), self._failed

    def close(self) -> None:
        """Opens all gates for good."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        assert not self._failed, self._failed

    def modes(self) -> set[str]:
        """Modes that Londiste's sessions asked for since the last call.

        A session passes only after its gate was counted as opened, so a session that is done when
        this is called belongs to a pass that is waited for here.
        """
        with self._changed:
            passes = [(gate, gate.opened) for gate in self._gates]
            over = self._changed.wait_for(
                lambda: self._failed or all(gate.closed >= number for gate, number in passes), 30
            )
            assert over and not self._failed, self._failed or self._gates
            taken, self._taken = self._taken, set()
        return {lock.mode for lock in taken if lock.application.startswith("londiste")}

    def _run(self, gate: Gate, ready: threading.Event) -> None:
        table = gate.table
        try:
            with (
                psycopg.connect(self._dsn) as first,
                psycopg.connect(self._dsn) as second,
                psycopg.connect(self._dsn, autocommit=True) as observer,
            ):
                _ask(first, table)
                _granted(first)
                row = observer.execute("select %s::regclass::oid", [table]).fetchone()
                assert row is not None
                ready.set()
                holder, other = first, second
                while not self._stop.is_set():
                    if not self._look(observer, row[0], table, granted=False):
                        time.sleep(0.02)
                        continue
                    _ask(other, table)
                    while not _waits(observer, other):
                        time.sleep(0.001)
                    self._look(observer, row[0], table, granted=False)
                    with self._changed:
                        gate.opened += 1
                    holder.rollback()
                    while _waits(observer, other):
                        self._look(observer, row[0], table, granted=True)
                        time.sleep(0.002)
                    _granted(other)
                    holder, other = other, holder
                    with self._changed:
                        gate.closed += 1
                        self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._failed.append(error)
                self._changed.notify_all()
            ready.set()

    def _look(
        self,
        observer: psycopg.Connection[tuple[object, ...]],
        oid: object,
        table: str,
        *,
        granted: bool,
    ) -> bool:
        rows = observer.execute(_ASKING, [oid, granted, _NAME]).fetchall()
        for _, mode, application, query in rows:
            words = _words(str(mode))
            if STRENGTH.index(words) > STRENGTH.index("ACCESS SHARE"):
                with self._changed:
                    self._taken.add(Taken(table, words, str(application), str(query)))
        return bool(rows)


@contextmanager
def watched(database: Database, *tables: str) -> Iterator[Watch]:
    """A watch for the length of a with block."""
    watch = Watch(database, tables)
    try:
        yield watch
    finally:
        watch.close()


def _ask(conn: psycopg.Connection[tuple[object, ...]], table: str) -> None:
    """Begins to wait for the table, and returns at once."""
    text = sql.SQL("begin; lock table only {} in exclusive mode").format(
        sql.Identifier(*table.split("."))
    )
    conn.pgconn.send_query(text.as_bytes(conn))
    conn.pgconn.flush()


def _granted(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """The answer to ``_ask``."""
    while (result := conn.pgconn.get_result()) is not None:
        assert result.status == psycopg.pq.ExecStatus.COMMAND_OK, result.error_message


def _waits(
    observer: psycopg.Connection[tuple[object, ...]], conn: psycopg.Connection[tuple[object, ...]]
) -> bool:
    row = observer.execute(
        "select exists (select from pg_locks where pid = %s and not granted)",
        [conn.info.backend_pid],
    ).fetchone()
    return row is not None and bool(row[0])


def _words(mode: str) -> str:
    """``AccessExclusiveLock`` as SQL writes it."""
    words = "".join(f" {c}" if c.isupper() else c for c in mode.removesuffix("Lock"))
    return words.strip().upper()
