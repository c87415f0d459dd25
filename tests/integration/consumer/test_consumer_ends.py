"""A function that raises what ends a program fails at its event, as with any other error."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from londiste import Batch, Consumer, Context, Delivery, Event, Events
from londiste.errors import EventError, LondisteError
from londiste.pgq import dead_letters
from tests.fixtures.cluster import Database
from tests.support.consumer_steps import ALL, QUEUE, effects, make, send

ENDS = [SystemExit(0), GeneratorExit(), asyncio.CancelledError("by a library")]


@pytest.mark.parametrize("delivery", ALL)
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
