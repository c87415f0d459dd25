"""The insert target of a queue names the current event table or no table, never a wrong one."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.fixtures.restore import dump, restore
from tests.support.queue_steps import consume, insert, queue_with_consumer, rotate, tick, value

#: Twice the number of the table, 1 more when events may be packed; null when the way is closed.
WAY = "select pgq._way_value(q) - pgq._way_base(pgq._way_seq(q)::regclass) from pgq.queue q"


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def way(conn: Connection) -> int | None:
    """What a producer reads."""
    found = value(conn, WAY)
    assert found is None or isinstance(found, int)
    return found


def configure(conn: Connection, name: str, to: str | None) -> None:
    """Sets a parameter of the queue."""
    conn.execute("select pgq.set_queue_config('q', %s, %s)", [name, to])


def test_a_new_queue_names_its_first_table(queue: Database) -> None:
    assert way(queue.connect()) == 1


def test_rotation_closes_the_target_and_step_two_names_the_next_table(queue: Database) -> None:
    conn = queue.connect()
    configure(conn, "rotation_period", "0")
    for expected in (3, 5, 1):
        tick(conn)
        consume(conn)
        conn.execute("select pgq.maint_rotate_tables_step1('q')")
        assert way(conn) is None
        conn.execute("select pgq.maint_rotate_tables_step2()")
        assert way(conn) == expected


def test_failed_rotation_leaves_the_target_closed_until_maintenance(
    queue: Database,
) -> None:
    conn, other = queue.connect(autocommit=False), queue.connect()
    configure(other, "rotation_period", "1 day")
    conn.execute("update pgq.queue set queue_cur_table = 1")
    assert way(other) is None
    conn.rollback()
    assert way(other) is None
    assert ("pgq.maint_open_ways", None) in other.execute(
        "select * from pgq.maint_operations()"
    ).fetchall()
    other.execute("select pgq.maint_open_ways()")
    assert way(other) == 1
    assert ("pgq.maint_open_ways", None) not in other.execute(
        "select * from pgq.maint_operations()"
    ).fetchall()


@pytest.mark.parametrize(
    ("name", "to", "back", "meanwhile"),
    [
        ("disable_insert", "true", "false", None),
        ("per_tx_limit", "3", None, None),
        ("packed_events", "false", "true", 0),
        ("ntables", "5", "6", 1),
    ],
)
def test_settings_of_producers_close_the_target(
    queue: Database, name: str, to: str, back: str | None, meanwhile: int | None
) -> None:
    conn = queue.connect()
    configure(conn, name, to)
    assert way(conn) is None
    conn.execute("select pgq.maint_open_ways()")
    assert way(conn) == meanwhile
    configure(conn, name, back)
    assert way(conn) is None
    conn.execute("select pgq.maint_open_ways()")
    assert way(conn) == 1


def test_other_settings_leave_the_target_open(queue: Database) -> None:
    conn = queue.connect()
    for name, to in (("ticker_max_lag", "1 s"), ("rotation_period", "0"), ("max_retries", "3")):
        configure(conn, name, to)
    assert way(conn) == 1


@pytest.mark.parametrize("role", ["replica", "local"])
def test_manual_change_closes_the_target_in_every_replication_role(
    queue: Database, role: str
) -> None:
    conn = queue.connect()
    conn.execute(f"set session_replication_role = {role}")
    conn.execute("update pgq.queue set queue_disable_insert = true")
    assert way(conn) is None


@pytest.mark.parametrize("inside", ["", "savepoint s"])
def test_uncommitted_table_is_not_named(queue: Database, inside: str) -> None:
    conn, other = queue.connect(autocommit=False), queue.connect()
    if inside:
        conn.execute(inside.encode())
    configure(conn, "packed_events", "false")
    conn.execute("select pgq.maint_open_ways()")
    assert way(other) is None
    conn.execute("select pgq.maint_rotate_tables_step2()")
    assert way(other) is None
    conn.rollback()
    other.execute("select pgq.maint_open_ways()")
    assert way(other) == 1


def test_locked_queue_is_skipped_without_waiting(queue: Database) -> None:
    conn, other = queue.connect(autocommit=False), queue.connect()
    configure(conn, "disable_insert", "true")
    other.execute("set statement_timeout = '5s'")
    other.execute("select pgq.maint_open_ways()")
    assert way(other) is None
    conn.commit()
    other.execute("select pgq.maint_open_ways()")
    assert way(other) is None, "it refuses events"


def test_a_transaction_with_an_old_snapshot_names_nothing(queue: Database) -> None:
    conn, other = queue.connect(autocommit=False), queue.connect()
    conn.execute("set transaction isolation level repeatable read")
    insert(conn, "e")
    configure(other, "packed_events", "false")
    conn.execute("select pgq.maint_open_ways()")
    conn.commit()
    assert way(other) is None


def test_a_transaction_with_an_old_snapshot_learns_the_new_table(queue: Database) -> None:
    conn, other = queue.connect(autocommit=False), queue.connect()
    conn.execute("set transaction isolation level serializable")
    assert way(conn) == 1
    configure(other, "rotation_period", "0")
    tick(other)
    consume(other)
    assert rotate(other)
    assert way(conn) == 3


def test_restored_dump_names_no_table(
    queue: Database, new_database: Callable[..., Database]
) -> None:
    copy = new_database()
    restore(dump(queue), into=copy)
    conn = copy.connect()
    told = value(conn, "select pgq._way_value(q) from pgq.queue q")
    assert told == value(queue.connect(), "select pgq._way_value(q) from pgq.queue q")
    assert not 0 <= (way(conn) or -1) < 200
    conn.execute("select pgq.maint_open_ways()")
    assert way(conn) == 1


def test_only_administrators_open_targets_and_no_role_sets_them(queue: Database) -> None:
    conn = queue.connect()
    sequence = value(conn, "select pgq._way_seq(q) from pgq.queue q")
    for role in ("pgq_writer", "pgq_admin"):
        conn.execute(f"set role {role}")
        assert value(conn, "select pg_sequence_last_value(%s)", sequence)
        for call in ("nextval(%s)", "setval(%s, 7)"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(f"select {call}", [sequence])
    conn.execute("select pgq.maint_open_ways()")
    conn.execute("set role pgq_writer")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("select pgq.maint_open_ways()")


def test_a_dropped_queue_leaves_no_sequence(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.drop_queue('q', true)")
    assert value(conn, "select count(*) from pg_class where relname like 'event%way'") == 0
