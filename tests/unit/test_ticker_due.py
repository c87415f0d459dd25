"""When a ticker does what: decided without a clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from londiste.ticker.schedule import Task, due, pause

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
