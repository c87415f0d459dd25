"""Consumers of a real queue: every delivery contract, failures, filters, registration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import londiste
from londiste import Batch, Consumer, Context, Delivery, Event, Events
from londiste.daemon.logcontext import Fields
from londiste.dsn import db_option
from londiste.errors import (
    BadOption,
    EventError,
    LondisteError,
    NodeBusy,
    PositionLost,
    StateError,
    UnknownConsumer,
    UnknownQueue,
)
from londiste.pgq import queues
from tests.fixtures.cascade import refused_at_once
from tests.fixtures.cluster import Database
from tests.support import queue_steps
from tests.support.consumer_steps import (
    ALL,
    ELSEWHERE,
    QUEUE,
    Storing,
    effects,
    make,
    position,
    send,
    tick,
)


@pytest.mark.parametrize("delivery", ALL)
def test_every_event_arrives_once_under_every_contract(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    consumer = make(db, delivery, tmp_path)
    assert consumer.register()
    assert not consumer.register()
    send(db, "a", "b")
    send(db, "c")
    tick(db)
    assert consumer.run_once() == 3
    send(db, "d")
    assert consumer.run_once() == 1
    assert effects(db) == ["a", "b", "c", "d"]
    assert consumer.unregister()
    assert not consumer.unregister()
    assert db.value("select count(*) from pgq.subscription") == 0


@pytest.mark.parametrize("delivery", ALL)
def test_unregistered_consumer_hints_at_register(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    with pytest.raises(UnknownConsumer, match="consumer storing is not registered on queue q") as e:
        make(db, delivery, tmp_path).run_once()
    assert "--register" in e.value.hint


@pytest.mark.parametrize("delivery", ALL)
def test_a_failing_event_stops_the_consumer_with_its_name(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    consumer = make(db, delivery, tmp_path)
    consumer.register()
    send(db, "a", "bad", "c")

    def fail(event: Event) -> None:
        if event.data == "bad":
            raise ZeroDivisionError("so it is")

    consumer.fail = fail
    with pytest.raises(EventError, match=r"queue q.*batch \d+, event \d+ of type t: ZeroDiv") as e:
        consumer.run_once()
    assert e.value.event_id is not None
    consumer.fail = None
    consumer.run_once()
    if delivery.one_transaction or delivery is Delivery.ONCE_PER_EVENT:
        assert effects(db) == ["a", "bad", "c"]
    elif delivery is Delivery.AT_MOST_ONCE:
        assert effects(db) == ["a", "bad"]
    else:
        assert effects(db) == ["a", "a", "bad", "bad", "c"]


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.EXACTLY_ONCE_HERE])
def test_a_failure_names_the_line_of_the_program_that_raised_it(
    db: Database, delivery: Delivery
) -> None:
    def helper(event: Event) -> None:
        json.loads(event.data or "")

    class ByEvent(Consumer):
        queue, name = QUEUE, "by_event"

        def process_event(self, event: Event, ctx: Context) -> None:
            helper(event)

    class ByBatch(Consumer):
        queue, name = QUEUE, "by_batch"

        def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
            for event in events:
                helper(event)

    line = helper.__code__.co_firstlineno + 1
    consumers = [type("C", (kind,), {"delivery": delivery})(db.dsn) for kind in (ByEvent, ByBatch)]
    for consumer in consumers:
        consumer.register()
    send(db, "no JSON")
    for consumer in consumers:
        with pytest.raises(EventError) as caught:
            consumer.run_once()
        assert f"; raised at {__file__}:{line}, in helper" in caught.value.detail


def test_failed_startup_is_reported_and_opens_no_batch(db: Database) -> None:
    class Failing(Consumer):
        queue, name = QUEUE, "failing"

        def startup(self) -> None:
            raise KeyError("mail")

        def process_event(self, event: Event, ctx: Context) -> None:
            raise AssertionError

    consumer = Failing(db.dsn)
    consumer.register()
    send(db, "a")
    with pytest.raises(LondisteError, match="consumer failing: startup failed: KeyError: 'mail'"):
        consumer.run()
    assert db.value("select current_batch from pgq.get_consumer_info('q', 'failing')") is None


def test_registering_on_an_unknown_queue_hints_at_create(db: Database) -> None:
    with pytest.raises(UnknownQueue) as caught:
        Consumer(db.dsn, queue_name="it's", consumer_name="c").register()
    assert caught.value.message == "consumer c: queue it's does not exist"
    option = db_option(db.dsn)
    assert caught.value.hint == f"londiste queue create {option} 'it'\"'\"'s'"


def test_a_consumer_of_an_unknown_queue_names_the_queue(db: Database) -> None:
    consumer = Storing(db.dsn, queue_name="nowhere")
    with pytest.raises(UnknownQueue, match="consumer storing: queue nowhere does not exist"):
        consumer.run_once()


@pytest.mark.parametrize("delivery", ELSEWHERE)
def test_effects_and_position_are_in_another_database(
    db: Database, new_database: Callable[..., Database], tmp_path: Path, delivery: Delivery
) -> None:
    other = new_database(pgq=True)
    other.execute("create table effects (ev_id int8, data text)")
    consumer = make(db, delivery, tmp_path, target_db=other.dsn)
    consumer.register()
    send(db, "a", "b")
    assert consumer.run_once() == 1
    assert (effects(db), effects(other)) == ([], ["a", "b"])


def test_batch_function_gets_all_events_once(db: Database, tmp_path: Path) -> None:
    seen: list[Any] = []

    class Counting(Consumer):
        queue = QUEUE
        name = "counting"

        def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
            seen.append([len(chunk) for chunk in events.chunks()])
            with pytest.raises(StateError, match="were read already"):
                list(events)
            seen.append(events.count)

    consumer = Counting(db.dsn, pgq_lazy_fetch=2)
    consumer.register()
    send(db, "a", "b", "c")
    consumer.run_once()
    assert seen == [[2, 1], 3]


def test_a_batch_that_was_not_read_is_not_finished(db: Database) -> None:
    class Lazy(Consumer):
        queue = QUEUE
        name = "lazy"
        skip = False

        def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
            for _ in events:
                break
            if self.skip:
                events.skip_rest()

    consumer = Lazy(db.dsn)
    consumer.register()
    tick(db)
    assert consumer.run_once() == 1
    send(db, "a", "b")
    with pytest.raises(StateError, match="left events unread"):
        consumer.run_once()
    consumer.skip = True
    assert consumer.run_once() == 1


def test_filters_keep_events_on_the_server(db: Database) -> None:
    got: list[str | None] = []

    @londiste.consume(queue=QUEUE, name="filtered", types=["t"], where="ev_data <> 'b' -- no")
    def filtered(event: Event) -> None:
        got.append(event.data)

    consumer = filtered(db.dsn, table_filter="one,other.two")
    consumer.register()
    send(db, "a", "b", extra1="public.one")
    send(db, "c", extra1="public.three")
    send(db, "d", extra1="other.two")
    send(db, "e", extra1="other.two", type="u")
    assert consumer.run_once() == 4
    assert got == ["a", "d"]


def test_a_second_process_of_the_same_name_is_refused(db: Database, tmp_path: Path) -> None:
    one, two = (make(db, Delivery.AT_LEAST_ONCE, tmp_path) for _ in range(2))
    one.register()
    assert not one.work()
    with refused_at_once(), pytest.raises(NodeBusy, match="queue q is already") as caught:
        two.work()
    holder = one._runner.source.conn.info.backend_pid
    assert f"select pg_terminate_backend({holder})" in caught.value.hint
    one.close()
    assert not two.work()
    two.close()


def test_mismatched_position_is_detected_and_repaired(db: Database, tmp_path: Path) -> None:
    consumer = make(db, Delivery.EXACTLY_ONCE_ELSEWHERE, tmp_path)
    consumer.register()
    send(db, "a")
    send(db, "b")
    consumer.run_once()
    db.execute("select pgq.register_consumer_at('q', 'storing', 1)")
    with pytest.raises(PositionLost, match="is at tick 3"):
        consumer.run_once()
    assert consumer.rewind() == 3
    assert consumer.run_once() == 0
    db.execute("select pgq.register_consumer_at('q', 'storing', 1)")
    assert consumer.reset() == 1
    assert consumer.run_once() == 2
    assert effects(db) == ["a", "a", "b", "b"]
    db.execute("select pgq_ext.set_last_tick('storing', null)")
    send(db, "c")
    with pytest.raises(PositionLost, match="has no position in"):
        consumer.run_once()


def test_the_queue_follows_the_local_file(db: Database, tmp_path: Path) -> None:
    consumer = make(db, Delivery.LOCAL_FILE, tmp_path)
    consumer.register()
    send(db, "a")
    send(db, "b")
    consumer.run_once()
    (tmp_path / "position").write_text('{"queue": "q", "consumer": "storing", "tick": 2}\n')
    assert consumer.run_once() == 1
    assert effects(db) == ["a", "b", "b"]
    (tmp_path / "position").write_text('{"queue": "q", "consumer": "storing", "tick": 99}\n')
    with pytest.raises(PositionLost, match="is at tick 99, which queue q does not have"):
        consumer.run_once()
    assert consumer.reset() == 3
    assert consumer.run_once() == 0
    (tmp_path / "position").write_text('{"queue": "q", "consumer": "else", "tick": 2}\n')
    with pytest.raises(StateError, match="belongs to consumer else"):
        consumer.run_once()
    (tmp_path / "position").write_text("gibberish")
    with pytest.raises(PositionLost, match="not a position file"):
        consumer.run_once()


def test_the_queue_follows_a_file_that_was_restored(db: Database, tmp_path: Path) -> None:
    consumer, file = make(db, Delivery.LOCAL_FILE, tmp_path), tmp_path / "position"
    consumer.register()
    send(db, "a")
    consumer.run_once()
    backup = file.read_text()
    assert "source" in backup
    send(db, "b")
    send(db, "c")
    consumer.run_once()
    file.write_text(backup)
    assert consumer.run_once() == 2
    assert effects(db) == ["a", "b", "b", "c", "c"]
    # The queue does not have its tick any more.
    db.execute("delete from pgq.tick where tick_id = 2")
    file.write_text(backup)
    with pytest.raises(PositionLost, match="is at tick 2, which queue q does not have"):
        consumer.run_once()


def test_registration_starts_at_a_tick_or_another_consumer(db: Database, tmp_path: Path) -> None:
    one = make(db, Delivery.AT_LEAST_ONCE, tmp_path)
    one.register()
    send(db, "a")
    send(db, "b")
    one.work()
    one.close()
    like = make(db, Delivery.EXACTLY_ONCE_ELSEWHERE, tmp_path, consumer_name="two")
    assert like.register(like="storing")
    assert like.run_once() == 1
    at = make(db, Delivery.AT_LEAST_ONCE, tmp_path, consumer_name="three")
    with pytest.raises(StateError, match="tick not found"):
        at.register(77)
    with pytest.raises(BadOption):
        at.register(1, like="two")
    assert at.register(1)
    assert at.run_once() == 2
    assert sorted(effects(db)) == ["a", "a", "b", "b"]


def test_settings_that_break_a_promise_are_refused(db: Database, tmp_path: Path) -> None:
    for delivery, given, message in (
        (Delivery.EXACTLY_ONCE_HERE, {"target_db": "dbname=x"}, "does not allow target_db"),
        (
            Delivery.EXACTLY_ONCE_ELSEWHERE,
            {"subconsumer_name": "x"},
            "does not allow subconsumer_name",
        ),
        (Delivery.AT_MOST_ONCE, {"max_attempts": 3}, "does not allow max_attempts"),
        (
            Delivery.ONCE_PER_EVENT,
            {"subconsumer_name": "x", "subconsumer_timeout": "1 minute"},
            "does not allow subconsumer_timeout",
        ),
        (Delivery.AT_LEAST_ONCE, {"consumer_name": ""}, "has no consumer name"),
        (Delivery.AT_LEAST_ONCE, {"queue_name": " "}, "the queue needs a name"),
        (Delivery.LOCAL_FILE, {"local_tracking_file": None}, "local_tracking_file is not set"),
        (Delivery.CASCADE_NODE, {}, "needs a cascade node"),
    ):
        with pytest.raises(BadOption, match=message):
            make(db, delivery, tmp_path, **given)

    class Whole(Consumer):
        queue, name, delivery = QUEUE, "whole", Delivery.ONCE_PER_EVENT

        def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None: ...

    with pytest.raises(BadOption, match="does not allow process_batch"):
        Whole(db.dsn)
    with pytest.raises(BadOption, match="cannot be a consumer"):
        londiste.consume(queue=QUEUE)(lambda a, b, c, d: None)


def test_processes_share_a_consumer(db: Database, tmp_path: Path) -> None:
    one, two = (
        make(db, Delivery.EXACTLY_ONCE_HERE, tmp_path, subconsumer_name=name)
        for name in ("one", "two")
    )
    one.register()
    for text in "abcdef":
        send(db, text)
    while one.work() | two.work():
        pass
    one.close()
    two.close()
    assert effects(db) == list("abcdef")
    assert one.unregister()
    assert not one.unregister()
    send(db, "g")
    assert two.run_once() == 1
    assert effects(db) == list("abcdefg")


def test_paused_consumer_opens_no_batch_until_resumed(db: Database, tmp_path: Path) -> None:
    one, two = (make(db, Delivery.AT_LEAST_ONCE, tmp_path) for _ in range(2))
    one.register()
    send(db, "a")
    assert two.pause("repairs")
    assert not two.pause()
    assert one.run_once() == 0
    assert two.resume()
    assert not two.resume()
    assert make(db, Delivery.AT_LEAST_ONCE, tmp_path).run_once() == 1


def test_events_read_after_the_batch_survive_rotation(db: Database) -> None:
    got: list[str | None] = []
    conn = db.connect()

    def rotate() -> None:
        queues.set_queue_config(conn, QUEUE, "rotation_period", "0")
        for _ in range(4):
            tick(db)
            queue_steps.rotate(conn, QUEUE)

    class Slow(Consumer):
        queue, name, delivery = QUEUE, "slow", Delivery.AT_MOST_ONCE

        def process_event(self, event: Event, ctx: Context) -> None:
            if not got:
                rotate()
            got.append(event.data)

    consumer = Slow(db.dsn, pgq_lazy_fetch=10)
    consumer.register()
    wide = "x" * 1000
    with londiste.Producer(db.dsn, QUEUE) as producer:
        producer.send_many([("t", f"{n} {wide}") for n in range(10_000)])
    tick(db)
    assert consumer.work()
    consumer.close()
    assert len(got) == 10_000


def test_every_line_of_the_log_names_the_consumer_the_last_one_too(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    storing = Storing(db.dsn)
    storing.register()
    send(db, "a")
    caplog.handler.addFilter(Fields())
    with caplog.at_level("INFO", logger="londiste"):
        storing.run_once()
    lines = [record for record in caplog.records if record.name.startswith("londiste")]
    assert "count: 1" in lines[-1].getMessage()
    assert {(vars(line)["queue"], vars(line)["consumer"]) for line in lines} == {(QUEUE, "storing")}


@pytest.mark.parametrize(
    "condition", ["ev_data =;", "nosuch = 1", "ev_data::int > 1"], ids=["syntax", "column", "value"]
)
def test_a_condition_that_fails_is_named_as_such(
    db: Database, tmp_path: Path, condition: str
) -> None:
    consumer = make(db, Delivery.AT_LEAST_ONCE, tmp_path, consumer_filter=condition)
    consumer.register()
    send(db, "a")
    with pytest.raises(BadOption, match="consumer storing: its condition fails") as caught:
        consumer.run_once()
    assert condition in (caught.value.detail or "")
    assert "consumer_filter" in (caught.value.hint or "")
    assert position(db) == 1
