"""The time that a copy still takes, from the chunks that are finished."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from londiste.copy.eta import ChunkTimes, remaining, student


def times(seconds: list[float]) -> ChunkTimes:
    deviation = statistics.stdev(seconds) if len(seconds) > 1 else None
    return ChunkTimes(len(seconds), 1000 * len(seconds), sum(seconds), deviation)


def test_without_a_finished_chunk_nothing_is_said() -> None:
    assert remaining(ChunkTimes(0, 0, 0.0, None), 5, 2) is None


def test_one_finished_chunk_gives_a_time_and_no_band() -> None:
    found = remaining(times([4.0]), 10, 2)
    assert found is not None
    assert (found.seconds, found.low, found.high) == (20.0, None, None)


def test_equal_chunks_leave_no_doubt() -> None:
    found = remaining(times([2.0, 2.0, 2.0]), 6, 3)
    assert found is not None
    assert (found.seconds, found.low, found.high) == (4.0, 4.0, 4.0)


def test_two_tasks_in_the_middle_of_the_last_chunks_share_what_is_left() -> None:
    found = remaining(times([2.0, 2.0]), 1, 2)
    assert found is not None
    assert found.seconds == 1.0


def test_the_band_is_narrower_the_more_chunks_are_finished() -> None:
    few, many = remaining(times([1.0, 3.0] * 2), 10, 1), remaining(times([1.0, 3.0] * 50), 10, 1)
    assert few and many and few.high and many.high
    assert few.seconds == many.seconds
    assert many.high < few.high


@pytest.mark.parametrize("finished", [2, 3, 5, 20])
def test_nine_of_ten_copies_end_within_the_band(finished: int) -> None:
    chance = random.Random(finished)
    inside = 0
    for _ in range(2000):
        chunks = [chance.gauss(10, 2) for _ in range(finished + 30)]
        found = remaining(times(chunks[:finished]), 30, 1)
        assert found and found.low is not None and found.high is not None
        inside += found.low <= sum(chunks[finished:]) <= found.high
    assert 0.87 < inside / 2000 < 0.93


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 6.3138), (2, 2.9200), (3, 2.3534), (4, 2.1318), (10, 1.8125), (100, 1.6602)],
)
def test_the_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert math.isclose(student(0.95, freedom), quantile, rel_tol=0.01)
