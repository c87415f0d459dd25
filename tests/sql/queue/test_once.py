"""Of the events that come with one key into a queue, there is one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    consume,
    insert,
    queue_with_consumer,
    refused,
    rotate,
    tick,
    value,
)
from tests.support.waiting import wait_for

ONCE = "select * from pgq.insert_event_once('q', %s, 't', %s)"


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def once(conn: Connection, key: str | None, data: str = "d") -> tuple[int, bool]:
    row = conn.execute(ONCE, [key, data]).fetchone()
    assert row is not None
    return row[0], row[1]


def test_the_second_event_with_a_key_is_the_first(queue: Database) -> None:
    conn = queue.connect()
    event, is_new = once(conn, "order 1", "a")
    assert is_new
    assert once(conn, "order 1", "b") == (event, False)
    other, is_new = once(conn, "order 2", "c")
    assert is_new and other != event
    tick(conn)
    assert consume(conn) == ["a", "c"]


def test_every_field_is_stored_and_keys_are_those_of_a_queue(queue: Database) -> None:
    conn = queue.connect()
    queue_with_consumer(conn, "p")
    call = "select is_new from pgq.insert_event_once(%s, 'k', 't', 'd', '1', '2', '3', '4')"
    assert value(conn, call, "q") and value(conn, call, "p")
    tick(conn)
    row = conn.execute(
        "select ev_type, ev_data, ev_extra1, ev_extra2, ev_extra3, ev_extra4"
        " from pgq.get_batch_events(pgq.next_batch('q', 'c'))"
    ).fetchone()
    assert row == ("t", "d", "1", "2", "3", "4")


def test_a_key_of_a_transaction_that_was_rolled_back_is_free(queue: Database) -> None:
    conn = queue.connect()
    with conn.transaction(force_rollback=True):
        assert once(conn, "k", "undone")[1]
    with conn.transaction():
        with conn.transaction(force_rollback=True):
            assert once(conn, "k", "undone")[1]
        assert once(conn, "k", "done")[1]
        assert not once(conn, "k", "done twice")[1]
    tick(conn)
    assert consume(conn) == ["done"]


@pytest.mark.parametrize("outcome", ["commit", "rollback"])
def test_the_second_producer_waits_for_the_first(queue: Database, outcome: str) -> None:
    first, second = queue.connect(autocommit=False), queue.connect()
    event, _ = once(first, "k", "first")
    answers: list[tuple[int, bool]] = []
    thread = Thread(target=lambda: answers.append(once(second, "k", "second")))
    thread.start()
    wait_for(
        lambda: queue.value(
            "select count(*) = 1 from pg_stat_activity where wait_event_type = 'Lock'"
            " and datname = current_database()"
        ),
        what="the second producer to wait",
    )
    getattr(first, outcome)()
    thread.join(timeout=60)
    conn = queue.connect()
    tick(conn)
    if outcome == "commit":
        assert answers == [(event, False)]
        assert consume(conn) == ["first"]
    else:
        assert answers[0][1]
        assert consume(conn) == ["second"]


def test_many_producers_with_few_keys_make_one_event_each(queue: Database) -> None:
    def produce(number: int) -> list[tuple[int, bool]]:
        conn = queue.connect()
        return [once(conn, f"key {n % 20}", f"{n % 20}") for n in range(number, number + 60)]

    with ThreadPoolExecutor(6) as pool:
        answers = [each for found in pool.map(produce, range(6)) for each in found]
    assert sum(is_new for _, is_new in answers) == 20
    assert len({event for event, _ in answers}) == 20
    conn = queue.connect()
    tick(conn)
    assert sorted(consume(conn)) == sorted(str(n) for n in range(20))


def test_a_transaction_that_cannot_see_the_key_fails_instead_of_guessing(queue: Database) -> None:
    conn, other = queue.connect(autocommit=False), queue.connect()
    conn.execute("set transaction isolation level repeatable read")
    conn.execute("select 1 from pgq.queue")
    once(other, "k")
    with pytest.raises(psycopg.errors.SerializationFailure):
        once(conn, "k")


@pytest.mark.parametrize("key", [None, ""])
def test_an_event_without_a_key_is_refused(queue: Database, key: str | None) -> None:
    conn = queue.connect()
    with refused("LD005", "an event without a key"):
        once(conn, key)


def test_a_key_may_be_a_thousand_bytes_of_anything(queue: Database) -> None:
    conn = queue.connect()
    assert once(conn, "é" * 500)[1]
    assert not once(conn, "é" * 500)[1]
    with refused("LD005", "a key of 1001 bytes"):
        once(conn, "x" + "é" * 500)


def test_the_checks_are_those_of_every_insert(queue: Database) -> None:
    conn = queue.connect()
    with refused("LD001", "No such queue"):
        conn.execute("select pgq.insert_event_once('nope', 'k', 't', 'd')")
    conn.execute("select pgq.set_queue_config('q', 'per_tx_limit', '2')")
    with conn.transaction():
        insert(conn, "1")
        once(conn, "a")
        assert not once(conn, "a")[1], "what is not inserted does not count"
        with refused("LD102", "Queue 'q' allows max 2 events from one TX"), conn.transaction():
            once(conn, "b")
    assert value(conn, "select count(*) from pgq.event_key") == 1
    conn.execute("select pgq.set_queue_config('q', 'disable_insert', 't')")
    with refused("LD102", "Insert into queue disallowed"):
        once(conn, "a")


def test_a_key_is_forgotten_by_maintenance_when_it_is_old(queue: Database) -> None:
    conn = queue.connect()
    operations = "select count(*) from pgq.maint_operations() where func_name like '%%purge%%'"
    purge = "select pgq.maint_purge_keys('q')"
    once(conn, "old")
    once(conn, "new")
    assert value(conn, operations) == 0
    assert value(conn, purge) == 0
    age = "update pgq.event_key set key_time = now() - %s::interval where key_value = 'old'"
    conn.execute(age, ["23 hours"])
    assert value(conn, operations) == 0
    conn.execute(age, ["25 hours"])
    found = conn.execute(
        "select func_name, func_arg from pgq.maint_operations() where func_name like '%purge%'"
    ).fetchall()
    assert found == [("pgq.maint_purge_keys", "q")]
    assert not once(conn, "old")[1], "remembered until then"
    assert value(conn, purge) == 1
    assert value(conn, purge) == 0
    assert once(conn, "old")[1]
    assert not once(conn, "new")[1]


def test_keys_are_forgotten_in_bites(queue: Database) -> None:
    conn = queue.connect()
    conn.execute(
        "insert into pgq.event_key select queue_id, n::text, n, now() - interval '2 days'"
        " from pgq.queue, generate_series(1, 12000) n"
    )
    conn.execute("select pgq.set_queue_config('q', 'key_retention', '3 days')")
    purge = "select pgq.maint_purge_keys('q')"
    assert value(conn, purge) == 0
    conn.execute("select pgq.set_queue_config('q', 'key_retention', '1 hour')")
    assert [value(conn, purge) for _ in range(3)] == [10000, 2000, 0]
    assert value(conn, "select pgq.maint_purge_keys('nope')") == 0


def test_keys_go_with_the_queue_and_hold_up_no_rotation(queue: Database) -> None:
    conn, producer = queue.connect(), queue.connect(autocommit=False)
    once(conn, "k")
    tick(conn)
    consume(conn)
    once(producer, "open")
    assert rotate(conn)
    producer.rollback()
    conn.execute("select pgq.drop_queue('q', true)")
    assert value(conn, "select count(*) from pgq.event_key") == 0


def test_a_writer_needs_no_other_right(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("set role pgq_writer")
    assert once(conn, "k")[1]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("select 1 from pgq.event_key")
