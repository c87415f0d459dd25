"""An event inserted for a time comes at that time, once, unless it was cancelled."""

from __future__ import annotations

from threading import Thread

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    column,
    consume,
    insert,
    open_batch,
    queue_with_consumer,
    refused,
    refused_like,
    tick,
    value,
)

LATER = "select pgq.insert_event_at('q', now() + interval '1 hour', 't', %s)"
COME = "update pgq.delayed_event set ev_send_at = now() - interval '1 minute'"
MOVE = "select pgq.maint_retry_events()"


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def test_an_event_waits_for_its_time_and_comes_once_with_its_id(queue: Database) -> None:
    conn = queue.connect()
    event = value(
        conn,
        "select pgq.insert_event_at('q', now() + interval '1 hour', 't', 'd', '1', '2', '3', '4')",
    )
    insert(conn, "first")
    assert value(conn, MOVE) == 0
    tick(conn)
    assert consume(conn) == ["first"]
    conn.execute(COME)
    before = value(conn, "select clock_timestamp()")
    assert value(conn, MOVE) == 1
    assert value(conn, MOVE) == 0
    tick(conn)
    rows = conn.execute(
        "select ev_id, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4,"
        " ev_time >= %s from pgq.get_batch_events(%s)",
        [before, open_batch(conn)],
    ).fetchall()
    assert rows == [(event, None, "t", "d", "1", "2", "3", "4", True)]


@pytest.mark.parametrize("time", ["now()", "now() - interval '1 day'", "'-infinity'"])
def test_a_time_that_is_past_is_now(queue: Database, time: str) -> None:
    conn = queue.connect()
    assert value(conn, f"select pgq.insert_event_at('q', {time}, 't', 'now')") == 1
    tick(conn)
    batch = open_batch(conn)
    assert column(conn, "select ev_data from pgq.get_batch_events(%s)", batch) == ["now"]
    recent = "select now() - ev_time < interval '1 hour' from pgq.get_batch_events(%s)"
    assert column(conn, recent, batch) == [True]


def test_the_next_run_of_the_ticker_ticks_for_moved_events(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_count', '3')")
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_lag', '1 hour')")
    for n in range(3):
        conn.execute(LATER, [str(n)])
    tick(conn)
    assert value(conn, "select pgq.ticker('q')") is None
    conn.execute(COME)
    assert value(conn, MOVE) == 3
    assert value(conn, "select pgq.ticker('q')") is not None


def test_what_is_no_time_is_refused(queue: Database) -> None:
    conn = queue.connect()
    with refused("LD005", "bad time for an event: NULL"):
        conn.execute("select pgq.insert_event_at('q', null, 't', 'd')")
    with refused("LD005", "bad time for an event: infinity"):
        conn.execute("select pgq.insert_event_at('q', 'infinity', 't', 'd')")
    with refused_like("LD005", "bad time for an event: 20000-.*"):
        conn.execute("select pgq.insert_event_at('q', '20000-01-01', 't', 'd')")


@pytest.mark.parametrize("time", ["now()", "now() + interval '1 hour'"])
def test_the_checks_are_those_of_every_insert(queue: Database, time: str) -> None:
    conn = queue.connect()
    call = f"select pgq.insert_event_at(%s, {time}, 't', 'd')"
    with refused("LD001", "No such queue"):
        conn.execute(call, ["nope"])
    conn.execute("select pgq.set_queue_config('q', 'per_tx_limit', '2')")
    with conn.transaction():
        insert(conn, "1")
        conn.execute(call, ["q"])
        with refused("LD102", "Queue 'q' allows max 2 events from one TX"), conn.transaction():
            conn.execute(call, ["q"])
    conn.execute("select pgq.set_queue_config('q', 'disable_insert', 't')")
    with refused("LD102", "Insert into queue disallowed"):
        conn.execute(call, ["q"])
    conn.execute("set session_replication_role = replica")
    conn.execute(call, ["q"])


def test_a_cancelled_event_never_comes(queue: Database) -> None:
    conn = queue.connect()
    one, two = value(conn, LATER, "1"), value(conn, LATER, "2")
    cancel = "select pgq.cancel_delayed_event('q', %s)"
    assert value(conn, cancel, one) == 1
    assert value(conn, cancel, one) == 0
    assert value(conn, cancel, None) == 0
    conn.execute(COME)
    assert value(conn, MOVE) == 1
    assert value(conn, cancel, two) == 0
    tick(conn)
    assert consume(conn) == ["2"]
    with refused("LD001", "No such queue"):
        conn.execute("select pgq.cancel_delayed_event('nope', 1)")


def test_an_event_that_is_being_cancelled_is_left_alone(queue: Database) -> None:
    conn, other = queue.connect(lock_timeout_ms=2000), queue.connect(autocommit=False)
    event = value(conn, LATER, "1")
    conn.execute(LATER, ["2"])
    conn.execute(COME)
    assert value(other, "select pgq.cancel_delayed_event('q', %s)", event) == 1
    assert value(conn, MOVE) == 1
    assert value(conn, MOVE) == 0
    other.rollback()
    assert value(conn, MOVE) == 1
    tick(conn)
    assert consume(conn) == ["1", "2"]


def test_cancelling_what_is_being_moved_waits_for_the_outcome(queue: Database) -> None:
    conn, mover = queue.connect(), queue.connect(autocommit=False)
    event = value(conn, LATER, "1")
    conn.execute(COME)
    assert value(mover, MOVE) == 1
    answers: list[int] = []
    cancel = "select pgq.cancel_delayed_event('q', %s)"
    thread = Thread(target=lambda: answers.append(value(conn, cancel, event)))
    thread.start()
    mover.commit()
    thread.join(timeout=60)
    assert answers == [0]


def test_what_waits_is_listed_the_next_first(queue: Database) -> None:
    conn = queue.connect()
    call = "select pgq.insert_event_at('q', %s, 't', %s)"
    conn.execute(call, ["2100-01-03", "c"])
    conn.execute(call, ["2100-01-01", "a"])
    conn.execute(call, ["2100-01-02", "b"])
    assert column(conn, "select ev_data from pgq.delayed_event_list('q')") == ["a", "b", "c"]
    assert column(conn, "select ev_data from pgq.delayed_event_list('q', 1, 1)") == ["b"]
    assert column(conn, "select ev_data from pgq.delayed_event_list('q', 2)") == ["a", "b"]
    with refused("LD001", "No such queue"):
        conn.execute("select pgq.delayed_event_list('nope')")
    with refused("LD005", "invalid limit and offset: -1 events after the first 0"):
        conn.execute("select pgq.delayed_event_list('q', -1)")
    with refused("LD005", "invalid limit and offset: all events after the first -1"):
        conn.execute("select pgq.delayed_event_list('q', null, -1)")


def test_events_of_a_disabled_queue_wait_visibly_and_stop_no_others(queue: Database) -> None:
    conn = queue.connect()
    queue_with_consumer(conn, "p")
    conn.execute(LATER, ["of q"])
    conn.execute("select pgq.insert_event_at('p', now() + interval '1 hour', 't', 'of p')")
    conn.execute(COME)
    conn.execute("select pgq.set_queue_config('q', 'disable_insert', 't')")
    assert value(conn, MOVE) == 1
    assert value(conn, MOVE) == 0
    assert value(conn, "select pgq.next_due()") is None
    info = (
        "select queue_name, delayed_events, overdue_events, is_held from pgq.get_delayed_info(%s)"
    )
    assert conn.execute(info, [None]).fetchall() == [("p", 0, 0, False), ("q", 1, 1, True)]
    assert conn.execute(info, ["q"]).fetchall() == [("q", 1, 1, True)]
    conn.execute("select pgq.set_queue_config('q', 'disable_insert', 'f')")
    assert value(conn, MOVE) == 1


def test_a_thousand_events_are_moved_at_a_time(queue: Database) -> None:
    conn = queue.connect()
    queue_with_consumer(conn, "p")
    for name in ("q", "p"):
        conn.execute(
            "select count(pgq.insert_event_at(%s, now() + interval '1 hour', 't', n::text))"
            " from generate_series(1, 1300) n",
            [name],
        )
    conn.execute(COME)
    moved = [value(conn, MOVE) for _ in range(4)]
    assert moved == [1000, 1000, 600, 0]
    for name in ("q", "p"):
        tick(conn, name)
        assert consume(conn, name) == [str(n) for n in range(1, 1301)]


def test_a_limit_per_transaction_does_not_stop_the_mover(queue: Database) -> None:
    conn = queue.connect()
    for n in range(5):
        conn.execute(LATER, [str(n)])
    conn.execute(COME)
    conn.execute("select pgq.set_queue_config('q', 'per_tx_limit', '1')")
    assert value(conn, MOVE) == 5


def test_the_time_of_the_next_one_is_told(queue: Database) -> None:
    conn = queue.connect()
    due = "select extract(year from pgq.next_due())::int4"
    assert value(conn, due) is None
    conn.execute("select pgq.insert_event_at('q', '2100-01-01', 't', 'd')")
    conn.execute("select pgq.insert_event_at('q', '2099-01-01', 't', 'd')")
    assert value(conn, due) == 2099
    event = insert(conn, "x")
    tick(conn)
    conn.execute("select pgq.event_retry(%s, %s, 60)", [open_batch(conn), event])
    assert value(conn, "select pgq.next_due() - now() < interval '61 s'")
    conn.execute("delete from pgq.delayed_event")
    assert value(conn, "select pgq.next_due() - now() < interval '61 s'")


def test_delayed_events_go_with_the_queue(queue: Database) -> None:
    conn = queue.connect()
    conn.execute(LATER, ["d"])
    conn.execute("select pgq.drop_queue('q', true)")
    assert value(conn, "select count(*) from pgq.delayed_event") == 0


def test_an_uncommitted_insert_does_not_hold_up_rotation(queue: Database) -> None:
    conn, producer = queue.connect(), queue.connect(autocommit=False)
    producer.execute(LATER, ["d"])
    tick(conn)
    consume(conn)
    conn.execute("select pgq.maint_rotate_tables_step1('q')")
    assert value(conn, "select queue_cur_table from pgq.queue") == 1


def test_writers_insert_and_cancel_and_readers_look(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("set role pgq_writer")
    event = value(conn, LATER, "d")
    # Events of others are not theirs to read.
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("select ev_id from pgq.delayed_event_list('q')")
    assert value(conn, "select pgq.cancel_delayed_event('q', %s)", event) == 1
    conn.execute(LATER, ["d"])
    conn.execute("set role pgq_reader")
    assert column(conn, "select ev_data from pgq.delayed_event_list('q')") == ["d"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(LATER, ["d"])
    queue.execute(COME)
    conn.execute("set role pgq_admin")
    assert value(conn, "select pgq.next_due() < now()")
    assert value(conn, MOVE) == 1
