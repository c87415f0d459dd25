"""A retried event is delivered again, with its id, to the consumer that asked for it."""

from __future__ import annotations

import pytest

from londiste.db.connection import Connection
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    column,
    consume,
    data_of,
    insert,
    open_batch,
    queue_with_consumer,
    refused,
    refused_like,
    tick,
    value,
)


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def test_an_event_comes_again_to_its_consumer_alone(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.register_consumer('q', 'other')")
    event = insert(conn, "again")
    tick(conn)
    batch = open_batch(conn)
    assert value(conn, "select pgq.event_retry(%s, %s, 0)", batch, event) == 1
    conn.execute("select pgq.finish_batch(%s)", [batch])
    assert consume(conn, consumer="other") == ["again"]
    assert value(conn, "select pgq.maint_retry_events()") == 1
    assert value(conn, "select pgq.maint_retry_events()") == 0
    insert(conn, "new")
    tick(conn)
    batch = open_batch(conn)
    rows = conn.execute(
        "select ev_id, ev_retry, ev_type, ev_data from pgq.get_batch_events(%s)", [batch]
    ).fetchall()
    assert rows[0] == (event, 1, "t", "again")
    assert [row[3] for row in rows] == ["again", "new"]
    assert consume(conn, consumer="other") == ["new"]


def test_every_retry_is_counted(queue: Database) -> None:
    conn = queue.connect()
    event = insert(conn, "again")
    seen = []
    for _ in range(3):
        tick(conn)
        batch = open_batch(conn)
        seen += column(conn, "select ev_retry from pgq.get_batch_events(%s)", batch)
        conn.execute("select pgq.event_retry(%s, %s, 0)", [batch, event])
        conn.execute("select pgq.finish_batch(%s)", [batch])
        conn.execute("select pgq.maint_retry_events()")
    assert seen == [None, 1, 2]


def test_the_time_of_the_event_is_kept(queue: Database) -> None:
    conn = queue.connect()
    event = insert(conn, "again")
    time = value(conn, "select ev_time from pgq.event_template")
    tick(conn)
    batch = open_batch(conn)
    conn.execute("select pgq.event_retry(%s, %s, 0)", [batch, event])
    conn.execute("select pgq.finish_batch(%s), pgq.maint_retry_events()", [batch])
    tick(conn)
    assert column(conn, "select ev_time from pgq.get_batch_events(%s)", open_batch(conn)) == [time]


def test_asking_twice_counts_once(queue: Database) -> None:
    conn = queue.connect()
    event = insert(conn, "again")
    tick(conn)
    batch = open_batch(conn)
    assert value(conn, "select pgq.event_retry(%s, %s, 60)", batch, event) == 1
    assert value(conn, "select pgq.event_retry(%s, %s, now() + '1 day')", batch, event) == 0
    wait = value(conn, "select ev_retry_after - now() < '61 s' from pgq.retry_queue")
    assert wait, "the first answer stands"


def test_an_event_waits_for_its_time(queue: Database) -> None:
    conn = queue.connect()
    event = insert(conn, "again")
    tick(conn)
    conn.execute("select pgq.event_retry(%s, %s, 60)", [open_batch(conn), event])
    assert value(conn, "select pgq.maint_retry_events()") == 0
    conn.execute("update pgq.retry_queue set ev_retry_after = now()")
    assert value(conn, "select pgq.maint_retry_events()") == 1


def test_what_is_not_in_the_batch_cannot_come_again(queue: Database) -> None:
    conn = queue.connect()
    event = insert(conn, "1")
    tick(conn)
    batch = open_batch(conn)
    later = insert(conn, "2")
    for retry in ("0", "now()"):
        for stranger in (later, 99999, None):
            with refused("LD106", "event not found"):
                conn.execute(f"select pgq.event_retry(%s, %s, {retry})", [batch, stranger])
        with refused("LD106", "batch not found"):
            conn.execute(f"select pgq.event_retry(99, %s, {retry})", [event])


def test_a_whole_batch_comes_again_without_what_was_asked_for_before(queue: Database) -> None:
    conn = queue.connect()
    events = [insert(conn, str(n)) for n in range(5)]
    tick(conn)
    batch = open_batch(conn)
    conn.execute("select pgq.event_retry(%s, %s, 0)", [batch, events[2]])
    assert value(conn, "select pgq.batch_retry(%s, 0)", batch) == 4
    assert value(conn, "select pgq.batch_retry(%s, 0)", batch) == 0
    conn.execute("select pgq.finish_batch(%s)", [batch])
    assert value(conn, "select pgq.maint_retry_events()") == 5
    tick(conn)
    assert consume(conn) == ["0", "1", "2", "3", "4"]


def read_by_many(conn: Connection, batch: int, ids: list[int], seconds: int | None = 60) -> int:
    """Stores one outcome for these events; the tuples of event tables that were read for it."""
    read = (
        "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) from pg_stat_xact_user_tables"
        " where relname like 'event_%'"
    )
    with conn.transaction():
        before = value(conn, read)
        done = value(
            conn,
            "select pgq.events_retry_or_fail(%s, %s, array_fill(%s::int4, array[%s]),"
            " array_fill(null::int4, array[%s]), array_fill('why'::text, array[%s]))",
            *(batch, ids, seconds, len(ids), len(ids), len(ids)),
        )
        assert done == len(ids)
        return int(value(conn, read) - before)


@pytest.mark.parametrize("seconds", [60, None])
def test_many_events_are_stored_in_one_pass_over_the_batch(
    queue: Database, seconds: int | None
) -> None:
    conn = queue.connect()
    conn.execute(
        "select pgq.insert_event('q', 't', repeat('x', 200)) from generate_series(1, 4000)"
    )
    tick(conn)
    batch = open_batch(conn)
    ids = column(conn, "select ev_id from pgq.get_batch_events(%s)", batch)
    one = read_by_many(conn, batch, ids[:1], seconds)
    assert read_by_many(conn, batch, ids[1:], seconds) <= one + 10
    waiting = "retry_queue" if seconds is not None else "failed_queue"
    assert value(conn, f"select count(*) from pgq.{waiting}") == 4000


def test_each_of_many_events_has_its_own_outcome(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.set_queue_config('q', 'max_retries', '7')")
    again, dead, last, limit, rest = (insert(conn, data) for data in "abcde")
    tick(conn)
    batch = open_batch(conn)
    many = "select pgq.events_retry_or_fail(%s, %s, %s, %s, %s)"
    given = (
        [again, dead, last, limit],
        [60, None, 60, 60],
        [5, None, 1, 1],
        ["slow", "never", "once", None],
    )
    assert value(conn, many, batch, *given) == 4
    assert value(conn, many, batch, *given) == 0
    assert column(conn, "select ev_id from pgq.retry_queue") == [again]
    assert conn.execute(
        "select ev_id, ev_failed_reason from pgq.failed_queue order by 1"
    ).fetchall() == [(dead, "never"), (last, "once"), (limit, "1 attempts failed")]
    # The single forms see what was stored, and the other way round.
    assert value(conn, "select pgq.event_failed(%s, %s, 'x')", batch, again) == 0
    assert value(conn, "select pgq.event_retry(%s, %s, 0)", batch, rest) == 1
    assert value(conn, many, batch, [rest], [60], [None], [None]) == 0


def test_many_events_are_stored_together_or_not_at_all(queue: Database) -> None:
    conn = queue.connect()
    event = insert(conn, "a")
    tick(conn)
    batch = open_batch(conn)
    many = "select pgq.events_retry_or_fail(%s, %s, %s, %s, %s)"
    with refused("LD106", "event not found"):
        conn.execute(many, [batch, [event, event + 1], [0, 0], [None, None], [None, None]])
    with refused("LD106", "event not found"):
        conn.execute(many, [batch, [event, None], [0, 0], [None, None], [None, None]])
    with refused("LD106", "batch not found"):
        conn.execute(many, [batch + 1, [event], [0], [None], [None]])
    with refused("LD005", "the arrays have different lengths"):
        conn.execute(many, [batch, [event], [], [None], [None]])
    with refused("LD005", "the arrays have different lengths"):
        conn.execute(many, [batch, [event], [0], None, [None]])
    with refused("LD005", "bad number of attempts: 0"):
        conn.execute(many, [batch, [event], [0], [0], [None]])
    assert value(conn, many, batch, [], [], [], []) == 0
    assert value(conn, "select count(*) from pgq.retry_queue") == 0


def test_retrying_a_batch_that_is_not_open_is_refused(queue: Database) -> None:
    conn = queue.connect()
    with refused_like("LD106", "batch_retry: batch 99 not found"):
        conn.execute("select pgq.batch_retry(99, 0)")


RAW = "select pgq.event_retry_raw('q', %s, now(), %s, %s, 7, 't', 'raw', '1', '2', '3', '4')"


def test_any_event_can_be_sent_to_one_consumer(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.register_consumer('q', 'other')")
    assert value(conn, RAW, "c", 500, "2020-01-01") == 500
    assert value(conn, RAW, "c", None, None) == 1
    assert value(conn, "select pgq.maint_retry_events()") == 2
    tick(conn)
    batch = open_batch(conn)
    rows = conn.execute(
        "select ev_id, ev_retry, ev_data, ev_extra1, ev_extra4 from pgq.get_batch_events(%s)",
        [batch],
    ).fetchall()
    assert rows == [(1, 7, "raw", "1", "4"), (500, 7, "raw", "1", "4")]
    assert consume(conn, consumer="other") == []


def test_an_event_for_a_stranger_is_refused(queue: Database) -> None:
    conn = queue.connect()
    with refused("LD002", "consumer not registered"):
        conn.execute(RAW, ["stranger", None, "2020-01-01"])


def test_ten_events_are_moved_at_a_time_the_oldest_due_first(queue: Database) -> None:
    conn = queue.connect()
    for n in range(12):
        insert(conn, str(n))
    tick(conn)
    batch = open_batch(conn)
    conn.execute("select pgq.batch_retry(%s, 0)", [batch])
    conn.execute("update pgq.retry_queue set ev_retry_after = now() - ev_id * interval '1 s'")
    conn.execute("select pgq.finish_batch(%s)", [batch])
    assert value(conn, "select pgq.maint_retry_events()") == 10
    assert sorted(column(conn, "select ev_data from pgq.retry_queue")) == ["0", "1"]
    assert value(conn, "select pgq.maint_retry_events()") == 2


def test_a_limit_per_transaction_does_not_stop_the_mover(queue: Database) -> None:
    conn = queue.connect()
    for n in range(5):
        insert(conn, str(n))
    tick(conn)
    conn.execute("select pgq.batch_retry(%s, 0)", [open_batch(conn)])
    conn.execute("update pgq.queue set queue_per_tx_limit = 1")
    assert value(conn, "select pgq.maint_retry_events()") == 5


def test_events_of_a_disabled_queue_wait_and_stop_no_others(queue: Database) -> None:
    conn = queue.connect()
    queue_with_consumer(conn, "p")
    for name in ("q", "p"):
        insert(conn, f"of {name}", name)
        tick(conn, name)
        conn.execute("select pgq.batch_retry(%s, 0)", [open_batch(conn, name)])
    conn.execute("select pgq.set_queue_config('q', 'disable_insert', 't')")
    assert value(conn, "select pgq.maint_retry_events()") == 1
    assert column(conn, "select ev_data from pgq.retry_queue") == ["of q"]


def test_two_movers_take_turns_and_hold_up_no_consumer(queue: Database) -> None:
    conn, mover = queue.connect(lock_timeout_ms=50), queue.connect(autocommit=False)
    event = insert(conn, "1")
    tick(conn)
    batch = open_batch(conn)
    mover.execute("select pgq.maint_retry_events()")
    with pytest.raises(Exception, match="lock timeout"):
        conn.execute("select pgq.maint_retry_events()")
    assert value(conn, "select pgq.event_retry(%s, %s, 0)", batch, event) == 1
    assert data_of(conn, batch) == ["1"]


def test_the_mover_reads_no_more_than_it_moves_of_a_whole_batch_that_is_due(
    queue: Database,
) -> None:
    conn = queue.connect()
    conn.execute(
        "select pgq.insert_events('q', array_agg('t'::text), array_agg(n::text))"
        " from generate_series(1, 3000) n"
    )
    tick(conn)
    batch = open_batch(conn)
    assert value(conn, "select pgq.batch_retry(%s, 0)", batch) == 3000
    conn.execute("select pgq.finish_batch(%s)", [batch])
    for statistics in (False, True):
        if statistics:
            conn.execute("analyze pgq.retry_queue")
        with conn.transaction():
            assert value(conn, "select pgq.maint_retry_events()") == 10
            read = value(
                conn,
                "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables"
                " where relid = 'pgq.retry_queue'::regclass",
            )
            assert 10 <= read <= 100


@pytest.mark.parametrize("time", [None, "infinity", "-infinity", "10000-01-01"])
def test_no_event_waits_for_ever_or_longer_than_clients_can_read(
    queue: Database, time: str | None
) -> None:
    conn = queue.connect()
    insert(conn, "a")
    tick(conn)
    batch = open_batch(conn)
    with refused_like("LD005", "bad time for an event: .*"):
        conn.execute(
            "select pgq.event_retry(%s, ev_id, %s::timestamptz) from pgq.get_batch_events(%s)",
            [batch, time, batch],
        )
    with refused_like("LD005", "bad time for an event: .*"):
        conn.execute(
            "select pgq.event_retry_raw('q', 'c', %s, 1, null, 0, 't', 'd', '', '', '', '')", [time]
        )


@pytest.mark.parametrize(("time", "seconds"), [("infinity", None), ("-infinity", 0.0)])
def test_a_retry_at_an_infinite_time_of_before_does_not_stop_the_ticker(
    queue: Database, time: str, seconds: float | None
) -> None:
    conn = queue.connect()
    conn.execute(RAW, ["c", None, "2020-01-01"])
    conn.execute("update pgq.retry_queue set ev_retry_after = %s", [time])
    assert queues.seconds_until_due(conn) == seconds
