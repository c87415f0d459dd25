"""Ticker schedule: due actions, computed without a clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from londiste.ticker.schedule import (
    SHORTEST_LOOK,
    Task,
    due,
    due_pause,
    look_pause,
    pause,
    ticking_share,
)

PERIODS = {Task.TICK: 1.0, Task.RETRY: 30.0, Task.MAINTENANCE: 120.0}


def test_at_the_start_everything_is_due_in_order() -> None:
    assert due(0.0, {}, PERIODS) == [Task.TICK, Task.RETRY, Task.MAINTENANCE]
    assert pause(0.0, {}, PERIODS) == 0.0


def test_a_task_is_due_when_its_period_is_over() -> None:
    last = {Task.TICK: 10.0, Task.RETRY: 10.0, Task.MAINTENANCE: 10.0}
    assert due(10.99, last, PERIODS) == []
    assert due(11.0, last, PERIODS) == [Task.TICK]
    assert due(40.0, last, PERIODS) == [Task.TICK, Task.RETRY]


def test_a_task_without_a_period_is_never_due() -> None:
    assert Task.STATISTICS not in due(1e9, {}, PERIODS)


times = st.floats(0, 1e6, allow_nan=False)


@given(now=times, last=st.dictionaries(st.sampled_from(list(PERIODS)), times))
def test_after_the_pause_something_is_due_and_before_it_nothing(
    now: float, last: dict[Task, float]
) -> None:
    wait = pause(now, last, PERIODS)
    assert wait >= 0
    assert due(now + wait, last, PERIODS)
    if wait > 0.01:
        assert due(now + wait - 0.01, last, PERIODS) == []


def simulate(seconds: float, cost: float) -> dict[Task, int]:
    now, last, runs = 0.0, dict[Task, float](), dict.fromkeys(PERIODS, 0)
    while now < seconds:
        for task in due(now, last, PERIODS):
            last[task], runs[task] = now, runs[task] + 1
            now += cost
        now += pause(now, last, PERIODS)
    return runs


def test_slow_work_delays_but_does_not_pile_up() -> None:
    assert simulate(600, cost=0.01) == {Task.TICK: 600, Task.RETRY: 20, Task.MAINTENANCE: 5}
    slow = simulate(600, cost=2.0)
    assert 250 <= slow[Task.TICK] <= 300


def test_without_queues_a_look_comes_once_a_period() -> None:
    assert look_pause(1.0, None, 0.0, 0.0) == 1.0


def test_patient_queues_are_looked_at_once_a_period_and_impatient_ones_twice_a_lag() -> None:
    assert look_pause(1.0, 3.0, 0.0, 0.0) == 1.0
    assert look_pause(1.0, 0.2, 0.0, 0.0) == 0.1
    assert look_pause(1.0, 0.003, 0.0, 0.0) == SHORTEST_LOOK
    assert look_pause(1.0, 0.0, 0.0, 0.0) == SHORTEST_LOOK


def test_after_a_tick_the_next_is_not_looked_for_before_it_can_be_due() -> None:
    assert look_pause(1.0, 0.2, 0.0, 0.0, ticked=True) == 0.2
    assert look_pause(1.0, 0.2, 0.0, 0.01, ticked=True) == 0.2 - 0.01


def test_a_short_period_is_kept_whatever_the_queues_want() -> None:
    assert look_pause(0.001, 3.0, 1e9, 0.0) == 0.001


def test_looking_at_many_queues_does_not_fill_the_time() -> None:
    assert look_pause(1.0, 0.01, 0.0, took=0.1) == 0.4


def test_a_tick_that_waited_for_the_disk_holds_up_the_next_for_as_long_at_most() -> None:
    assert look_pause(1.0, 0.02, 0.0, took=0.015, ticked=True) == pytest.approx(0.015)
    assert look_pause(1.0, 0.02, 0.0, took=0.002, ticked=True) == pytest.approx(0.018)


def test_a_tick_under_load_takes_little_of_the_time_and_costs_a_tenth_of_a_second_at_most() -> None:
    def rest(events: float, took: float = 0.002) -> float:
        return look_pause(1.0, 0.005, 0.0, took, ticked=True, events=events)

    assert rest(0) == rest(200) == pytest.approx(0.003), "a few writers: as if there were none"
    assert rest(1_000) == pytest.approx(0.014)
    assert rest(5_000) == rest(1e9) == pytest.approx(0.038)
    assert rest(5_000, took=0.03) == 0.1, "a slow disk does not delay events for long"
    assert rest(5_000, took=0.3) == rest(0, took=0.3) == pytest.approx(0.3)
    # A queue that is patient anyway is not concerned.
    assert look_pause(1.0, 0.5, 0.0, 0.002, ticked=True, events=5_000) == pytest.approx(0.498)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_more_events_never_leave_more_time_for_ticks(one: float, other: float) -> None:
    fewer, more = sorted([one, other])
    assert 0.05 <= ticking_share(more) <= ticking_share(fewer) <= 0.5


@given(
    quiet=st.floats(0, 1e6, allow_nan=False),
    longer=st.floats(0, 1e6, allow_nan=False),
    lag=st.floats(0, 100),
)
def test_the_longer_it_is_quiet_the_rarer_the_looks_and_never_rarer_than_a_period(
    quiet: float, longer: float, lag: float
) -> None:
    first, later = (look_pause(1.0, lag, q, 0.0) for q in (quiet, quiet + longer))
    assert SHORTEST_LOOK <= first <= later <= 1.0
    assert look_pause(1.0, lag, 20.0, 0.0) == 1.0


def looks(seconds: float, lag: float, period: float = 1.0) -> int:
    """How often queues are looked at in a quiet time."""
    quiet, count = 0.0, 0
    while quiet < seconds:
        quiet += look_pause(period, lag, quiet, 0.0)
        count += 1
    return count


def test_a_quiet_night_costs_little_more_than_with_patient_queues() -> None:
    assert looks(3600, lag=3.0) == 3600
    assert looks(3600, lag=0.005) < 3600 + 200


def test_an_event_that_is_due_soon_shortens_the_pause() -> None:
    assert due_pause(1.0, None) == 1.0
    assert due_pause(1.0, 3600.0) == 1.0
    assert due_pause(1.0, 0.25) == 0.25
    assert due_pause(1.0, 0.0) == SHORTEST_LOOK
