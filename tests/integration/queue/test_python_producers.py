"""Producers in Python: later, once, many at a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from londiste.db.connection import Connection
from londiste.errors import BadOption, StateError, UnknownQueue
from londiste.pgq import batches, delayed, producer, queues
from londiste.pgq.types import Event
from londiste.ticker import maintenance
from tests.fixtures.cluster import Database
from tests.support.queue_steps import value


@pytest.fixture
def conn(pgq_db: Database) -> Connection:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    return conn


def arrived(conn: Connection) -> list[Event]:
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")
    batch = batches.next_batch(conn, "q", "c")
    assert batch is not None
    found = [event for chunk in batches.events(conn, batch) for event in chunk]
    batches.finish_batch(conn, batch.id)
    return found


def test_an_event_is_delayed_listed_and_cancelled(conn: Connection) -> None:
    assert value(conn, "select pgq.next_due()") is None
    soon = datetime.now(UTC) + timedelta(hours=1)
    event = delayed.insert_event_at(conn, "q", soon, "t", "d", "1", None, "3", "4")
    late = delayed.insert_event_at(conn, "q", soon + timedelta(hours=1), "t", "late")
    assert value(conn, "select pgq.next_due()") == soon
    first, second = delayed.delayed_event_list(conn, "q")
    assert (first.id, first.send_at, first.data, first.extra4) == (event, soon, "d", "4")
    assert first.inserted < soon
    assert delayed.delayed_event_list(conn, "q", count=1, offset=1) == [second]
    (info,) = delayed.get_delayed_info(conn, "q")
    assert (info.delayed_events, info.overdue_events, info.next_send) == (2, 0, soon)
    assert delayed.cancel_delayed_event(conn, "q", late) == 1
    assert delayed.cancel_delayed_event(conn, "q", late) == 0
    conn.execute("update pgq.delayed_event set ev_send_at = now()")
    assert queues.maint_retry_events(conn) == 1
    assert [(e.id, *e[4:]) for e in arrived(conn)] == [(event, "t", "d", "1", None, "3", "4")]


def test_an_event_with_a_key_is_inserted_once(conn: Connection) -> None:
    event, is_new = producer.insert_event_once(conn, "q", "order 1", "t", "d", extra4="4")
    assert is_new
    assert producer.insert_event_once(conn, "q", "order 1", "t", "d") == (event, False)
    with pytest.raises(BadOption, match="an event without a key"):
        producer.insert_event_once(conn, "q", "", "t", "d")
    conn.execute("update pgq.event_key set key_time = now() - interval '2 days'")
    assert queues.maint_operations(conn)[0] == ("pgq.maint_purge_keys", "q")
    assert value(conn, "select pgq.maint_purge_keys('q')") == 1


def test_lists_are_inserted_without_rights_on_tables(conn: Connection) -> None:
    conn.execute("set role pgq_writer")
    count = producer.insert_event_arrays(conn, "q", ("a", "b"), ["1", None], extra2s=[None, "x"])
    assert count == 2
    with pytest.raises(BadOption, match="arrays of different lengths"):
        producer.insert_event_arrays(conn, "q", ["a"], [])
    conn.execute("reset role")
    assert [e[4:8] for e in arrived(conn)] == [("a", "1", None, None), ("b", None, None, "x")]


def test_copy_fills_every_field(conn: Connection) -> None:
    time = datetime(2020, 2, 2, tzinfo=UTC)
    names = ("id", "ev_time", "type", "data", "extra1", "ev_extra2", "extra3", "extra4")
    rows = [
        (70, time, "t", "d", "1", "2", "3", "4"),
        (50, None, None, None, None, None, None, None),
    ]
    assert producer.insert_events(conn, "q", rows, fields=names) == 2
    empty, full = arrived(conn)
    assert (full.id, full.time, *full[4:]) == rows[0]
    assert (empty.id, empty[4:]) == (50, (None,) * 6)
    assert datetime.now(UTC) - empty.time < timedelta(hours=1)
    assert full.txid == empty.txid and full.retry is None


def test_copy_takes_the_fields_that_were_asked_for_in_their_order(conn: Connection) -> None:
    assert producer.insert_events(conn, "q", [("d", "t")], fields=["data", "ev_type"]) == 1
    assert producer.insert_events(conn, "q", [("t",)]) == 1
    first, second = arrived(conn)
    assert (first.id, first.type, first.data) == (1, "t", "d")
    assert (second.id, second.type, second.data) == (2, "t", None)


@pytest.mark.parametrize(
    ("fields", "row", "complaint"),
    [
        (["type", "owner"], ("t", 1), "field owner of an event is unknown"),
        (["type", "ev_txid"], ("t", 1), "field txid of an event is unknown"),
        (["type", "ev_type"], ("t", "t"), "field type of an event is given twice"),
        (["type", "data"], ("t",), "an event has 1 fields"),
        (["type", "data"], ("t", "d", "e"), "an event has 3 fields"),
        (["id", "data"], (None, "d"), "event 1 of the list has no id"),
    ],
)
def test_what_does_not_fit_is_refused(
    conn: Connection, fields: list[str], row: tuple[object, ...], complaint: str
) -> None:
    with pytest.raises(BadOption, match=complaint) as caught:
        producer.insert_events(conn, "q", [row], fields=fields)
    assert caught.value.hint
    assert queues.event_count(conn, "q") == 0


def test_events_with_their_own_ids_make_a_tick(conn: Connection) -> None:
    queues.set_queue_config(conn, "q", "ticker_max_count", "3")
    queues.set_queue_config(conn, "q", "ticker_max_lag", "1 hour")
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")
    assert queues.ticker(conn, "q") is None
    producer.insert_events(conn, "q", [(n, "d") for n in (7, 8, 9)], fields=["id", "data"])
    assert queues.ticker(conn, "q") is not None


@pytest.mark.parametrize("autocommit", [True, False])
def test_copy_keeps_the_limit_of_a_transaction(pgq_db: Database, autocommit: bool) -> None:
    setup = pgq_db.connect()
    queues.create_queue(setup, "q")
    queues.set_queue_config(setup, "q", "per_tx_limit", "5")
    conn = pgq_db.connect(autocommit=autocommit)
    taken = []

    def endless() -> object:
        while True:
            taken.append(1)
            yield ("t", "d")

    with pytest.raises(StateError, match="Queue 'q' allows max 5 events from one TX"):
        producer.insert_events(conn, "q", endless())  # type: ignore[arg-type]
    assert len(taken) == 6, "a mistake is not read to its end"
    conn.rollback()
    with conn.transaction():
        producer.insert_event(conn, "q", "t", "1")
        producer.insert_events(conn, "q", [("t", "d")] * 2)
        with conn.transaction(force_rollback=True):
            producer.insert_events(conn, "q", [("t", "undone")] * 2)
        producer.insert_events(conn, "q", [("t", "d")] * 2)
        with (
            pytest.raises(StateError, match="Queue 'q' allows max 5 events from one TX"),
            conn.transaction(),
        ):
            producer.insert_event(conn, "q", "t", "6")
        with (
            pytest.raises(StateError, match="Queue 'q' allows max 5 events from one TX"),
            conn.transaction(),
        ):
            producer.insert_events(conn, "q", [("t", "6")])
    assert queues.event_count(setup, "q") == 5


def test_errors_are_ours(conn: Connection) -> None:
    with pytest.raises(UnknownQueue, match="No such queue"):
        delayed.insert_event_at(conn, "nope", datetime.now(UTC), "t", "d")
    with pytest.raises(UnknownQueue, match="No such queue"):
        producer.insert_event_once(conn, "nope", "k", "t", "d")
    with pytest.raises(UnknownQueue, match="No such queue"):
        producer.insert_event_arrays(conn, "nope", [], [])
    with pytest.raises(UnknownQueue, match="Event queue not found"):
        producer.insert_events(conn, "nope", [])


def test_the_daemon_forgets_all_old_keys(conn: Connection) -> None:
    conn.execute(
        "insert into pgq.event_key select queue_id, n::text, n, now() - interval '2 days'"
        " from pgq.queue, generate_series(1, 25000) n"
    )
    producer.insert_event_once(conn, "q", "new", "t", "d")
    maintenance.run_once(conn)
    assert conn.execute("select key_value from pgq.event_key").fetchall() == [("new",)]


def test_the_daemon_moves_all_that_is_due(conn: Connection) -> None:
    conn.execute(
        "insert into pgq.delayed_event select now() - n * interval '1 s', queue_id,"
        " nextval(queue_event_seq), now(), 't', n::text from pgq.queue, generate_series(1, 2500) n"
    )
    assert maintenance.move_due_events(conn) == 2500
    assert sorted(int(event.data or "") for event in arrived(conn)) == list(range(1, 2501))
