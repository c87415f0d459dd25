"""Whether a position stored elsewhere still belongs to the queue: decided without a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from londiste.errors import PositionLost
from londiste.pgq.position_check import (
    KnownPosition,
    PositionFacts,
    decide,
    forgotten,
    last_common_tick,
    prove,
)

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
OLD, NEW = uuid4(), uuid4()
KNOWN = KnownPosition("provider", OLD, 7, 100, NOON)
SAME = PositionFacts(OLD, None, 7, 100, NOON, 1, 120)


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (SAME, None),
        # The batch was applied, and not finished at the provider.
        (replace(SAME, finished_tick=99), None),
        (replace(SAME, generation=NEW), "the queue was dropped and created again"),
        (replace(SAME, generation=NEW, valid_until=100), None),
        (replace(SAME, generation=NEW, valid_until=99), "restored from a dump that ends at"),
        (replace(SAME, last_tick=99, tick_time=None), "it is older than the data"),
        (replace(SAME, last_tick=None, first_tick=None, tick_time=None), "older than the data"),
        (replace(SAME, tick_time=NOON.replace(hour=13)), "tick 100 is another tick"),
        (replace(SAME, registration=None, finished_tick=None), "not registered any more"),
        (replace(SAME, registration=8, finished_tick=110), "registered again, at tick 110"),
        (replace(SAME, registration=8, finished_tick=100), None),
    ],
)
def test_a_position_is_valid_where_number_and_history_agree(
    facts: PositionFacts, reason: str | None
) -> None:
    found = decide(KNOWN, facts, 100)
    assert found is None if reason is None else reason in (found or "")


def test_the_time_of_another_tick_says_nothing() -> None:
    assert (
        decide(replace(KNOWN, tick=90), replace(SAME, tick_time=NOON.replace(hour=9)), 100) is None
    )


def test_another_source_has_the_same_tick_or_another_history() -> None:
    known = replace(KNOWN, source="other", generation=NEW)
    other = replace(SAME, tick_time=NOON.replace(hour=13))
    with pytest.raises(PositionLost) as lost:
        prove("q", "c", "provider", 100, known, other, hint="do")
    assert lost.value.detail.startswith("tick 100 is another tick: created at")
    # The time of another tick says nothing, and a tick that is gone neither.
    for accepted in (replace(known, tick=99), known):
        facts = other if accepted.tick == 99 else replace(other, tick_time=None)
        assert prove("q", "c", "provider", 100, accepted, facts, hint="do") is not None


def test_the_first_time_and_at_another_source_things_are_taken_as_they_are() -> None:
    for known in (None, replace(KNOWN, source="other", generation=NEW)):
        proved = prove("q", "c", "provider", 100, known, SAME, hint="do")
        assert proved == KNOWN
    assert prove("q", "c", "p", 100, None, replace(SAME, registration=None), hint="do") is None


@pytest.mark.parametrize(
    ("known", "facts", "expected"),
    [
        (KNOWN, replace(SAME, finished_tick=90), True),
        (KNOWN, replace(SAME, finished_tick=99), True),
        (KNOWN, SAME, False),
        (KNOWN, replace(SAME, finished_tick=101), False),
        (KNOWN, replace(SAME, finished_tick=None, registration=None), False),
        (KNOWN, replace(SAME, finished_tick=90, registration=8), False),
        (KNOWN, replace(SAME, finished_tick=90, generation=NEW, valid_until=100), False),
        (KNOWN, replace(SAME, finished_tick=90, tick_time=NOON.replace(hour=13)), False),
        (KNOWN, replace(SAME, finished_tick=90, tick_time=None), False),
        (replace(KNOWN, tick=95), replace(SAME, finished_tick=90), False),
        (replace(KNOWN, source="other"), replace(SAME, finished_tick=90), False),
        (None, replace(SAME, finished_tick=90), False),
    ],
)
def test_a_queue_has_forgotten_only_what_is_proved_to_be_in_the_data(
    known: KnownPosition | None, facts: PositionFacts, expected: bool
) -> None:
    assert forgotten(known, facts, "provider", 100) is expected


def test_a_lost_position_says_why_and_what_to_do() -> None:
    with pytest.raises(PositionLost) as lost:
        prove("q", "c", "provider", 100, KNOWN, replace(SAME, generation=NEW), hint="do this")
    assert (
        lost.value.detail == "the queue was dropped and created again"
        and lost.value.hint == "do this"
    )
    assert lost.value.exit_code == 3


@pytest.mark.parametrize(
    ("facts", "last"),
    [
        (SAME, 99),
        (replace(SAME, last_tick=90), 90),
        (replace(SAME, generation=NEW, valid_until=80), 80),
        (replace(SAME, last_tick=None), 0),
    ],
)
def test_a_lost_position_has_no_tick_in_common_past_this_one(
    facts: PositionFacts, last: int
) -> None:
    assert last_common_tick(facts, 100) == last
