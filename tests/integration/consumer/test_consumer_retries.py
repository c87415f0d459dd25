"""Retries and dead letters of consumers under every delivery contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from londiste import Context, Dead, Delivery, Event, Retry
from londiste.errors import (
    EventError,
)
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


@pytest.mark.parametrize("delivery", [d for d in ALL if d.may_bury])
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
