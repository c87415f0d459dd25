"""Failed events are stored with a reason, and can be retried or deleted."""

from __future__ import annotations

import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    column,
    consume,
    data_of,
    insert,
    open_batch,
    queue_with_consumer,
    refused,
    tick,
    value,
)


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def batch_with(conn: Connection, *data: str) -> tuple[int, list[int]]:
    """A new open batch with these events, and their ids."""
    events = [insert(conn, each) for each in data]
    tick(conn)
    return open_batch(conn), events


def again(conn: Connection) -> int:
    """The batch after this one, with what waits for a retry in it."""
    conn.execute("select pgq.finish_batch(sub_batch) from pgq.subscription where sub_batch > 0")
    conn.execute("update pgq.retry_queue set ev_retry_after = now()")
    conn.execute("select pgq.maint_retry_events()")
    tick(conn)
    return open_batch(conn)


def test_failed_event_is_stored_with_reason_and_the_queue_continues(queue: Database) -> None:
    conn = queue.connect()
    batch, events = batch_with(conn, "bad", "good")
    assert value(conn, "select pgq.event_failed(%s, %s, 'no such address')", batch, events[0]) == 1
    conn.execute("select pgq.finish_batch(%s)", [batch])
    assert value(conn, "select pgq.failed_event_count('q', 'c')") == 1
    rows = conn.execute(
        "select ev_failed_reason, ev_failed_time <= clock_timestamp(), ev_id, ev_type, ev_data,"
        " ev_retry, ev_queue = queue_id, ev_owner = sub_id, ev_time < ev_failed_time"
        " from pgq.failed_event_list('q', 'c'), pgq.queue, pgq.subscription"
    ).fetchall()
    assert rows == [("no such address", True, events[0], "t", "bad", None, True, True, True)]
    insert(conn, "new")
    tick(conn)
    assert consume(conn) == ["new"]


def test_failing_twice_counts_once(queue: Database) -> None:
    conn = queue.connect()
    batch, (event,) = batch_with(conn, "bad")
    assert value(conn, "select pgq.event_failed(%s, %s, 'first')", batch, event) == 1
    assert value(conn, "select pgq.event_failed(%s, %s, 'second')", batch, event) == 0
    assert column(conn, "select ev_failed_reason from pgq.failed_queue") == ["first"]


def test_an_event_is_either_retried_or_failed(queue: Database) -> None:
    conn = queue.connect()
    batch, (one, two) = batch_with(conn, "1", "2")
    assert value(conn, "select pgq.event_failed(%s, %s, 'x')", batch, one) == 1
    assert value(conn, "select pgq.event_retry(%s, %s, 0)", batch, one) == 0
    assert value(conn, "select pgq.event_retry(%s, %s, 0)", batch, two) == 1
    assert value(conn, "select pgq.event_failed(%s, %s, 'x')", batch, two) == 0
    assert value(conn, "select pgq.batch_retry(%s, 0)", batch) == 0
    assert column(conn, "select ev_id from pgq.failed_queue") == [one]
    assert column(conn, "select ev_id from pgq.retry_queue") == [two]


def test_only_events_of_the_batch_can_fail(queue: Database) -> None:
    conn = queue.connect()
    batch, (event,) = batch_with(conn, "1")
    for stranger in (event + 5000, None):
        with refused("LD106", "event not found"):
            conn.execute("select pgq.event_failed(%s, %s, 'x')", [batch, stranger])
        with refused("LD106", "event not found"):
            conn.execute("select pgq.event_retry_or_fail(%s, %s, 0, 1, 'x')", [batch, stranger])
    with refused("LD106", "batch not found"):
        conn.execute("select pgq.event_failed(99, %s, 'x')", [event])
    with refused("LD106", "batch not found"):
        conn.execute("select pgq.event_retry_or_fail(99, %s, 0, 1, 'x')", [event])


def test_failed_events_are_listed_in_pages_by_id(queue: Database) -> None:
    conn = queue.connect()
    batch, events = batch_with(conn, *"abcde")
    for event in reversed(events):
        conn.execute("select pgq.event_failed(%s, %s, null)", [batch, event])
    page = "select ev_data from pgq.failed_event_list('q', 'c', %s, %s)"
    assert column(conn, page, 2, 0) == ["a", "b"]
    assert column(conn, page, 2, 2) == ["c", "d"]
    assert column(conn, page, 2, 4) == ["e"]
    assert column(conn, page, None, None) == list("abcde")
    assert column(conn, page, 0, None) == []
    for bad in ((-1, 0), (1, -1)):
        with pytest.raises(Exception, match="invalid limit and offset"):
            conn.execute(page, bad)


def test_retried_failed_event_restarts_its_attempt_count(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.register_consumer('q', 'other')")
    batch, (event,) = batch_with(conn, "bad")
    time = value(conn, "select ev_time from pgq.event_template")
    conn.execute("select pgq.event_failed(%s, %s, 'x')", [batch, event])
    conn.execute("select pgq.finish_batch(%s)", [batch])
    assert consume(conn, consumer="other") == ["bad"]
    assert value(conn, "select pgq.failed_event_retry('q', 'c', %s)", event) == event
    assert value(conn, "select pgq.failed_event_count('q', 'c')") == 0
    tick(conn)
    rows = conn.execute(
        "select ev_id, ev_time, ev_retry, ev_data from pgq.get_batch_events(%s)",
        [open_batch(conn)],
    ).fetchall()
    assert rows == [(event, time, 0, "bad")]
    assert consume(conn, consumer="other") == []


def test_all_failed_events_can_be_retried_or_deleted(queue: Database) -> None:
    conn = queue.connect()
    batch, events = batch_with(conn, *"abc")
    for event in events:
        conn.execute("select pgq.event_failed(%s, %s, 'x')", [batch, event])
    assert value(conn, "select pgq.failed_event_retry_all('q', 'c')") == 3
    assert value(conn, "select pgq.failed_event_retry_all('q', 'c')") == 0
    batch = again(conn)
    assert data_of(conn, batch) == list("abc")
    for event in events:
        conn.execute("select pgq.event_failed(%s, %s, 'x')", [batch, event])
    assert value(conn, "select pgq.failed_event_delete('q', 'c', %s)", events[0]) == 1
    assert value(conn, "select pgq.failed_event_delete_all('q', 'c')") == 2
    assert value(conn, "select pgq.failed_event_delete_all('q', 'c')") == 0


def test_in_a_queue_that_takes_no_events_the_retry_waits(queue: Database) -> None:
    conn = queue.connect()
    batch, (one, two) = batch_with(conn, "1", "2")
    for event in (one, two):
        conn.execute("select pgq.event_failed(%s, %s, 'x')", [batch, event])
    conn.execute("select pgq.set_queue_config('q', 'disable_insert', 't')")
    assert value(conn, "select pgq.failed_event_retry('q', 'c', %s)", one) == one
    assert value(conn, "select pgq.failed_event_retry_all('q', 'c')") == 1
    assert value(conn, "select retry_events from pgq.get_waiting_info('q', 'c')") == 2
    assert value(conn, "select pgq.maint_retry_events()") == 0
    conn.execute("select pgq.set_queue_config('q', 'disable_insert', 'f')")
    assert data_of(conn, again(conn)) == ["1", "2"]


def test_unknown_failed_event_is_refused(queue: Database) -> None:
    conn = queue.connect()
    for function in ("retry", "delete"):
        with refused("LD106", "no failed event 7"):
            conn.execute(f"select pgq.failed_event_{function}('q', 'c', 7)")
        with refused("LD106", "no failed event NULL"):
            conn.execute(f"select pgq.failed_event_{function}('q', 'c', null)")


@pytest.mark.parametrize(
    "call",
    [
        "failed_event_list(%s, %s)",
        "failed_event_list(%s, %s, 1, 0)",
        "failed_event_count(%s, %s)",
        "failed_event_retry(%s, %s, 1)",
        "failed_event_retry_all(%s, %s)",
        "failed_event_delete(%s, %s, 1)",
        "failed_event_delete_all(%s, %s)",
    ],
)
def test_an_unknown_consumer_is_refused(queue: Database, call: str) -> None:
    conn = queue.connect()
    for name, consumer in (("q", "nobody"), ("nope", "c")):
        with refused("LD002", f"Not subscriber to queue: {name}/{consumer}"):
            conn.execute(f"select * from pgq.{call}", [name, consumer])
    with refused("LD002", "Not subscriber to queue: NULL/NULL"):
        conn.execute(f"select * from pgq.{call}", [None, None])


LIMIT = "retry requested after 2 retries, the limit (max_retries) of queue q"


def test_event_over_its_retry_limit_fails(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.set_queue_config('q', 'max_retries', '2')")
    batch, (event,) = batch_with(conn, "bad")
    deliveries = []
    while value(conn, "select count(*) from pgq.failed_queue") == 0:
        deliveries += column(conn, "select ev_retry from pgq.get_batch_events(%s)", batch)
        assert value(conn, "select pgq.event_retry(%s, %s, 0)", batch, event) == 1
        batch = again(conn)
    assert deliveries == [None, 1, 2]
    assert data_of(conn, batch) == []
    look = "select ev_failed_reason from pgq.failed_event_list('q', 'c')"
    assert column(conn, look) == [LIMIT]


def test_only_events_over_the_retry_limit_of_a_batch_fail(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.set_queue_config('q', 'max_retries', '2')")
    batch, (old,) = batch_with(conn, "old")
    for count in (1, 2):
        assert value(conn, "select pgq.batch_retry(%s, 0)", batch) == count
        insert(conn, "new")
        batch = again(conn)
    assert data_of(conn, batch) == ["old", "new", "new"]
    assert value(conn, "select pgq.batch_retry(%s, 0)", batch) == 3
    assert value(conn, "select pgq.batch_retry(%s, 0)", batch) == 0
    assert column(conn, "select ev_id from pgq.failed_queue") == [old]
    assert column(conn, "select ev_failed_reason from pgq.failed_queue") == [LIMIT]
    assert column(conn, "select ev_data from pgq.retry_queue") == ["new", "new"]


def test_without_limit_an_event_is_retried_indefinitely(queue: Database) -> None:
    conn = queue.connect()
    batch, (event,) = batch_with(conn, "x")
    conn.execute("select pgq.batch_retry(%s, 0)", [batch])
    conn.execute("update pgq.retry_queue set ev_retry = 2000000")
    batch = again(conn)
    assert value(conn, "select pgq.event_retry(%s, %s, 0)", batch, event) == 1
    assert column(conn, "select ev_retry from pgq.retry_queue") == [2000001]


TRY = "select pgq.event_retry_or_fail(%s, %s, 0, %s, %s)"


def test_consumer_gives_the_number_of_its_attempts(queue: Database) -> None:
    conn = queue.connect()
    batch, (event,) = batch_with(conn, "bad")
    fates = []
    for attempt in range(3):
        fates.append(value(conn, TRY, batch, event, 3, f"attempt {attempt + 1}"))
        assert value(conn, TRY, batch, event, 3, "asked twice") == fates[-1]
        batch = again(conn)
    assert fates == ["retry", "retry", "failed"]
    assert column(conn, "select ev_failed_reason from pgq.failed_queue") == ["attempt 3"]
    assert data_of(conn, batch) == []


def test_smaller_of_two_retry_limits_applies_and_is_reported(queue: Database) -> None:
    conn = queue.connect()
    batch, events = batch_with(conn, *"abcd")
    assert value(conn, TRY, batch, events[0], None, None) == "retry"
    assert value(conn, TRY, batch, events[1], 1, None) == "failed"
    conn.execute("select pgq.set_queue_config('q', 'max_retries', '0')")
    assert value(conn, TRY, batch, events[2], 5, None) == "failed"
    assert value(conn, TRY, batch, events[3], None, "mine") == "failed"
    assert column(conn, "select ev_failed_reason from pgq.failed_queue order by ev_id") == [
        "1 attempts failed",
        "retry requested after 0 retries, the limit (max_retries) of queue q",
        "mine",
    ]


def test_nonsense_is_refused(queue: Database) -> None:
    conn = queue.connect()
    batch, (event,) = batch_with(conn, "x")
    with refused("LD005", "bad number of attempts: 0"):
        conn.execute(TRY, [batch, event, 0, "x"])
    with refused("LD005", "Invalid NULL value"):
        conn.execute("select pgq.event_retry_or_fail(%s, %s, null, 1, 'x')", [batch, event])


def test_failed_events_go_with_the_subscription_or_the_queue(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.register_consumer('q', 'other')")
    batch, (event,) = batch_with(conn, "x")
    conn.execute("select pgq.event_failed(%s, %s, 'x')", [batch, event])
    other = open_batch(conn, consumer="other")
    conn.execute("select pgq.event_failed(%s, %s, 'x')", [other, event])
    assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 1
    assert value(conn, "select count(*) from pgq.failed_queue") == 1
    assert value(conn, "select pgq.failed_event_count('q', 'other')") == 1
    assert value(conn, "select pgq.drop_queue('q', true)") == 1
    assert value(conn, "select count(*) from pgq.failed_queue") == 0


def test_cooperative_consumers_share_their_failed_events(queue: Database) -> None:
    conn = queue.connect()
    for name in ("1", "2"):
        conn.execute("select pgq_coop.register_subconsumer('q', 'c', %s)", [name])
    event = insert(conn, "x")
    tick(conn)
    batch = value(conn, "select pgq_coop.next_batch('q', 'c', '1')")
    assert value(conn, "select pgq.event_failed(%s, %s, 'x')", batch, event) == 1
    for name in ("c", "c.1", "c.2"):
        assert column(conn, "select ev_id from pgq.failed_event_list('q', %s)", name) == [event]
    waiting = conn.execute(
        "select consumer_name, retry_events, failed_events from pgq.get_waiting_info('q', null)"
    ).fetchall()
    assert waiting == [("c", 0, 1)]
    conn.execute("select pgq_coop.finish_batch(%s)", [batch])
    assert value(conn, "select pgq_coop.unregister_subconsumer('q', 'c', '1', 0)") == 1
    assert value(conn, "select pgq.failed_event_retry('q', 'c.2', %s)", event) == event
    tick(conn)
    batch = value(conn, "select pgq_coop.next_batch('q', 'c', '2')")
    assert data_of(conn, batch) == ["x"]
    assert value(conn, "select pgq.event_failed(%s, %s, 'x')", batch, event) == 1
    assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 2
    assert value(conn, "select count(*) from pgq.failed_queue") == 0


def test_retry_and_failed_events_are_counted(queue: Database) -> None:
    conn = queue.connect()
    queue_with_consumer(conn, "p", "d")
    batch, events = batch_with(conn, *"abc")
    conn.execute("select pgq.event_failed(%s, %s, 'x')", [batch, events[0]])
    conn.execute("select pgq.event_retry(%s, %s, '2100-01-01'::timestamptz)", [batch, events[1]])
    conn.execute("select pgq.event_retry(%s, %s, '2099-01-01'::timestamptz)", [batch, events[2]])
    rows = conn.execute(
        "select queue_name, consumer_name, retry_events, extract(year from next_retry),"
        " failed_events, last_failed is null from pgq.get_waiting_info(null, null)"
    ).fetchall()
    assert rows == [("p", "d", 0, None, 0, True), ("q", "c", 2, 2099, 1, False)]
    assert column(conn, "select consumer_name from pgq.get_waiting_info('p', null)") == ["d"]
    assert column(conn, "select consumer_name from pgq.get_waiting_info(null, 'c')") == ["c"]
