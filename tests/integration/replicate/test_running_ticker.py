"""Which sessions count as a ticker: the name of an application proves nothing."""

from __future__ import annotations

import psycopg

from londiste.orchestration.daemons import ticker_runs
from tests.fixtures.cluster import Database


def test_a_session_of_any_role_does_not_pass_for_a_ticker(pgq_db: Database) -> None:
    pgq_db.execute(f"create role stranger_{pgq_db.name} login")
    name = "londiste ticker of shop ticks"
    with pgq_db.connect() as conn:
        with psycopg.connect(f"{pgq_db.dsn} user=stranger_{pgq_db.name}", application_name=name):
            assert not ticker_runs(conn)
        with psycopg.connect(pgq_db.dsn, application_name=name):
            assert ticker_runs(conn)
    pgq_db.execute(f"drop role stranger_{pgq_db.name}")
