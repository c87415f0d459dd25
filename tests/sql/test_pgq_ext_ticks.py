"""The position of a consumer is a tick, kept where its effect is."""

from __future__ import annotations

from londiste.pgq import ext
from tests.fix_cluster import Database
from tests.sql.queue_steps import refused, value

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
