"""Retries and dead letters of consumers under every delivery contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from londiste import Batch, Consumer, Context, Dead, Delivery, Event, Events, Retry
from londiste.errors import BadOption, EventError, LondisteError, TransientError
from londiste.pgq import dead_letters
from tests.fixtures.cluster import Database
from tests.support.consumer_steps import (
    ALL,
    QUEUE,
    Storing,
    effects,
    make,
    send,
    tick,
)
from tests.support.suite.slow import only
from tests.support.waiting import wait_for


@pytest.mark.parametrize("delivery", [d for d in ALL if d.may_retry])
def test_an_event_is_delivered_again_and_leaves_nothing_of_the_failed_attempt(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    consumer = make(db, delivery, tmp_path)
    consumer.register()
    send(db, "a", "b", "c")

    def fail(event: Event) -> None:
        if event.data == "b" and event.retry is None:
            raise Retry(0)

    consumer.fail = fail
    assert consumer.run_once() == 1
    if delivery is not Delivery.AT_LEAST_ONCE:
        assert effects(db) == ["a", "c"]
    db.execute("select pgq.maint_retry_events()")
    tick(db)
    assert consumer.run_once() == 1
    assert sorted(set(effects(db))) == ["a", "b", "c"]
    if delivery is not Delivery.AT_LEAST_ONCE:
        assert len(effects(db)) == 3


@pytest.mark.parametrize(
    "delivery",
    only(
        [d for d in ALL if d.may_bury],
        *(Delivery.EXACTLY_ONCE_HERE, Delivery.ONCE_PER_EVENT, Delivery.AT_LEAST_ONCE),
    ),
)
def test_a_dead_letter_is_kept_with_its_reason(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    consumer = make(db, delivery, tmp_path)
    consumer.register()
    send(db, "a", "b")

    def fail(event: Event) -> None:
        if event.data == "b":
            raise Dead("nobody wants it")

    consumer.fail = fail
    consumer.run_once()
    (letter,) = dead_letters.failed_event_list(db.connect(), QUEUE, "storing")
    assert (letter.data, letter.failed_reason) == ("b", "nobody wants it")


@pytest.mark.parametrize("delivery", [d for d in ALL if not d.may_retry])
def test_retry_under_a_contract_without_retries_is_an_error(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    consumer = make(db, delivery, tmp_path)
    consumer.register()
    send(db, "a")

    def fail(event: Event) -> None:
        raise Retry(5)

    consumer.fail = fail
    with pytest.raises(EventError, match="cannot retry it under delivery"):
        consumer.run_once()


def test_last_attempt_creates_a_dead_letter(db: Database, tmp_path: Path) -> None:
    consumer = make(db, Delivery.EXACTLY_ONCE_HERE, tmp_path, max_attempts=2, retry_seconds=0)
    consumer.register()
    send(db, "a", "b")

    def fail(event: Event) -> None:
        if event.data == "a":
            raise ValueError("never")

    consumer.fail = fail
    consumer.run_once()
    assert dead_letters.failed_event_count(db.connect(), QUEUE, "storing") == 0
    db.execute("select pgq.maint_retry_events()")
    tick(db)
    consumer.run_once()
    (letter,) = dead_letters.failed_event_list(db.connect(), QUEUE, "storing")
    assert (letter.data, letter.failed_reason) == ("a", "ValueError: never")
    assert effects(db) == ["b"]


@pytest.mark.parametrize("seconds", [-1, 0.5, "60", None, 2**31])
def test_invalid_retry_seconds_are_refused_with_the_event(
    db: Database, tmp_path: Path, seconds: Any
) -> None:
    class Again(Storing):
        def process_event(self, event: Event, ctx: Context) -> None:
            raise Retry(seconds)

    consumer = make(db, Delivery.AT_LEAST_ONCE, tmp_path, Again)
    consumer.register()
    send(db, "a")
    with pytest.raises(
        EventError, match=r"event 1 of type t: .* invalid retry delay: .* seconds"
    ) as caught:
        consumer.run_once()
    assert "from 0 to 2147483647" in (caught.value.hint or "")


def test_reason_with_invalid_characters_is_stored_escaped(db: Database, tmp_path: Path) -> None:
    class Burying(Storing):
        def process_event(self, event: Event, ctx: Context) -> None:
            raise Dead("a\0b \udc80 c")

    consumer = make(db, Delivery.AT_LEAST_ONCE, tmp_path, Burying)
    consumer.register()
    send(db, "a")
    assert consumer.run_once() == 1
    assert db.value("select ev_failed_reason from pgq.failed_queue") == "a\\x00b \\udc80 c"


class Catching(Storing):
    """Catches what each event raises, and continues with the next."""

    catch: ClassVar[type[BaseException]] = Exception
    after: Callable[[Context], object] | None = None

    def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
        for event in events:
            try:
                ctx.each([event], self.process_event)
            except self.catch:
                if self.after is not None:
                    self.after(ctx)


@pytest.mark.parametrize("catch", [Exception, BaseException])
@pytest.mark.parametrize("delivery", [d for d in ALL if d.one_transaction and d.may_retry])
def test_a_function_that_catches_everything_loses_no_outcome(
    db: Database, tmp_path: Path, delivery: Delivery, catch: type[BaseException]
) -> None:
    consumer = make(db, delivery, tmp_path, Catching)
    consumer.catch = catch
    consumer.register()
    send(db, "a", "retry", "dead", "b")

    def fail(event: Event) -> None:
        if event.data == "retry":
            raise Retry(60)
        if event.data == "dead":
            raise Dead("cannot be processed")

    consumer.fail = fail
    assert consumer.run_once() == 1
    assert effects(db) == ["a", "b"]
    assert db.execute("select ev_data from pgq.retry_queue") == [("retry",)]
    assert db.execute("select ev_data from pgq.failed_queue") == [("dead",)]


@pytest.mark.parametrize(
    "error", [ValueError("no"), TransientError("no mail server"), KeyboardInterrupt()]
)
def test_a_caught_failure_leaves_no_half_of_an_event(
    db: Database, tmp_path: Path, error: BaseException
) -> None:
    consumer = make(db, Delivery.EXACTLY_ONCE_HERE, tmp_path, Catching)
    consumer.catch = BaseException
    consumer.register()
    send(db, "a", "half", "b")

    def fail(event: Event) -> None:
        if event.data == "half":
            raise error

    consumer.fail = fail
    assert consumer.run_once() == 1
    assert effects(db) == ["a", "b"]


def test_a_function_that_fails_after_a_caught_failure_is_repeated(
    db: Database, tmp_path: Path
) -> None:
    class Wrong(Catching):
        def process_event(self, event: Event, ctx: Context) -> None:
            super().process_event(event, ctx)
            if event.data == "wrong":
                ctx.db.execute("select 1 / 0")

    consumer = make(db, Delivery.EXACTLY_ONCE_HERE, tmp_path, Wrong)
    consumer.catch = BaseException
    # Without savepoints it fails, in the transaction that the event has broken.
    consumer.after = lambda ctx: ctx.db.execute("select 1")
    consumer.register()
    send(db, "a", "wrong", "b")
    assert consumer.run_once() == 1
    assert effects(db) == ["a", "b"]


def test_many_outcomes_are_stored_in_few_calls(db: Database, tmp_path: Path) -> None:
    consumer = make(db, Delivery.AT_LEAST_ONCE, tmp_path)
    consumer.register()
    conn = db.connect()
    conn.execute(
        "select pgq.insert_event(%s, 't', i::text) from generate_series(1, 2000) i", [QUEUE]
    )
    tick(db)

    def fail(event: Event) -> None:
        raise Retry(60) if int(event.data or 0) % 2 else Dead(f"no {event.data}")

    consumer.fail = fail
    calls = (
        "select coalesce(sum(calls), 0) from pg_stat_user_functions"
        " where funcname in ('_put_back', 'events_retry_or_fail')"
    )
    db.execute(f"alter database {db.name} set track_functions = 'all'")
    assert consumer.run_once() == 1
    assert wait_for(lambda: db.value(calls), what="the statistics of functions") == 2
    assert db.value("select count(*) from pgq.retry_queue") == 1000
    assert db.execute("select ev_failed_reason from pgq.failed_queue order by ev_id limit 2") == [
        ("no 2",),
        ("no 4",),
    ]


#: What ends a program is a failure of its event, too.
ENDS = [SystemExit(0), GeneratorExit(), asyncio.CancelledError("by a library")]


@pytest.mark.parametrize(
    "delivery",
    only(
        ALL,
        *(Delivery.EXACTLY_ONCE_HERE, Delivery.ONCE_PER_EVENT, Delivery.AT_LEAST_ONCE),
        Delivery.AT_MOST_ONCE,
    ),
)
def test_the_event_is_named_and_comes_again(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    consumer = make(db, delivery, tmp_path)
    consumer.register()
    send(db, "a")
    for end in ENDS:

        def fail(event: Event, end: BaseException = end) -> None:
            raise end

        consumer.fail = fail
        with pytest.raises(EventError, match=rf"event \d+ of type t: {type(end).__name__}") as e:
            consumer.run_once()
        assert f"; raised at {__file__}:{fail.__code__.co_firstlineno + 1}" in e.value.detail
        if delivery is Delivery.AT_MOST_ONCE:
            return
    consumer.fail = None
    consumer.run_once()
    assert effects(db)[-1] == "a"


def test_a_batch_and_a_start_are_named(db: Database) -> None:
    class ByBatch(Consumer):
        queue, name = QUEUE, "by_batch"

        def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
            raise SystemExit(3)

    class Starting(Consumer):
        queue, name = QUEUE, "starting"

        def startup(self) -> None:
            raise SystemExit("no mail server")

        def process_event(self, event: Event, ctx: Context) -> None:
            raise AssertionError

    consumers = [ByBatch(db.dsn), Starting(db.dsn)]
    for consumer in consumers:
        consumer.register()
    send(db, "a")
    with pytest.raises(EventError, match="process_batch failed: SystemExit: 3"):
        consumers[0].run_once()
    with pytest.raises(LondisteError, match="startup failed: SystemExit: no mail server"):
        consumers[1].run()


def test_an_error_of_londiste_says_what_is_to_be_done(db: Database) -> None:
    class Misset(Consumer):
        queue, name = QUEUE, "misset"

        def process_batch(self, batch: Batch, events: Events, ctx: Context) -> None:
            raise BadOption("part_name is wrong", detail="no year", hint="correct part_name")

    consumer = Misset(db.dsn)
    consumer.register()
    send(db, "a")
    with pytest.raises(EventError) as caught:
        consumer.run_once()
    assert caught.value.message.endswith("batch 1: part_name is wrong")
    assert caught.value.hint.startswith("correct part_name; then restart the consumer: ")
    assert caught.value.detail.startswith("no year; ticks ")


class Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (Wordless(), "Wordless"),
        (SystemExit(1), "SystemExit: 1"),
        (ValueError("x" * 100_000), "ValueError: " + "x" * 2000 + "… (of 100,000 characters)"),
    ],
    ids=["its text fails", "an end", "very long"],
)
def test_the_limit_of_attempts_holds(db: Database, error: BaseException, reason: str) -> None:
    class Failing(Consumer):
        queue, name, max_attempts = QUEUE, "failing", 1

        def process_event(self, event: Event, ctx: Context) -> None:
            raise error

    consumer = Failing(db.dsn)
    consumer.register()
    send(db, "a")
    consumer.run_once()
    (letter,) = dead_letters.failed_event_list(db.connect(), QUEUE, "failing")
    assert letter.failed_reason == reason
