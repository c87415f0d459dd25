"""A crash of the source takes back nothing that a copy or a stream has seen in its snapshot.

Such rows would stay, and events of later transactions with the same ids would count as seen.
"""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

from londiste.copy.chunking.source_snapshot import exported_snapshot
from londiste.db.connection import session
from londiste.engine.spark.stream.options import parse
from londiste.engine.spark.stream.snapshot import SnapshotSession
from tests.fixtures.cluster import Database
from tests.support.unflushed import unflushed

TABLE = "create table t (id int primary key)"
INSERT = "insert into t values (1)"


def test_the_snapshot_of_a_copy(pgq_db: Database) -> None:
    pgq_db.execute(TABLE)
    with session(pgq_db.dsn, autocommit=True) as provider:
        sides: Any = SimpleNamespace(
            location=pgq_db.dsn,
            session_name="copy",
            job=SimpleNamespace(lock_timeout_ms=0, standby=None, answer_seconds=None),
            provider=provider,
        )
        with unflushed(pgq_db, INSERT) as flushed, exported_snapshot(sides) as source:
            assert source.conn.execute("select count(*) from public.t").fetchone() == (1,)
            assert flushed()


def test_the_snapshot_of_a_stream_or_a_lake(pgq_db: Database) -> None:
    pgq_db.execute(f"{TABLE}; select pgq.create_queue('q')")
    pgq_db.execute("select pgq.ticker('q')")
    options = parse({"dsn": pgq_db.dsn, "queue": "q", "tables": "public.t"})
    with unflushed(pgq_db, INSERT) as flushed, closing(SnapshotSession(options)) as held:
        assert cast(SnapshotSession, held).is_alive
        assert flushed()
