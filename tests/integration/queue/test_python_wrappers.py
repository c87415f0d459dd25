"""Python functions of the queue: values, results and error classes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from londiste.db.connection import Connection
from londiste.errors import BadOption, StateError, UnknownConsumer, UnknownQueue
from londiste.pgq import batches, coop, producer, queues
from londiste.pgq.types import Batch
from tests.fixtures.cluster import Database
from tests.support.queue_steps import value


@pytest.fixture
def conn(pgq_db: Database) -> Connection:
    conn = pgq_db.connect()
    assert queues.create_queue(conn, "q") == 1
    assert batches.register_consumer(conn, "q", "c") == 1
    return conn


def tick(conn: Connection) -> int:
    queues.force_tick(conn, "q")
    made = queues.ticker(conn, "q")
    assert made is not None
    return made


def batch_of(conn: Connection) -> Batch:
    batch = batches.next_batch(conn, "q", "c")
    assert batch is not None
    return batch


def test_an_event_comes_out_as_it_went_in(conn: Connection) -> None:
    number = producer.insert_event(conn, "q", "t", "d", "1", None, "3", "4")
    assert batches.next_batch(conn, "q", "c") is None
    made = tick(conn)
    batch = batch_of(conn)
    assert (batch.queue, batch.consumer) == ("q", "c")
    assert (batch.prev_tick_id, batch.tick_id) == (1, made)
    assert batch.size_estimate >= 0 and batch.prev_tick_time < batch.tick_time
    assert batches.get_batch_info(conn, batch.id) == batch
    (event,) = [e for chunk in batches.events(conn, batch) for e in chunk]
    assert (event.id, event.retry) == (number, None)
    assert event[4:] == ("t", "d", "1", None, "3", "4")
    assert abs(event.time - datetime.now(UTC)) < timedelta(minutes=1)
    assert batches.finish_batch(conn, batch.id) == 1
    assert batches.finish_batch(conn, batch.id) == 0
    assert batches.get_batch_info(conn, batch.id) is None


@pytest.mark.parametrize("autocommit", [True, False])
def test_many_events_come_in_chunks_in_order(
    pgq_db: Database, conn: Connection, autocommit: bool
) -> None:
    assert producer.insert_events(conn, "q", [("t", str(n)) for n in range(25)]) == 25
    assert queues.event_count(conn, "q") == 25
    tick(conn)
    batch = batch_of(conn)
    reader = pgq_db.connect(autocommit=autocommit)
    for _ in range(2):
        chunks = list(batches.events(reader, batch, chunk=10))
        assert [len(chunk) for chunk in chunks] == [10, 10, 5]
        assert [e.data for chunk in chunks for e in chunk] == [str(n) for n in range(25)]
    five = list(batches.events(reader, batch, chunk=5))
    assert [len(chunk) for chunk in five] == [5] * 5


@pytest.mark.parametrize("letter", ["x", "€"])
def test_long_events_come_in_short_lists(conn: Connection, letter: str) -> None:
    sizes = [1, 1, 600, 600, 2000, 1, 1, 600]
    producer.insert_events(conn, "q", [("t", letter * size) for size in sizes])
    tick(conn)
    size = 1000 * len(letter.encode())
    chunks = list(batches.events(conn, batch_of(conn), chunk=3, chunk_bytes=size))
    lengths = [[len(e.data or "") for e in chunk] for chunk in chunks]
    assert lengths == [[1, 1, 600], [600, 2000], [1, 1, 600]]
    whole = list(batches.events(conn, batch_of(conn), chunk_bytes=size))
    assert [len(e.data or "") for chunk in whole for e in chunk] == sizes
    assert all(sum(len(e.data or "") for e in chunk[:-1]) < 1000 for chunk in whole)


def test_reading_may_stop_half_way_and_begin_again_in_one_transaction(
    pgq_db: Database, conn: Connection
) -> None:
    producer.insert_events(conn, "q", [("t", str(n)) for n in range(25)])
    tick(conn)
    batch = batch_of(conn)
    with conn.transaction():
        half = batches.events(conn, batch, chunk=10)
        assert len(next(half)) == 10
        half.close()  # type: ignore[attr-defined]
        assert sum(map(len, batches.events(conn, batch, chunk=10))) == 25
        assert sum(map(len, batches.events(conn, batch, chunk=10))) == 25


def test_a_condition_selects_events(conn: Connection) -> None:
    producer.insert_events(conn, "q", [("t", str(n), None, "x") for n in range(9)])
    tick(conn)
    chunks = batches.events(conn, batch_of(conn), chunk=2, where="ev_data::int4 % 2 = 0")
    assert [e.data for chunk in chunks for e in chunk] == ["0", "2", "4", "6", "8"]


def test_batches_wait_for_the_size_that_was_asked_for(conn: Connection) -> None:
    producer.insert_event(conn, "q", "t", "d")
    tick(conn)
    for wish in (
        {"min_lag": timedelta(hours=1)},
        {"min_count": 100_000},
        {"min_interval": timedelta(hours=1)},
    ):
        assert batches.next_batch(conn, "q", "c", **wish) is None  # type: ignore[arg-type]
    assert batches.next_batch(conn, "q", "c", min_count=1) is not None


def test_events_are_asked_for_again(conn: Connection) -> None:
    first = producer.insert_event(conn, "q", "t", "1")
    producer.insert_event(conn, "q", "t", "2")
    tick(conn)
    batch = batch_of(conn)
    assert batches.event_retry(conn, batch.id, first, 0) == 1
    assert batches.event_retry(conn, batch.id, first, datetime.now(UTC)) == 0
    assert value(conn, "select pgq.batch_retry(%s, 0)", batch.id) == 1
    batches.finish_batch(conn, batch.id)
    assert queues.maint_retry_events(conn) == 2
    tick(conn)
    again = [e for chunk in batches.events(conn, batch_of(conn)) for e in chunk]
    assert [(e.data, e.retry) for e in again] == [("1", 1), ("2", 1)]


def test_queues_and_consumers_are_described(conn: Connection) -> None:
    queues.set_queue_config(conn, "q", "ticker_max_lag", "7 seconds")
    (queue,) = queues.get_queue_info(conn)
    assert (queue.queue_name, queue.queue_ticker_max_lag) == ("q", timedelta(seconds=7))
    assert queue.queue_rotation_period == timedelta(hours=2)
    (consumer,) = queues.get_consumer_info(conn, "q")
    assert (consumer.consumer_name, consumer.last_tick) == ("c", 1)
    assert queues.get_queue_info(conn, "nope") == []
    assert queues.version(conn) >= "3"
    assert queues.maint_tables_to_vacuum(conn) == []
    queues.set_queue_config(conn, "q", "rotation_period", "0")
    assert queues.maint_operations(conn)[:2] == [
        ("pgq.maint_rotate_tables_step1", "q"),
        ("pgq.maint_rotate_tables_step2", None),
    ]


def test_positions_are_moved(conn: Connection) -> None:
    assert tick(conn) == 2
    assert batches.register_consumer_at(conn, "q", "c", 2) == 0
    assert batches.register_consumer_at(conn, "q", "d", 1) == 1
    assert batches.register_consumer_at(conn, "q", "d", None) == 0
    positions = {c.consumer_name: c.last_tick for c in queues.get_consumer_info(conn)}
    assert positions == {"c": 2, "d": 1}
    assert batches.unregister_consumer(conn, "q", "d") == 1
    assert batches.unregister_consumer(conn, "q", "d") == 0


def test_a_consumer_is_not_unregistered_while_a_worker_has_a_batch(conn: Connection) -> None:
    coop.register_subconsumer(conn, "q", "c", "w")
    tick(conn)
    opened = coop.next_batch(conn, "q", "c", "w")
    assert opened is not None
    with pytest.raises(StateError, match=f"cooperative consumer w has batch {opened.id} open"):
        coop.unregister_consumer(conn, "q", "c")
    coop.finish_batch(conn, opened.id)
    assert coop.unregister_consumer(conn, "q", "c") == 2


def test_a_branch_gets_the_ticks_of_its_provider(conn: Connection) -> None:
    queues.set_queue_config(conn, "q", "external_ticker", "true")
    assert queues.external_ticker(conn, "q", 50, datetime.now(UTC), 900) == 50
    assert queues.force_tick(conn, "q") == 50
    with pytest.raises(StateError):
        queues.lock_ticks(conn, "q")


def test_errors_are_ours(conn: Connection) -> None:
    with pytest.raises(UnknownQueue, match="No such queue"):
        producer.insert_event(conn, "nope", "t", "d")
    with pytest.raises(UnknownQueue, match="Event queue not found"):
        producer.insert_events(conn, "nope", [])
    with pytest.raises(UnknownQueue, match="no queue nope"):
        queues.event_count(conn, "nope")
    with pytest.raises(UnknownConsumer, match="Not subscriber to queue: q/d"):
        batches.next_batch(conn, "q", "d")
    with pytest.raises(BadOption, match="cannot change parameter"):
        queues.set_queue_config(conn, "q", "foo", "1")
    with pytest.raises(StateError, match="consumers still attached"):
        queues.drop_queue(conn, "q")
    gone = Batch(99, "q", "c", 1, 2, datetime.now(UTC), datetime.now(UTC), 1, 1)
    with pytest.raises(StateError, match="batch not found"):
        list(batches.events(conn, gone))


def test_nothing_is_loaded_when_one_row_cannot_be(conn: Connection) -> None:
    with pytest.raises(BadOption, match="an event has 7 fields"):
        producer.insert_events(conn, "q", [("t", "d"), tuple("1234567")])
    assert queues.event_count(conn, "q") == 0


def test_ticks_do_not_mind_a_stricter_default_of_the_database(
    pgq_db: Database, conn: Connection
) -> None:
    pgq_db.execute(
        f"alter database {pgq_db.name} set default_transaction_isolation = 'serializable'"
    )
    assert tick(pgq_db.connect()) == 2
