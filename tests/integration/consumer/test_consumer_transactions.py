"""Functions of consumers that end, replace or break the transaction they run in."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg.rows import dict_row

import londiste
from londiste import Context, Delivery, Event
from londiste.errors import (
    BadOption,
    EventError,
    LondisteError,
    NodeUnreachable,
    Superseded,
)
from tests.fixtures.cluster import Database
from tests.support.consumer_steps import (
    QUEUE,
    Storing,
    effects,
    make,
    position,
    send,
    store,
)
from tests.support.suite.slow import pairs


def test_a_transaction_that_was_left_open_is_not_lost_silently(db: Database) -> None:
    @londiste.consume(queue=QUEUE, name="open")
    def leaving(event: Event, ctx: Context) -> None:
        ctx.db.execute("begin")
        store(event, ctx)

    consumer = leaving(db.dsn)
    consumer.register()
    send(db, "a")
    with pytest.raises(EventError, match=r"left a transaction open in ctx\.db"):
        consumer.run_once()
    assert effects(db) == []


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("insert into people values ('anna', 'card 4111')", 'violates check constraint "valid"'),
        ("select 'card 4111'::int", "invalid input syntax for type integer: ***"),
        ("copy people (name) from stdin", "extra data after last expected column"),
    ],
)
def test_an_error_of_the_server_shows_no_value_of_a_row(
    db: Database, whole: bool, statement: str, told: str
) -> None:
    db.execute("create table people (name text, card text constraint valid check (card <> card))")

    def work(ctx: Context) -> None:
        if statement.startswith("copy"):
            with ctx.db.cursor() as cursor, cursor.copy(statement) as copy:
                copy.write("anna\tcard 4111\n")
        else:
            ctx.db.execute(statement)

    class Telling(londiste.Consumer):
        queue, name = QUEUE, "telling"
        if whole:

            def process_batch(self, batch: object, events: object, ctx: Context) -> None:
                work(ctx)
        else:

            def process_event(self, event: Event, ctx: Context) -> None:
                work(ctx)

    consumer = Telling(db.dsn)
    consumer.register()
    send(db, "a")
    with pytest.raises(EventError) as failed:
        consumer.run_once()
    text = f"{failed.value.message} {failed.value.detail}"
    assert told in text and "4111" not in text and "anna" not in text


def test_a_process_that_was_taken_for_dead_names_the_timeout(db: Database, tmp_path: Path) -> None:
    def fail(event: Event) -> None:
        db.execute("select pgq_coop.next_batch('q', 'storing', 'two', '0 seconds')")

    slow = type("Storing", (Storing,), {"fail": staticmethod(fail)})
    one = make(db, Delivery.AT_LEAST_ONCE, tmp_path, slow, subconsumer_name="one")
    one.register()
    send(db, "a")
    with pytest.raises(Superseded) as ended:
        one.run_once()
    assert "subconsumer_timeout" in ended.value.hint


#: Contracts under which what the function writes belongs to a transaction of ours.
HELD = [
    Delivery.EXACTLY_ONCE_HERE,
    Delivery.EXACTLY_ONCE_ELSEWHERE,
    Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH,
    Delivery.ONCE_PER_EVENT,
]


class Meddling(Storing):
    """Does something to the session after it has written."""

    meddle: ClassVar[Callable[[Any], object]]

    def process_event(self, event: Event, ctx: Context) -> None:
        super().process_event(event, ctx)
        type(self).meddle(ctx.db)


def meddling(db: Database, delivery: Delivery, what: Callable[[Any], object]) -> Any:
    cls = type("Meddling", (Meddling,), {"delivery": delivery, "meddle": staticmethod(what)})
    consumer = cls(db.dsn, poll_interval=0.05, max_retry_delay=0.1)
    consumer.register()
    send(db, "a", "b")
    return consumer


@pytest.mark.parametrize(("delivery", "statement"), pairs(HELD, ["commit", "rollback"]))
def test_a_function_that_ends_the_transaction_stops_the_consumer(
    db: Database, delivery: Delivery, statement: str
) -> None:
    consumer = meddling(db, delivery, lambda conn: conn.execute(statement))
    with pytest.raises(EventError, match="the function ended its transaction"):
        consumer.run_once()
    assert position(db) == 1


@pytest.mark.parametrize(
    ("delivery", "statement"), pairs(HELD, ["rollback; begin", "rollback and chain"])
)
def test_a_transaction_of_the_functions_own_in_place_of_ours_is_noticed(
    db: Database, delivery: Delivery, statement: str
) -> None:
    consumer = meddling(db, delivery, lambda conn: conn.execute(statement))
    with pytest.raises(EventError, match="the function ended its transaction"):
        consumer.run_once()
    assert position(db) == 1
    assert effects(db) == []


@pytest.mark.parametrize("delivery", HELD)
def test_a_session_that_is_lost_is_not_replaced_inside_the_transaction(
    db: Database, delivery: Delivery
) -> None:
    consumer = meddling(db, delivery, lambda conn: conn.close())
    with pytest.raises(LondisteError, match="closed"):
        consumer.run_once()
    assert position(db) == 1
    assert effects(db) == []


@pytest.mark.parametrize("delivery", HELD)
def test_a_rollback_that_belongs_to_no_transaction_of_the_function_is_an_error(
    db: Database, delivery: Delivery
) -> None:
    def roll_back(conn: Any) -> None:
        raise psycopg.Rollback

    consumer = meddling(db, delivery, roll_back)
    with pytest.raises(EventError, match=r"psycopg\.Rollback was raised outside"):
        consumer.run_once()
    assert position(db) == 1
    assert effects(db) == []


@pytest.mark.parametrize("delivery", HELD)
def test_a_function_may_want_rows_of_another_kind(db: Database, delivery: Delivery) -> None:
    def dicts(conn: Any) -> None:
        conn.row_factory = dict_row

    consumer = meddling(db, delivery, dicts)
    assert consumer.run_once() == 1
    assert effects(db) == ["a", "b"]


def outcomes(db: Database) -> list[str]:
    """Events that wait for a retry, or are dead letters."""
    both = "select ev_data from pgq.failed_queue union all select ev_data from pgq.retry_queue"
    return [data for (data,) in db.execute(both)]


def catching(db: Database, delivery: Delivery, *data: str, **given: Any) -> Any:
    """Its function catches what the event "bad" raises in ctx.db, and goes on."""

    class Catching(Storing):
        def process_event(self, event: Event, ctx: Context) -> None:
            with contextlib.suppress(psycopg.Error):
                ctx.db.execute("select 1 / %s", [0 if event.data == "bad" else 1])
            if event.data != "bad":
                super().process_event(event, ctx)

    cls = type("Catching", (Catching,), {"delivery": delivery})
    consumer = cls(db.dsn, poll_interval=0.05, max_retry_delay=0.1, **given)
    consumer.register()
    send(db, *data)
    return consumer


@pytest.mark.parametrize("delivery", HELD)
def test_an_error_that_the_last_event_has_caught_stops_the_consumer_at_it(
    db: Database, delivery: Delivery
) -> None:
    consumer = catching(db, delivery, "a", "bad")
    with pytest.raises(
        EventError, match=r"event \d+ of type t: .*caught an error of the database in ctx\.db"
    ) as e:
        consumer.run_once()
    assert e.value.hint.startswith("write `with ctx.db.transaction():`")
    assert position(db) == 1


@pytest.mark.parametrize("delivery", [Delivery.EXACTLY_ONCE_HERE, Delivery.ONCE_PER_EVENT])
def test_a_caught_error_is_a_failure_of_its_event_alone(db: Database, delivery: Delivery) -> None:
    consumer = catching(db, delivery, "a", "bad", "b", max_attempts=1)
    consumer.run_once()
    # The last attempt is over when the retry is taken back into the queue.
    assert effects(db) == ["a", "b"]
    assert outcomes(db) == ["bad"]


def test_an_error_that_process_batch_has_caught_stops_the_consumer(db: Database) -> None:
    class Whole(londiste.Consumer):
        queue, name, delivery = QUEUE, "storing", Delivery.EXACTLY_ONCE_HERE

        def process_batch(self, batch: object, events: Any, ctx: Context) -> None:
            list(events)
            with contextlib.suppress(psycopg.Error):
                ctx.db.execute("select 1 / 0")

    consumer = Whole(db.dsn)
    consumer.register()
    send(db, "a")
    with pytest.raises(EventError, match="the function caught an error of the database"):
        consumer.run_once()
    assert position(db) == 1


def test_marks_that_the_role_may_not_write_are_no_failure_of_an_event(db: Database) -> None:
    db.execute("grant all on effects to pgq_reader")
    cls = type("Storing", (Storing,), {"delivery": Delivery.ONCE_PER_EVENT})
    consumer = cls(f"{db.dsn} options='-c role=pgq_reader'", max_attempts=1)
    consumer.register()
    send(db, "a")
    with pytest.raises(EventError, match="permission denied for function get_known_source") as e:
        consumer.run_once()
    assert "pgq_writer of a producer, or of a consumer with its position or marks" in e.value.hint
    assert (
        db.execute("select 1 from pgq.failed_queue union all select 1 from pgq.retry_queue") == []
    )
    assert position(db) == 1


def test_a_function_that_only_promises_to_work_is_refused(db: Database, tmp_path: Path) -> None:
    async def later(event: Event) -> None:
        raise AssertionError

    def piecemeal(event: Event) -> Any:
        yield event

    for function in (later, piecemeal):
        kind = londiste.consume(queue=QUEUE, name="storing")(function)
        with pytest.raises(BadOption, match="`async` or a generator"):
            kind(db.dsn)

    # What cannot be seen at the start is seen when it is called.
    kind = londiste.consume(queue=QUEUE, name="storing")(lambda event: piecemeal(event))
    consumer = kind(db.dsn)
    consumer.register()
    send(db, "a")
    with pytest.raises(EventError, match="returned a generator and did nothing"):
        consumer.run_once()
    assert position(db) == 1


def test_an_event_whose_mark_is_lost_with_the_connection_is_named(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    class Cut(Storing):
        delivery = Delivery.ONCE_PER_EVENT
        calls: ClassVar[list[int]] = []

        def process_event(self, event: Event, ctx: Context) -> None:
            super().process_event(event, ctx)
            self.calls.append(event.id)
            if self.calls == [event.id]:
                db.value("select pg_terminate_backend(%s, 5000)", ctx.db.info.backend_pid)

    consumer = Cut(db.dsn)
    consumer.register()
    send(db, "a", "b")
    with pytest.raises((LondisteError, psycopg.OperationalError)):
        consumer.run_once()
    first = Cut.calls[0]
    assert f"event {first} of type t: the function returned, but the commit" in caplog.text
    assert consumer.run_once() == 1
    assert Cut.calls.count(first) == 2
    assert effects(db) == ["a", "b"]


@pytest.mark.parametrize(
    ("delivery", "setting"),
    pairs(
        HELD,
        [
            "datestyle = 'German'; set timezone = 'Asia/Tokyo'; set client_encoding = 'LATIN1'",
            "session characteristics as transaction read only",
            "default_transaction_read_only = on",
        ],
    ),
)
def test_what_a_function_sets_lasts_until_the_end_of_the_batch(
    db: Database, delivery: Delivery, setting: str
) -> None:
    consumer = meddling(db, delivery, lambda conn: conn.execute(f"set {setting}"))
    send(db, "c")
    send(db, "d")
    assert consumer.run_once() == 3
    assert effects(db) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(("delivery", "then"), pairs(HELD, ["", "select 1"]))
def test_a_function_that_closes_its_session_is_named_with_its_event(
    db: Database, delivery: Delivery, then: str
) -> None:
    def closed(conn: Any) -> None:
        conn.close()
        if then:
            conn.execute(then)

    consumer = meddling(db, delivery, closed)
    with pytest.raises(
        EventError, match=r"event \d+ of type t: .*the function closed ctx\.db"
    ) as e:
        consumer.run_once()
    assert e.value.hint == "do not close ctx.db: the consumer needs it and ends it itself"
    assert effects(db) == []


@pytest.mark.parametrize("delivery", HELD)
def test_a_constraint_that_fails_at_the_commit_names_its_batch(
    db: Database, delivery: Delivery
) -> None:
    db.execute("create table late (id int unique deferrable initially deferred)")
    consumer = meddling(db, delivery, lambda conn: conn.execute("insert into late values (1), (1)"))
    place = "queue q, consumer storing, batch 1"
    with pytest.raises(EventError, match=f"{place}.*UniqueViolation: duplicate key") as e:
        consumer.run_once()
    assert "correct the function or the data" in e.value.hint
    assert position(db) == 1


@pytest.mark.parametrize("delivery", HELD[:3])
def test_a_connection_that_is_lost_in_a_batch_names_the_batch(
    db: Database, delivery: Delivery
) -> None:
    consumer = meddling(
        db, delivery, lambda conn: db.value("select pg_terminate_backend(%s, 5000)", pid(conn))
    )
    with pytest.raises(NodeUnreachable) as e:
        consumer.run_once()
    assert "queue q, consumer storing, batch 1" in e.value.detail
    assert effects(db) == []


def pid(conn: Any) -> int:
    return int(conn.info.backend_pid)
