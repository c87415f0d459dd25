"""Offsets of a stream, and how a batch is cut into parts."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from londiste.engine.spark.stream import offsets
from londiste.engine.spark.stream.offsets import BEFORE_SNAPSHOT, Offset, TickOf
from londiste.errors import StateError
from londiste.pgq.types import Tick

START = datetime(2026, 1, 1, tzinfo=UTC)


def ticks(*seqs: int) -> list[Tick]:
    return [
        Tick(n, START + timedelta(seconds=n), seq, f"{seq + 1}:{seq + 1}:")
        for n, seq in enumerate(seqs, 1)
    ]


def test_an_offset_is_read_as_it_was_written() -> None:
    for offset in (
        BEFORE_SNAPSHOT,
        Offset(7),
        Offset(7, START, UUID(int=5)),
        Offset(7, START, UUID(int=5), "3:9:4"),
        Offset(7, START, UUID(int=5), "", 99, (("id", "int"), ("n", "decimal(9,2)"))),
    ):
        assert offsets.read(offsets.write(offset)) == offset
    with pytest.raises(StateError, match="offset of another source"):
        offsets.read({"partition": 3})


def test_a_changed_type_is_a_difference_and_a_new_column_is_none() -> None:
    old = (("id", "int"), ("n", "decimal(38,18)"), ("gone", "string"))
    assert (
        offsets.changed_types(old, (("n", "decimal(38,18)"), ("id", "int"), ("new", "int"))) == []
    )
    assert offsets.changed_types(old, (("id", "int"), ("n", "string"))) == [
        ("n", "decimal(38,18)", "string")
    ]
    # Offsets of earlier releases have none.
    assert offsets.changed_types(None, (("n", "string"),)) == []


def test_the_parts_of_a_batch_hold_every_event_once() -> None:
    chance = random.Random(1)
    for _ in range(300):
        steps = [chance.choice([0, 1, 5, 1000]) for _ in range(chance.randint(1, 9))]
        found = ticks(*[sum(steps[:n]) for n in range(len(steps) + 1)])
        parts = offsets.slices(found, chance.randint(1, 6), worth=chance.choice([1, 10]))
        # An event of a tick, with an id that may be that of a tick long before.
        for tick in found[1:]:
            for event in {chance.randint(1, tick.seq + 1), tick.seq}:
                holders = [
                    part
                    for part in parts
                    if tick in part.ticks[1:]
                    and (part.first_id is None or event >= part.first_id)
                    and (part.last_id is None or event < part.last_id)
                ]
                assert len(holders) == 1, (found, parts, tick, event)
    assert offsets.slices(found[:1], 4) == []
    assert len(offsets.slices(ticks(0, 100_000), 4)) == 4
    assert len(offsets.slices(ticks(*range(0, 100_001, 1000)), 4)) == 4


def test_an_event_came_with_the_first_tick_that_sees_its_transaction() -> None:
    made = [
        Tick(n, START, 0, text) for n, text in enumerate(["5:5:", "5:9:5,7", "7:12:7", "20:20:"], 1)
    ]
    tick_of = TickOf(made)
    assert [tick_of(txid).id for txid in (6, 8, 5, 10, 7, 13, 6)] == [2, 2, 3, 3, 4, 4, 2]


def test_what_was_seen_is_forgotten_when_nothing_of_it_can_come() -> None:
    before = Offset(1, START, None, "50:60:52")
    early, late = Tick(2, START, 0, "55:70:"), Tick(3, START, 0, "60:70:")
    assert offsets.at(early, None, before).seen == "50:60:52"
    assert offsets.at(late, None, before).seen == ""
