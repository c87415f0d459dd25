"""Sessions that one table's copy has done with serve the next table."""

from __future__ import annotations

import psycopg

from londiste.db.connection import connect
from londiste.engine.session_pool import SessionPool
from tests.fixtures.cluster import Database


def test_a_session_that_is_given_back_is_taken_under_a_new_name(database: Database) -> None:
    spare = SessionPool()
    first = connect(database.dsn, name="one", autocommit=True, replica=True)
    spare.keep(database.dsn, first, target=True, most=1)
    assert spare.take(database.dsn, "two", target=False) is None
    again = spare.take(database.dsn, "two", target=True)
    assert again is first
    with again.transaction():
        row = again.execute(
            "select current_setting('application_name'),"
            " current_setting('session_replication_role')"
        ).fetchone()
    assert row == ("two", "replica")
    again.close()


def test_a_session_that_cannot_go_on_is_not_kept_and_not_taken(database: Database) -> None:
    spare = SessionPool()
    open_transaction = connect(database.dsn, name="one", autocommit=True)
    open_transaction.execute("begin")
    spare.keep(database.dsn, open_transaction, target=True, most=2)
    assert open_transaction.closed

    ended = connect(database.dsn, name="one", autocommit=True)
    spare.keep(database.dsn, ended, target=True, most=2)
    with psycopg.connect(database.dsn, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s, 10000)", [ended.info.backend_pid])
    assert spare.take(database.dsn, "two", target=True) is None


def test_no_more_sessions_are_kept_than_tables_are_copied_at_a_time(database: Database) -> None:
    spare = SessionPool()
    made = [connect(database.dsn, name="one", autocommit=True) for _ in range(2)]
    for conn in made:
        spare.keep(database.dsn, conn, target=True, most=1)
    assert [conn.closed for conn in made] == [False, True]
    spare.close()
    assert made[0].closed
