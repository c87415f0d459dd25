"""A commit that a crash of the server would take back."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from tests.fixtures.cluster import Database


@contextmanager
def unflushed(database: Database, statement: str) -> Iterator[Callable[[], bool]]:
    """Commits the statement with synchronous_commit = off; yields whether it is on disk by now.

    The WAL writer, which would write it after a while, stands still meanwhile.
    """
    with psycopg.connect(database.dsn, autocommit=True) as conn:
        writer = conn.execute(
            "select pid from pg_stat_activity where backend_type = 'walwriter'"
        ).fetchone()
        assert writer is not None
        os.kill(writer[0], signal.SIGSTOP)
        try:
            conn.execute("set synchronous_commit = off")
            conn.execute(statement.encode())
            end = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()

            def flushed() -> bool:
                asked = "select pg_current_wal_flush_lsn() >= %s::pg_lsn"
                return conn.execute(asked, end).fetchone() == (True,)

            assert not flushed()
            yield flushed
        finally:
            os.kill(writer[0], signal.SIGCONT)
