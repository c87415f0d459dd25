"""A rate is kept, whatever the blocks and the pauses are."""

from __future__ import annotations

import random

import pytest

from londiste.engine.throttle import BURST, Bucket


def carried(bucket: Bucket, blocks: list[int], start: float) -> float:
    """Sends the blocks as a pipe does; when the last one has gone."""
    now = start
    for block in blocks:
        bucket.take(block, now)
        now += bucket.wait(now)
    return now


def test_without_a_rate_nobody_waits() -> None:
    assert carried(Bucket(), [10**9] * 5, 0.0) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_what_goes_in_a_time_is_the_rate_and_at_most_the_burst_more(seed: int) -> None:
    chance = random.Random(seed)
    bucket = Bucket()
    bucket.set_rate(1000.0, 5.0)
    blocks = [chance.randint(1, 3000) for _ in range(200)]
    seconds = carried(bucket, blocks, 5.0) - 5.0
    assert sum(blocks) / 1000 - BURST <= seconds <= sum(blocks) / 1000 + 1e-6


def test_a_pause_saves_up_no_flood() -> None:
    bucket = Bucket()
    bucket.set_rate(1000.0, 0.0)
    seconds = carried(bucket, [1000] * 10, 3600.0) - 3600.0
    assert seconds == pytest.approx(10 - BURST)


def test_a_debt_is_paid_back_at_the_new_rate() -> None:
    bucket = Bucket()
    bucket.set_rate(100.0, 0.0)
    bucket.take(1000, 0.0)
    assert bucket.wait(0.0) == pytest.approx(10.0)
    bucket.set_rate(1000.0, 5.0)
    assert bucket.wait(5.0) == pytest.approx(0.5)
    bucket.set_rate(None, 5.0)
    assert bucket.wait(5.0) == 0.0


def test_a_new_limit_begins_without_debt() -> None:
    bucket = Bucket()
    bucket.take(10**9, 0.0)
    bucket.set_rate(1000.0, 1.0)
    assert bucket.wait(1.0) == 0.0
