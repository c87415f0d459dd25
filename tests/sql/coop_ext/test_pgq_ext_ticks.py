"""The position of a consumer is a tick, kept where its effect is."""

from __future__ import annotations

import threading

import psycopg
import pytest

from londiste.pgq import ext
from tests.fixtures.cluster import Database
from tests.support.queue_steps import refused, value
from tests.support.waiting import wait_for

GET = "select pgq_ext.get_last_tick(%s)"
SET = "select pgq_ext.set_last_tick(%s, %s::int8)"
GET_BY = "select pgq_ext.get_last_tick(%s, %s)"
SET_BY = "select pgq_ext.set_last_tick(%s, %s, %s::int8)"


def test_a_tick_is_kept_replaced_and_forgotten(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert value(conn, GET, "c") is None
    for tick in (5, 6, 4):
        assert value(conn, SET, "c", tick) == 1
        assert value(conn, GET, "c") == tick
    assert value(conn, SET, "c", None) == 1
    assert value(conn, GET, "c") is None
    assert value(conn, "select count(*) from pgq_ext.completed_tick") == 0
    assert value(conn, SET, "c", None) == 1, "nothing to forget"


def test_consumers_and_workers_are_apart(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute(SET, ["c", 5])
    conn.execute(SET, ["d", 6])
    conn.execute(SET_BY, ["c", "1", 7])
    assert [value(conn, GET, "c"), value(conn, GET, "d")] == [5, 6]
    assert [value(conn, GET_BY, "c", ""), value(conn, GET_BY, "c", "1")] == [5, 7]
    conn.execute(SET_BY, ["c", "1", None])
    assert [value(conn, GET, "c"), value(conn, GET_BY, "c", "1")] == [5, None]


def test_a_name_is_needed(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    with refused("LD005", "Invalid NULL value"):
        conn.execute(SET, [None, 5])
    with refused("LD005", "Invalid NULL value"):
        conn.execute(SET_BY, ["c", None, 5])
    assert value(conn, GET, None) is None
    assert value(conn, GET_BY, "c", None) is None


def test_every_function_has_its_wrapper(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    assert ext.get_last_tick(conn, "c") is None
    ext.set_last_tick(conn, "c", 5)
    ext.set_last_tick(conn, "c", 7, "1")
    assert (ext.get_last_tick(conn, "c"), ext.get_last_tick(conn, "c", "1")) == (5, 7)
    ext.set_last_tick(conn, "c", None)
    assert ext.get_last_tick(conn, "c") is None


MOVES = """
do $$ begin
    for n in 1 .. 5000 loop
        perform pgq_ext.set_last_tick('c', '', n);
        perform pgq_ext.set_batch_done('c', '', n);
        perform pgq_ext.note_known_source('c', '', 'q', null, null, n, now());
        perform pgq_ext.set_event_done('c', '', n, n);
        perform pgq_ext.set_event_returned('c', '', n, n, 1, null, null);
        commit;
    end loop;
end $$
"""
LOOKS = (
    "select pgq_ext.get_last_tick('c', '')",
    "select pgq_ext.set_last_tick('c', '', 9001)",
    "select pgq_ext.is_batch_done('c', '', 5)",
    "select pgq_ext.set_batch_done('c', '', 9001)",
    "select * from pgq_ext.get_known_source('c', '')",
    "select pgq_ext.note_known_source('c', '', 'q', null, null, 9001, now())",
    "select pgq_ext.is_event_done('c', '', 9001, 5)",
    "select pgq_ext.set_event_done('c', '', 9001, 5)",
    "select pgq_ext.set_event_returned('c', '', 9001, 5, 1, null, null)",
    "select * from pgq_ext.get_returned_events('c', '', 9001)",
)


def test_no_step_walks_over_the_versions_that_an_old_snapshot_keeps(pgq_db: Database) -> None:
    conn, holder = pgq_db.connect(), pgq_db.connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select 1 from pgq_ext.completed_tick")
    conn.execute(MOVES)
    conn.execute("vacuum pgq_ext.completed_tick")
    assert value(conn, "select pg_relation_size('pgq_ext.completed_tick')") >= 10 * 8192
    for look in LOOKS:
        conn.execute(look)  # caches of the session
        (plan,) = value(conn, f"explain (analyze, buffers, format json) {look}")
        pages = plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
        assert pages <= 15, f"{pages} pages: {look}"


@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
def test_two_that_store_the_first_tick_make_one_row(pgq_db: Database, level: str) -> None:
    first, second = pgq_db.connect(autocommit=False), pgq_db.connect(autocommit=False)
    second.execute(f"set transaction isolation level {level}")
    second.execute("select 1")
    first.execute(SET, ["c", 5])
    errors: list[BaseException] = []

    def store() -> None:
        try:
            second.execute(SET, ["c", 6])
            second.commit()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=store)
    thread.start()
    conn = pgq_db.connect()
    waiting = "select count(*) from pg_locks where not granted and locktype = 'transactionid'"
    wait_for(lambda: value(conn, waiting) > 0, what="the second to wait")
    # It goes on from there, so a first row that the other makes later would not be met any more.
    first.execute(SET, ["c", 7])
    first.commit()
    thread.join(30)
    assert value(conn, "select count(*) from pgq_ext.completed_tick") == 1
    if level == "read committed":
        assert (errors, value(conn, GET, "c")) == ([], 6)
    else:
        assert [type(error) for error in errors] == [psycopg.errors.SerializationFailure]
        assert value(conn, GET, "c") == 7


def test_of_two_that_move_one_position_the_later_one_stands(pgq_db: Database) -> None:
    first, second = pgq_db.connect(autocommit=False), pgq_db.connect()
    second.execute(SET, ["c", 5])
    first.execute(SET, ["c", 6])
    thread = threading.Thread(target=lambda: second.execute(SET, ["c", 7]))
    thread.start()
    conn = pgq_db.connect()
    waiting = "select count(*) from pg_locks where not granted and locktype = 'transactionid'"
    wait_for(lambda: value(conn, waiting) > 0, what="the second to wait")
    first.commit()
    thread.join(30)
    assert [value(conn, GET, "c"), value(conn, "select count(*) from pgq_ext.completed_tick")] == [
        7,
        1,
    ]


def test_a_position_that_was_forgotten_begins_above_the_old_one(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    for tick in (5, 6, None, 3):
        conn.execute(SET, ["c", tick])
    assert value(conn, GET, "c") == 3
