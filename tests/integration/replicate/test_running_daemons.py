"""Which sessions count as a ticker or worker: names and advisory locks prove nothing."""

from __future__ import annotations

import psycopg
import pytest

from londiste.errors import NodeBusy
from londiste.orchestration.daemons import ticker_runs, worker_blocked, worker_runs
from londiste.replication.worker.connections import _require_alone
from tests.fixtures.cascade import refused_at_once
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for


def test_a_session_of_any_role_does_not_pass_for_a_ticker(pgq_db: Database) -> None:
    pgq_db.execute(f"create role stranger_{pgq_db.name} login")
    name = "londiste ticker of shop ticks"
    with pgq_db.connect() as conn:
        with psycopg.connect(f"{pgq_db.dsn} user=stranger_{pgq_db.name}", application_name=name):
            assert not ticker_runs(conn)
        with psycopg.connect(pgq_db.dsn, application_name=name):
            assert ticker_runs(conn)
    pgq_db.execute(f"drop role stranger_{pgq_db.name}")


def test_a_session_of_any_role_does_not_pass_for_a_worker(pgq_db: Database) -> None:
    role = f"stranger_{pgq_db.name}"
    pgq_db.execute(f"create role {role} login")
    lock = "select pg_advisory_lock(hashtextextended('londiste worker q', 0))"
    with pgq_db.connect(autocommit=True) as conn:
        with psycopg.connect(f"{pgq_db.dsn} user={role}") as other:
            other.execute(lock)
            assert not worker_runs(conn, "q")
            assert f"of role {role}" in worker_blocked(conn, "q")
            pid = other.info.backend_pid
            refused = pytest.raises(NodeBusy, match=f"a session of role {role} holds")
            with refused_at_once(), refused as caught:
                _require_alone(conn, "q")
            assert caught.value.hint == f"end that session: select pg_terminate_backend({pid})"
        with psycopg.connect(pgq_db.dsn) as own:
            own.execute(lock)
            assert worker_runs(conn, "q") and not worker_blocked(conn, "q")
            with refused_at_once(), pytest.raises(NodeBusy, match="another worker runs"):
                _require_alone(conn, "q")
        # Its backend ends a moment after the connection.
        wait_for(lambda: not worker_runs(conn, "q"), what="the lock to be free")
    pgq_db.execute(f"drop role {role}")
