"""A reader that keeps its own position gets the events between two ticks: all, or an error."""

from __future__ import annotations

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    EVENT_COLUMNS,
    column,
    consume,
    insert,
    open_batch,
    queue_with_consumer,
    refused,
    refused_like,
    rotate,
    tick,
    value,
)

READ = "select ev_data from pgq.get_tick_events('q', %s, %s)"


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def test_the_events_are_those_of_the_batches_between(queue: Database) -> None:
    conn, slow = queue.connect(), queue.connect(autocommit=False)
    ticks, expected = [1], []
    for n in range(4):
        if n == 1:
            insert(slow, "slow")
        insert(conn, str(n))
        if n == 3:
            slow.commit()
        ticks.append(tick(conn))
        expected.append(consume(conn))
    assert expected == [["0"], ["1"], ["2"], ["slow", "3"]]
    for a in range(5):
        for b in range(a, 5):
            found = column(conn, READ, ticks[a], ticks[b])
            assert sorted(found) == sorted(x for batch in expected[a:b] for x in batch)
            ids = column(
                conn, "select ev_id from pgq.get_tick_events('q', %s, %s)", ticks[a], ticks[b]
            )
            assert ids == sorted(ids)


def test_the_query_itself_can_be_had(queue: Database) -> None:
    conn = queue.connect()
    insert(conn, "x")
    last = tick(conn)
    query = value(conn, "select pgq.tick_event_sql('q', 1, %s)", last)
    cursor = conn.execute(query)
    assert [c.name for c in cursor.description or ()] == EVENT_COLUMNS
    assert [row[5] for row in cursor] == ["x"]


def test_events_that_a_consumer_asked_for_again_are_no_new_events(queue: Database) -> None:
    conn = queue.connect()
    insert(conn, "once")
    first = tick(conn)
    batch = open_batch(conn)
    conn.execute("select pgq.batch_retry(%s, 0), pgq.finish_batch(%s)", [batch, batch])
    assert value(conn, "select pgq.maint_retry_events()") == 1
    last = tick(conn)
    assert column(conn, READ, 1, last) == ["once"]
    assert column(conn, READ, first, last) == []
    assert consume(conn) == ["once"]


def test_a_cursor_reads_a_part_and_takes_a_condition(queue: Database) -> None:
    conn = queue.connect()
    for n in range(9):
        insert(conn, str(n))
    last = tick(conn)
    cursor = "select ev_data from pgq.get_tick_cursor('q', 1, %s, 'a b', %s, %s)"
    with conn.transaction():
        assert column(conn, cursor, last, 2, "ev_data::int4 % 2 = 0 -- even") == ["0", "2"]
        assert [row[5] for row in conn.execute('fetch 2 from "a b"')] == ["4", "6"]
        conn.execute('close "a b"')
        assert column(conn, cursor, last, 0, None) == []
        fetched = column(conn, "select ev_data from pgq.fetch_batch_events('a b', 5, 999)")
        assert fetched == ["0", "1", "2", "3", "4"]
    short = "select ev_data from pgq.get_tick_cursor('q', 1, %s, 'c', 3)"
    with conn.transaction():
        assert column(conn, short, last) == ["0", "1", "2"]
    for name, count in ((None, 1), ("c", None)):
        with refused("LD005", "Invalid NULL value"):
            conn.execute("select pgq.get_tick_cursor('q', 1, 2, %s, %s)", [name, count])


def test_what_is_no_stretch_of_the_queue_is_refused(queue: Database) -> None:
    conn = queue.connect()
    last = tick(conn)
    with refused("LD001", "No such queue"):
        conn.execute("select pgq.tick_event_sql('nope', 1, 1)")
    with refused("LD005", f"invalid range of ticks: {last} to 1"):
        conn.execute("select pgq.tick_event_sql('q', %s, 1)", [last])
    with refused("LD005", "invalid range of ticks: NULL to NULL"):
        conn.execute("select pgq.tick_event_sql('q', null, null)")
    with refused("LD105", "queue q has no tick 99 yet"):
        conn.execute(READ, [1, 99])
    conn.execute("delete from pgq.tick")
    with refused("LD105", "queue q has no tick 1 yet"):
        conn.execute(READ, [1, 1])


def test_a_tick_that_rotation_removed_is_an_error_and_not_an_empty_answer(queue: Database) -> None:
    conn = queue.connect()
    insert(conn, "gone")
    for _ in range(4):
        last = tick(conn)
        consume(conn)
        assert rotate(conn)
    with refused("LD107", "queue q has no tick 1"):
        conn.execute(READ, [1, last])


def test_events_removed_behind_a_tick_that_stayed_are_an_error_too(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.unregister_consumer('q', 'c')")
    newest = tick(conn)
    insert(conn, "gone")
    for n in range(4):
        assert rotate(conn), "without a consumer rotation goes on"
        if n == 1:
            later = tick(conn)
            assert column(conn, READ, newest, later) == ["gone"]
            conn.execute("delete from pgq.tick where tick_id = %s", [later])
    insert(conn, "there")
    last = tick(conn)
    with refused("LD107", f"events after tick {newest} of queue q are gone"):
        conn.execute(READ, [newest, last])
    insert(conn, "new")
    assert column(conn, READ, last, tick(conn)) == ["new"]


def test_a_registered_consumer_keeps_ticks_and_events_for_the_reader(queue: Database) -> None:
    conn = queue.connect()
    expected = []
    for n in range(4):
        insert(conn, str(n))
        expected.append(str(n))
        last = tick(conn)
        rotate(conn)
    assert column(conn, READ, 1, last) == expected


def test_readers_need_no_more_than_the_role_of_readers(queue: Database) -> None:
    conn = queue.connect()
    insert(conn, "x")
    last = tick(conn)
    conn.execute("set role pgq_reader")
    assert column(conn, READ, 1, last) == ["x"]
    with conn.transaction():
        assert value(conn, "select ev_id from pgq.get_tick_cursor('q', 1, %s, 'c', 1)", last)
    conn.execute("set role pgq_writer")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(READ, [1, last])


def test_in_a_restored_database_the_reader_waits_for_the_rebase(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.unregister_consumer('q', 'c')")
    newest = tick(conn)
    insert(conn, "gone")
    while value(conn, "select queue_history_txid from pgq.queue") is None:
        assert rotate(conn)
    insert(conn, "there")
    last = tick(conn)
    insert(conn, "there too")
    end = tick(conn)
    conn.execute("update pgq.cluster_identity set system_identifier = 1")
    conn.execute("delete from pgq.tick where tick_id not in (%s, %s, %s)", [newest, last, end])
    with refused_like("LD201", "database .* was restored from another server"):
        conn.execute(READ, [last, last])
    conn.execute("select pgq.rebase_queues()")
    with refused("LD107", f"events after tick {newest} of queue q are gone"):
        conn.execute(READ, [newest, last])
    assert column(conn, READ, last, end) == ["there too"]
    insert(conn, "new")
    assert column(conn, READ, last, tick(conn)) == ["there too", "new"]


def test_events_that_went_with_a_table_are_an_error_too(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.unregister_consumer('q', 'c')")
    conn.execute("select pgq.set_queue_config('q', 'ntables', '4')")
    for _ in range(3):
        assert rotate(conn)
    newest = tick(conn)
    insert(conn, "gone")
    for _ in range(2):
        assert rotate(conn)
    assert value(conn, "select queue_history_txid from pgq.queue") is None
    conn.execute("select pgq.set_queue_config('q', 'ntables', '3')")
    with refused("LD107", f"events after tick {newest} of queue q are gone"):
        conn.execute(READ, [newest, tick(conn)])
