"""Which locks others ask for on a table: each of them has to pass a gate, so none is missed.

The gate holds the table in EXCLUSIVE mode, which lets ACCESS SHARE through and nothing else.  Who
asks for more has to wait and is seen.  Before the gate lets go it asks for the table again, behind
the one who waits: so it has the table back the moment that one is done.
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


class Watch:
    """The locks that sessions of ours ask for on some tables of a database, from ROW SHARE up."""

    def __init__(self, database: Database, tables: Sequence[str]) -> None:
        self._dsn = psycopg.conninfo.make_conninfo(database.dsn, application_name=_NAME)
        self._stop = threading.Event()
        self._taken: set[Taken] = set()
        self._failed: list[BaseException] = []
        ready = [threading.Event() for _ in tables]
        self._threads = [
            threading.Thread(target=self._run, args=(table, event), daemon=True)
            for table, event in zip(tables, ready, strict=True)
        ]
        for thread in self._threads:
            thread.start()
        assert all(event.wait(30) for event in ready), self._failed

    def close(self) -> None:
        """Lets everybody through."""
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        assert not self._failed, self._failed

    def modes(self) -> set[str]:
        """What sessions of this program asked for since the last call."""
        assert not self._failed, self._failed
        found, self._taken = self._taken, set()
        return {one.mode for one in found if one.application.startswith("londiste")}

    def _run(self, table: str, ready: threading.Event) -> None:
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
                    holder.rollback()
                    while _waits(observer, other):
                        self._look(observer, row[0], table, granted=True)
                        time.sleep(0.002)
                    _granted(other)
                    holder, other = other, holder
        except BaseException as error:
            self._failed.append(error)
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
