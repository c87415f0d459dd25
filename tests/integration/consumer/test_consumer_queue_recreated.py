"""Consumers whose queue or database was created again notice it by position and batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from londiste import Delivery
from londiste.errors import (
    PositionLost,
)
from tests.fixtures.cluster import Database
from tests.support.consumer_steps import (
    effects,
    make,
    send,
)


def anew(db: Database) -> None:
    """The queue dropped and made again under its name, as far along as before."""
    db.execute("select pgq.drop_queue('q', true)")
    db.execute("select pgq.create_queue('q')")
    db.execute("select pgq.register_consumer_at('q', 'storing', 1)")


@pytest.mark.parametrize("delivery", [Delivery.EXACTLY_ONCE_ELSEWHERE, Delivery.LOCAL_FILE])
def test_recreated_queue_with_the_same_ticks_is_detected(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    consumer = make(db, delivery, tmp_path)
    consumer.register()
    send(db, "a")
    assert consumer.run_once() == 1
    anew(db)
    # Tick 2 again: by its number it is done.
    send(db, "b")
    with pytest.raises(PositionLost) as caught:
        consumer.run_once()
    assert caught.value.detail == "the queue was dropped and created again"
    assert "--reset" in (caught.value.hint or "")
    assert effects(db) == ["a"]
    assert consumer.reset() == 1
    assert consumer.run_once() == 1
    assert effects(db) == ["a", "b"]


@pytest.mark.parametrize("delivery", [Delivery.EXACTLY_ONCE_ELSEWHERE, Delivery.LOCAL_FILE])
def test_running_consumer_detects_a_recreated_queue_by_the_batch(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    consumer = make(db, delivery, tmp_path)
    consumer.register()
    send(db, "a")
    assert consumer.work()
    anew(db)
    send(db, "b")
    with pytest.raises(PositionLost, match="does not belong to queue q"):
        consumer.work()
    consumer.close()
    assert effects(db) == ["a"]


@pytest.mark.parametrize(
    "delivery", [Delivery.EXACTLY_ONCE_ELSEWHERE, Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH]
)
def test_a_name_serves_one_queue_in_a_database_of_effects(
    db: Database, tmp_path: Path, delivery: Delivery
) -> None:
    consumer = make(db, delivery, tmp_path)
    consumer.register()
    send(db, "a")
    assert consumer.run_once() == 1
    db.execute("select pgq.create_queue('r')")
    db.execute("select pgq.register_consumer_at('r', 'storing', 1)")
    db.execute("select pgq.insert_event('r', 't', 'b')")
    db.execute("select pgq.force_tick('r'); select pgq.ticker('r')")
    other = make(db, delivery, tmp_path, queue_name="r")
    with pytest.raises(PositionLost, match="does not belong to queue r"):
        other.run_once()
    assert effects(db) == ["a"]


def test_equal_batch_number_of_a_recreated_database_is_detected(
    db: Database, tmp_path: Path
) -> None:
    consumer = make(db, Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH, tmp_path)
    consumer.register()
    send(db, "a")
    assert consumer.run_once() == 1
    anew(db)
    db.execute("select setval('pgq.batch_id_seq', 1, false)")
    send(db, "b")
    with pytest.raises(PositionLost, match="does not belong to queue q"):
        consumer.run_once()
    assert effects(db) == ["a"]
