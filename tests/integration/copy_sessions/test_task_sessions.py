"""Sessions shared by tasks: reused if intact, closed if broken or idle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from londiste.db.connection import Connection
from londiste.engine import session_pool
from londiste.errors import StateError
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

NAME = "londiste copy task of a test"


def waiting(database: Database) -> int:
    """Sessions of that name."""
    return int(
        database.value(
            f"select count(*) from pg_stat_activity where application_name = '{NAME}'"
            " and datname = current_database()"
        )
    )


def pid(conn: Connection) -> int:
    return conn.info.backend_pid


def test_a_session_is_handed_on_and_closed_when_nobody_takes_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_pool, "KEEP", 0.3)
    with session_pool.lent(database.dsn, name=NAME, keep=True) as conn:
        first = pid(conn)
    with session_pool.lent(database.dsn, name=NAME, keep=True) as conn:
        assert pid(conn) == first
        # Two at a time are two sessions.
        with session_pool.lent(database.dsn, name=NAME, keep=True) as other:
            assert pid(other) != first
    wait_for(lambda: waiting(database) == 0, what="the end of the session")
    with session_pool.lent(database.dsn, name=NAME, keep=True) as conn:
        assert pid(conn) != first


def test_what_is_not_to_be_kept_is_closed_at_once(database: Database) -> None:
    with session_pool.lent(database.dsn, name=NAME, keep=False) as conn:
        pass
    assert conn.closed


@pytest.mark.parametrize("leave", ["error", "transaction"])
def test_a_session_with_a_past_is_closed(database: Database, leave: str) -> None:
    def use(conn: Connection) -> None:
        if leave == "transaction":
            conn.execute("begin")
        else:
            raise StateError("it failed")

    try:
        with session_pool.lent(database.dsn, name=NAME, keep=True) as conn:
            use(conn)
    except StateError:
        pass
    assert conn.closed


def test_a_session_that_the_server_has_ended_is_not_taken(database: Database) -> None:
    with session_pool.lent(database.dsn, name=NAME, keep=True) as conn:
        first = pid(conn)
    database.execute(f"select pg_terminate_backend({first})")
    wait_for(lambda: waiting(database) == 0, what="the end of the session")
    with session_pool.lent(database.dsn, name=NAME, keep=True) as conn:
        assert conn.execute("select 1").fetchone() == (1,)
        assert pid(conn) != first


def test_roles_and_databases_do_not_share_sessions(
    database: Database, new_database: Callable[..., Database]
) -> None:
    with session_pool.lent(database.dsn, name=NAME, keep=True) as conn:
        first = pid(conn)
    with session_pool.lent(database.dsn, name=NAME, replica=True, keep=True) as conn:
        assert pid(conn) != first
        with conn.transaction():
            assert conn.execute("show session_replication_role").fetchone() == ("replica",)
    other = new_database()
    with session_pool.lent(other.dsn, name=NAME, keep=True) as conn:
        assert conn.info.dbname == other.name
