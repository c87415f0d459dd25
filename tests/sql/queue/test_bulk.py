"""Many events in one call, or by COPY, under the same rules as single ones."""

from __future__ import annotations

from typing import Any

import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    column,
    consume,
    insert,
    queue_with_consumer,
    refused,
    rotate,
    tick,
    value,
)

BULK = "select pgq.insert_events('q', %s, %s)"
TOLD = "select pgq.count_bulk_events('q', %s)"
LIMIT = "Queue 'q' allows max 5 events from one TX"


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def bulk(conn: Connection, count: int) -> Any:
    return value(conn, BULK, ["t"] * count, [str(n) for n in range(count)])


def test_arrays_become_events_in_their_order(queue: Database) -> None:
    conn = queue.connect()
    call = "select pgq.insert_events('q', %s, %s, %s, %s, %s, %s)"
    types, datas = ["a", None, "c"], ["1", "2", None]
    extras = [["x", "y", None], None, [None, None, "z"], ["p", "q", "r"]]
    assert value(conn, call, types, datas, *extras) == 3
    tick(conn)
    rows = conn.execute(
        "select ev_id, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4, ev_retry,"
        " ev_time <= now() from pgq.get_batch_events(pgq.next_batch('q', 'c'))"
    ).fetchall()
    assert rows == [
        (1, "a", "1", "x", None, None, "p", None, True),
        (2, None, "2", "y", None, None, "q", None, True),
        (3, "c", None, None, None, "z", "r", None, True),
    ]


def test_an_empty_list_is_no_event(queue: Database) -> None:
    conn = queue.connect()
    assert bulk(conn, 0) == 0
    with refused("LD001", "No such queue"):
        conn.execute("select pgq.insert_events('nope', '{}', '{}')")


def test_extra_fields_are_named(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.insert_events('q', '{t}', '{d}', ev_extra4s => '{x}')")
    assert column(conn, "select ev_extra4 from pgq.event_template") == ["x"]


def test_arrays_that_do_not_fit_each_other_are_refused(queue: Database) -> None:
    conn = queue.connect()
    with refused("LD005", "arrays of different lengths"):
        conn.execute("select pgq.insert_events('q', '{a,b}', '{1}')")
    with refused("LD005", "arrays of different lengths"):
        conn.execute("select pgq.insert_events('q', '{a}', '{1}', null, '{x,y}')")
    for arrays in (("{a}", None), (None, "{a}")):
        with refused("LD005", "Invalid NULL value"):
            conn.execute("select pgq.insert_events('q', %s, %s)", arrays)
    assert value(conn, "select count(*) from pgq.event_template") == 0


def test_a_disabled_queue_takes_none(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.set_queue_config('q', 'disable_insert', 't')")
    with refused("LD102", "Insert into queue disallowed"):
        bulk(conn, 1)
    with refused("LD102", "Insert into queue disallowed"):
        conn.execute(TOLD, [0])
    conn.execute("set session_replication_role = replica")
    assert bulk(conn, 1) == 1


def test_events_go_to_the_current_table(queue: Database) -> None:
    conn = queue.connect()
    bulk(conn, 2)
    tick(conn)
    consume(conn)
    assert rotate(conn)
    bulk(conn, 3)
    data = value(conn, "select queue_data_pfx || '_' || queue_cur_table from pgq.queue")
    assert value(conn, f"select count(*) from only {data}") == 3


class TestLimit:
    @pytest.fixture(autouse=True)
    def limit(self, queue: Database) -> None:
        queue.execute("select pgq.set_queue_config('q', 'per_tx_limit', '5')")

    def test_it_counts_every_event_of_a_list(self, queue: Database) -> None:
        conn = queue.connect()
        assert bulk(conn, 5) == 5
        with refused("LD102", LIMIT):
            bulk(conn, 6)
        assert value(conn, "select count(*) from pgq.event_template") == 5

    def test_it_counts_single_and_many_together(self, queue: Database) -> None:
        conn = queue.connect()
        with conn.transaction():
            insert(conn, "1")
            bulk(conn, 2)
            assert value(conn, TOLD, 0) == 2
            assert value(conn, TOLD, 1) == 1
            insert(conn, "5")
            for too_much in (
                "select pgq.insert_event('q', 't', 'd')",
                "select pgq.insert_events('q', '{t}', '{d}')",
                "select pgq.count_bulk_events('q', 1)",
            ):
                with refused("LD102", LIMIT), conn.transaction():
                    conn.execute(too_much)
            assert value(conn, TOLD, 0) == 0

    def test_what_is_undone_does_not_count(self, queue: Database) -> None:
        conn = queue.connect()
        with conn.transaction():
            insert(conn, "1")
            with conn.transaction(force_rollback=True):
                bulk(conn, 4)
                assert value(conn, TOLD, 0) == 0
            assert value(conn, TOLD, 0) == 4
            bulk(conn, 4)
            with refused("LD102", LIMIT), conn.transaction():
                insert(conn, "6")
        assert value(conn, TOLD, 0) == 5


def test_without_a_limit_there_is_room_for_any_number(queue: Database) -> None:
    conn = queue.connect()
    assert value(conn, TOLD, 10**9) is None
    for bad in (-1, None):
        with refused("LD005", f"bad number of events: {'NULL' if bad is None else bad}"):
            conn.execute(TOLD, [bad])
    with refused("LD001", "No such queue"):
        conn.execute("select pgq.count_bulk_events('nope', 0)")


def test_events_with_their_own_ids_are_seen_by_the_ticker(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_count', '3')")
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_lag', '1 hour')")
    tick(conn)
    assert value(conn, "select pgq.ticker('q')") is None
    conn.execute("select pgq.count_bulk_events('q', 3, true)")
    assert value(conn, "select pgq.ticker('q')") is not None


def test_a_writer_needs_no_right_on_tables(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("set role pgq_writer")
    assert bulk(conn, 3) == 3
