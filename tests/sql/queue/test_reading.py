"""Reading an open batch, whole or by cursor, and finishing it."""

from __future__ import annotations

import pytest

from londiste.errors import UnknownConsumer
from londiste.pgq import batches, queues
from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    EVENT_COLUMNS,
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


class TestReading:
    def test_events_come_with_the_documented_columns(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.insert_event('q', 't', 'd', '1', '2', '3', '4')")
        tick(conn)
        cursor = conn.execute("select * from pgq.get_batch_events(%s)", [open_batch(conn)])
        assert [c.name for c in cursor.description or ()] == EVENT_COLUMNS
        row = cursor.fetchone()
        assert row is not None
        assert (row[0], row[3:]) == (1, (None, "t", "d", "1", "2", "3", "4"))

    def test_events_come_in_the_order_of_their_ids(self, queue: Database) -> None:
        early, late = queue.connect(autocommit=False), queue.connect()
        insert(early, "1")
        insert(late, "2")
        insert(early, "3")
        early.commit()
        insert(late, "4")
        tick(late)
        assert consume(late) == ["1", "2", "3", "4"]

    def test_a_transaction_belongs_to_the_batch_it_committed_in(self, queue: Database) -> None:
        conn, slow = queue.connect(), queue.connect(autocommit=False)
        insert(slow, "slow")
        insert(conn, "1")
        tick(conn)
        insert(conn, "2")
        tick(conn)
        slow.commit()
        insert(conn, "3")
        tick(conn)
        tick(conn)
        assert [consume(conn) for _ in range(4)] == [["1"], ["2"], ["slow", "3"], []]

    def test_a_rolled_back_transaction_is_in_no_batch(self, queue: Database) -> None:
        conn, doomed = queue.connect(), queue.connect(autocommit=False)
        insert(doomed, "doomed")
        tick(conn)
        doomed.rollback()
        tick(conn)
        assert [consume(conn), consume(conn)] == [[], []]

    def test_the_query_has_a_range_and_a_list(self, queue: Database) -> None:
        conn, slow = queue.connect(), queue.connect(autocommit=False)
        txid = value(slow, "select txid_current()")
        insert(slow, "slow")
        for _ in range(120):
            conn.execute("select txid_current()")
        tick(conn)
        consume(conn)
        slow.commit()
        tick(conn)
        batch = open_batch(conn)
        query = value(conn, "select pgq.batch_event_sql(%s)", batch)
        assert f"ev_txid in ({txid})" in query
        assert data_of(conn, batch) == ["slow"]

    def test_a_transaction_right_below_lowers_the_range(self, queue: Database) -> None:
        conn, slow = queue.connect(), queue.connect(autocommit=False)
        txid = value(slow, "select txid_current()")
        insert(slow, "slow")
        # In one transaction: that of force_tick() would be finished in between.
        conn.execute("select pgq.force_tick('q'); select pgq.ticker('q')")
        consume(conn)
        slow.commit()
        tick(conn)
        batch = open_batch(conn)
        query = value(conn, "select pgq.batch_event_sql(%s)", batch)
        assert f"ev_txid >= {txid} " in query and " in (" not in query
        assert data_of(conn, batch) == ["slow"]

    def test_a_batch_that_is_not_open_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        for batch in (99, None):
            with refused("LD106", "batch not found"):
                conn.execute("select * from pgq.get_batch_events(%s)", [batch])
            with refused("LD106", "batch not found"):
                conn.execute("select pgq.batch_event_sql(%s)", [batch])
        with refused_like("LD106", "Cannot find data for batch 99"):
            conn.execute("select pgq.batch_event_tables(99)")


class TestCursor:
    @pytest.fixture
    def batch(self, queue: Database) -> int:
        conn = queue.connect()
        conn.execute("select pgq.insert_event('q', 't', n::text) from generate_series(1, 5) n")
        tick(conn)
        return open_batch(conn)

    def test_the_first_events_come_at_once_and_the_rest_by_fetch(
        self, queue: Database, batch: int
    ) -> None:
        conn = queue.connect(autocommit=False)
        cursor = conn.execute("select * from pgq.get_batch_cursor(%s, 'My cursor', 2)", [batch])
        assert [c.name for c in cursor.description or ()] == EVENT_COLUMNS
        assert [row[5] for row in cursor] == ["1", "2"]
        rest = conn.execute('fetch all from "My cursor"')
        assert [c.name for c in rest.description or ()] == EVENT_COLUMNS
        assert [row[5] for row in rest] == ["3", "4", "5"]
        conn.execute('close "My cursor"')

    @pytest.mark.parametrize("limit", [0, -1])
    def test_a_limit_of_nothing_only_declares(
        self, queue: Database, batch: int, limit: int
    ) -> None:
        conn = queue.connect(autocommit=False)
        assert column(conn, "select pgq.get_batch_cursor(%s, 'c', %s)", batch, limit) == []
        assert len(conn.execute("fetch all from c").fetchall()) == 5

    def test_a_condition_filters_and_keeps_the_order(self, queue: Database, batch: int) -> None:
        conn = queue.connect(autocommit=False)
        call = "select ev_data from pgq.get_batch_cursor(%s, 'c', 10, %s)"
        assert column(conn, call, batch, "ev_id % 2 = 1 or false -- odd") == ["1", "3", "5"]
        conn.execute("close c")
        assert column(conn, call, batch, None) == ["1", "2", "3", "4", "5"]

    @pytest.mark.parametrize("arguments", ["null, 'c', 1", "1, null, 1", "1, 'c', null"])
    def test_a_null_returns_nothing(self, queue: Database, batch: int, arguments: str) -> None:
        conn = queue.connect()
        assert column(conn, f"select pgq.get_batch_cursor({arguments})") == []
        assert column(conn, f"select pgq.get_batch_cursor({arguments}, 'true')") == []

    def test_a_batch_that_is_not_open_is_refused(self, queue: Database, batch: int) -> None:
        conn = queue.connect()
        with refused("LD106", "batch not found"):
            conn.execute("select pgq.get_batch_cursor(99, 'c', 1)")

    def test_fetching_ends_at_a_number_of_events_or_at_a_size(
        self, queue: Database, batch: int
    ) -> None:
        conn = queue.connect(autocommit=False)
        conn.execute("select pgq.get_batch_cursor(%s, 'My cursor', 0)", [batch])
        call = "select * from pgq.fetch_batch_events('My cursor', %s, %s)"
        first = conn.execute(call, [1, 1000])
        assert [c.name for c in first.description or ()] == EVENT_COLUMNS
        assert [row[5] for row in first] == ["1"]
        assert [row[5] for row in conn.execute(call, [9, 2])] == ["2", "3"]
        assert [row[5] for row in conn.execute(call, [9, 1])] == ["4"]
        assert [row[5] for row in conn.execute(call, [9, 1000])] == ["5"]
        assert conn.execute(call, [9, 1000]).fetchall() == []

    @pytest.mark.parametrize("field", range(5))
    def test_the_size_is_that_of_data_and_extras(self, queue: Database, field: int) -> None:
        conn = queue.connect(autocommit=False)
        values = ["", "", "", "", ""]
        values[field] = "x" * 10
        for _ in range(3):
            conn.execute("select pgq.insert_event('q', 't', %s, %s, %s, %s, %s)", values)
        conn.commit()
        tick(conn)
        conn.commit()
        conn.execute("select pgq.get_batch_cursor(%s, 'c', 0)", [open_batch(conn)])
        call = "select ev_id from pgq.fetch_batch_events('c', 9, %s)"
        assert [len(conn.execute(call, [n]).fetchall()) for n in (10, 11, 10)] == [1, 2, 0]


class TestFinishing:
    def test_the_consumer_goes_on_behind_the_batch(self, queue: Database) -> None:
        conn = queue.connect()
        made = tick(conn)
        batch = open_batch(conn)
        conn.execute("update pgq.subscription set sub_active = '2000-01-01'")
        assert value(conn, "select pgq.finish_batch(%s)", batch) == 1
        row = conn.execute(
            "select sub_last_tick, sub_next_tick, sub_batch, sub_active > '2001-01-01'"
            " from pgq.subscription"
        ).fetchone()
        assert row == (made, None, None, True)

    def test_finishing_again_is_a_warning(self, queue: Database) -> None:
        conn = queue.connect()
        notices: list[str | None] = []
        conn.add_notice_handler(lambda diag: notices.append(diag.message_primary))
        assert value(conn, "select pgq.finish_batch(99)") == 0
        assert notices == ["finish_batch: batch 99 not found"]


def test_a_batch_is_finished_and_the_next_one_opened_in_one_call(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    assert batches.finish_and_next(conn, "q", "c") is None
    for name in ("a", "b"):
        insert(conn, name)
        queues.force_tick(conn, "q")
        queues.ticker(conn, "q")
    first = batches.finish_and_next(conn, "q", "c")
    assert first is not None
    assert first.batch == batches.next_batch(conn, "q", "c")
    assert first.query == value(conn, "select pgq.batch_event_sql(%s)", first.batch.id)
    second = batches.finish_and_next(conn, "q", "c", first.batch.id)
    assert second is not None
    assert second.batch.prev_tick_id == first.batch.tick_id
    with conn.transaction(force_rollback=True):
        assert batches.finish_and_next(conn, "q", "c", second.batch.id) is None
    # Undone together: the second is open as it was, and finishing the first again does no harm.
    assert batches.finish_and_next(conn, "q", "c", first.batch.id) == second
    assert batches.finish_and_next(conn, "q", "c", second.batch.id) is None
    assert batches.get_batch_info(conn, second.batch.id) is None


def test_a_next_batch_that_cannot_be_opened_leaves_the_last_one_open(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")
    opened = batches.finish_and_next(conn, "q", "c")
    assert opened is not None
    with pytest.raises(UnknownConsumer):
        batches.finish_and_next(conn, "q", "other", opened.batch.id)
    assert batches.next_batch(conn, "q", "c") == opened.batch


@pytest.mark.parametrize("durable", [True, False])
def test_the_end_of_a_batch_waits_for_the_disk_where_it_is_asked_to(
    pgq_db: Database, durable: bool
) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    conn.execute("select pgq.force_tick('q'), pgq.ticker('q')")
    opened = batches.finish_and_next(conn, "q", "c")
    assert opened is not None
    with conn.transaction():
        batches.finish_and_next(conn, "q", "c", opened.batch.id, durable=durable)
        assert value(conn, "show synchronous_commit") == ("on" if durable else "off")
    assert value(conn, "show synchronous_commit") == "on"
    assert value(conn, "select last_tick from pgq.get_consumer_info('q', 'c')") == (
        opened.batch.tick_id
    )
