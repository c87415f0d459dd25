"""londiste.Producer: in its own transactions and in the program's."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from londiste import Producer
from londiste.compat import produce
from londiste.consumer.producer import MANY
from londiste.errors import BadOption, LondisteError, UnknownQueue
from londiste.pgq import batches, delayed, producer, queues
from tests.fixtures.cluster import Database


@pytest.fixture
def db(pgq_db: Database) -> Database:
    queues.create_queue(pgq_db.connect(), "q")
    return pgq_db


def count(db: Database) -> int:
    return queues.event_count(db.connect(), "q")


def test_every_call_is_a_transaction_on_a_connection_string(db: Database) -> None:
    with Producer(db.dsn, "q") as events:
        first = events.send("t", "d", "1", None, "3")
        assert events.send_json("t", {"name": "Ärger"}, "1") > first
        assert events.send_many([("t", str(n)) for n in range(4500)]) == 4500
        assert events.send_many([("t",), ("t", "d", "1", "2", "3", "4")], copy=True) == 2
        with pytest.raises(BadOption, match="an event has 7 fields"):
            events.send_many([("t", "d"), tuple("1234567")])
        events.close()
        events.send("t", "again")
    assert count(db) == 4505
    (data,) = db.execute("select ev_data from pgq.event_1 where ev_data like '{%%'")[0]
    assert json.loads(data) == {"name": "Ärger"}


def test_a_limit_of_no_seconds_is_refused() -> None:
    for seconds in (0, -1.0, float("nan")):
        with pytest.raises(BadOption, match="answer_seconds"):
            Producer("", "q", answer_seconds=seconds)


@pytest.mark.parametrize("rows", [None, dict_row])
def test_events_belong_to_the_transaction_of_the_program(
    db: Database, rows: Callable[..., object] | None
) -> None:
    with psycopg.connect(db.dsn) as conn:
        if rows is not None:
            conn.row_factory = rows  # type: ignore[assignment]
        events = Producer(conn, "q")
        events.send("t", "lost")
        events.send_many([("t", "lost")])
        conn.rollback()
        events.send("t", "kept")
        events.send_many([("t", "kept")])
        events.close()
        assert (conn.row_factory is rows) == (rows is not None)
        conn.commit()
    assert count(db) == 2


@pytest.mark.parametrize(
    "send",
    [
        lambda conn: Producer(conn, "q").send_many([("t", "phantom")]),
        lambda conn: Producer(conn, "q").send_many([("t", "phantom")], copy=True),
        lambda conn: producer.insert_events(conn, "q", [("t", "phantom")]),
        lambda conn: producer.insert_selected(
            conn, "q", sql.SQL("select now(), 't', 'phantom', null, null, null, null")
        ),
        lambda conn: produce.bulk_insert_events(
            conn.cursor(), [("t", "phantom")], ["ev_type", "ev_data"], "q"
        ),
        lambda conn: queues.create_tick(conn, "q"),
    ],
    ids=["send_many", "copy", "insert_events", "insert_selected", "compat", "tick"],
)
def test_a_transaction_that_begins_with_events_can_be_rolled_back(
    db: Database, send: Callable[[psycopg.Connection], object]
) -> None:
    ticks = db.value("select count(*) from pgq.tick")
    with psycopg.connect(db.dsn) as conn:
        assert not conn.autocommit
        send(conn)
        conn.rollback()
        assert count(db) == 0
        assert db.value("select count(*) from pgq.tick") == ticks
        send(conn)
        # The next transaction of the program is its own, too.
        conn.commit()
        send(conn)
        conn.rollback()
    assert count(db) + db.value("select count(*) from pgq.tick") == ticks + 1


def test_reading_events_does_not_commit_the_program(db: Database) -> None:
    db.execute("create table done (id int8); select pgq.register_consumer('q', 'c')")
    with Producer(db.dsn, "q") as events:
        events.send("t", "d")
    queues.create_tick(db.connect(), "q")
    with psycopg.connect(db.dsn) as conn:
        batch = batches.next_batch(conn, "q", "c")
        assert batch is not None
        conn.commit()
        for chunk in batches.events(conn, batch):
            for event in chunk:
                conn.execute("insert into done values (%s)", [event.id])
        conn.rollback()
    assert db.value("select count(*) from done") == 0


def test_a_send_is_not_part_of_what_another_thread_sends(db: Database) -> None:
    events = Producer(db.dsn, "q")
    reading, sent = threading.Event(), threading.Event()
    ids: list[int] = []

    def send() -> None:
        reading.wait()
        ids.append(events.send("order", "kept"))
        sent.set()

    def rows() -> Iterator[tuple[str, str]]:
        # The first portion is in the transaction already.
        yield from (("bulk", str(n)) for n in range(MANY))
        reading.set()
        assert not sent.wait(0.2), "the other thread shares the transaction"
        raise ValueError("the source failed")

    other = threading.Thread(target=send)
    other.start()
    with pytest.raises(ValueError, match="the source failed"):
        events.send_many(rows())
    other.join()
    events.close()
    found = db.execute("select ev_id, ev_data from pgq.event_template")
    assert found == [(ids[0], "kept")]


def test_a_generator_reads_rows_as_the_program_wants_them(db: Database) -> None:
    with psycopg.connect(db.dsn, row_factory=dict_row) as conn:

        def rows() -> Iterator[tuple[str, str]]:
            for row in conn.execute("select generate_series(1, 3)::text as n"):
                yield "t", row["n"]

        assert Producer(conn, "q").send_many(rows()) == 3
        assert Producer(conn, "q").send_many([("t", "4")], copy=True) == 1
    assert count(db) == 4


def test_an_event_with_a_key_is_sent_once(db: Database) -> None:
    with Producer(db.dsn, "q") as events:
        first = events.send("t", "d", key="order 7")
        assert events.send("t", "d", key="order 7") == first
        assert events.send_json("t", {}, key="order 8") != first
    assert count(db) == 2


def test_an_event_for_later_waits(db: Database) -> None:
    with Producer(db.dsn, "q") as events:
        one = events.send("t", "d", at=timedelta(hours=1))
        two = events.send("t", "d", at=datetime(2100, 1, 1, tzinfo=UTC))
        with pytest.raises(BadOption, match="without a time zone"):
            events.send("t", "d", at=datetime(2100, 1, 1))
        with pytest.raises(BadOption, match="a delayed event cannot have a key"):
            events.send("t", "d", at=timedelta(1), key="k")
    assert [e.id for e in delayed.delayed_event_list(db.connect(), "q")] == [one, two]
    assert count(db) == 0


def test_an_unknown_queue_is_named(db: Database) -> None:
    with pytest.raises(UnknownQueue, match="No such queue"):
        Producer(db.dsn, "nope").send("t", "d")


def test_what_is_no_text_or_no_time_is_refused_by_its_name(db: Database) -> None:
    with Producer(db.dsn, "q") as events:
        with pytest.raises(BadOption, match="data of an event has type int, not text"):
            events.send("t", 17)  # type: ignore[arg-type]
        with pytest.raises(BadOption, match="extra1 of an event has type dict, not text"):
            events.send_many([("t", "d"), ("t", "d", {"a": 1})])  # type: ignore[list-item]
        for copy in (False, True):
            with pytest.raises(BadOption, match="an event has type str, not a list of fields"):
                events.send_many(["ab"], copy=copy)
        with pytest.raises(BadOption, match="not a time: 5"):
            events.send("t", "d", at=5)  # type: ignore[arg-type]
    assert count(db) == 0


@pytest.mark.parametrize("bad", ["a\0b", "a\udc80b"])
def test_text_that_cannot_be_stored_is_refused_by_its_field(db: Database, bad: str) -> None:
    with Producer(db.dsn, "q") as events:
        for name, send in {
            "type": lambda: events.send(bad, "d"),
            "data": lambda: events.send("t", bad, at=timedelta(1)),
            "extra2": lambda: events.send("t", "d", "1", bad),
            "key": lambda: events.send("t", "d", key=bad),
            "extra1": lambda: events.send_many([("t", "d"), ("t", "d", bad)]),
            "extra4": lambda: events.send_many([("t", "d", "", "", "", bad)], copy=True),
        }.items():
            with pytest.raises(BadOption, match=f"^{name} of an event contains ") as caught:
                send()
            assert caught.value.hint and bad not in str(caught.value)
    assert count(db) == 0


def test_text_is_checked_in_the_encoding_of_the_session(db: Database) -> None:
    with psycopg.connect(db.dsn, client_encoding="latin1") as conn:
        Producer(conn, "q").send("t", "caf\u00e9")
        with pytest.raises(BadOption, match=r"data of an event contains U\+20AC, which latin-1"):
            Producer(conn, "q").send("t", "\u20ac")
    assert db.execute("select ev_data from pgq.event_template") == [("caf\u00e9",)]


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"x": float("-inf")}])
def test_numbers_that_json_lacks_are_refused(db: Database, value: object) -> None:
    with Producer(db.dsn, "q") as events:
        with pytest.raises(BadOption, match="the value cannot be sent as JSON"):
            events.send_json("t", value)
        with pytest.raises(TypeError):
            events.send_json("t", {1, 2})
    assert count(db) == 0


def test_a_delay_is_counted_by_the_clock_of_the_server(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Behind(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) - timedelta(minutes=10)

    monkeypatch.setattr("londiste.consumer.producer.datetime", Behind)
    with Producer(db.dsn, "q") as events:
        events.send("t", "d", at=timedelta(minutes=5))
        with pytest.raises(LondisteError, match="out of range"):
            events.send("t", "d", at=timedelta.max)
    assert db.value("select count(*) from pgq.event_template") == 0
    assert db.value(
        "select ev_send_at between now() + '4 minutes' and now() + '6 minutes'"
        " from pgq.delayed_event"
    )


def test_an_error_that_nobody_catches_prints_its_hint(db: Database) -> None:
    with pytest.raises(UnknownQueue) as caught, Producer(db.dsn, "missing") as events:
        events.send("t", "d")
    assert "hint: queues here: q" in "".join(traceback.format_exception(caught.value))
