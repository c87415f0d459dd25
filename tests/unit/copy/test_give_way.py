"""Copies give way to writers: what becomes of the rate, with simulated servers."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from londiste.copy.load_throttle import (
    FLOOR,
    WRITERS,
    CommitHistory,
    Commits,
    LoadLimit,
    calm,
    give_way,
)

MB = 1_000_000
#: Bytes per second of copies that nothing holds back.
FULL = 100 * MB


@dataclass
class Run:
    """The rates of a simulated copy, one per check."""

    rates: list[float]
    reasons: list[str]

    def share(self, begin: int = 0, end: int | None = None) -> float:
        """Of the full rate, on average."""
        part = self.rates[begin:end]
        return sum(part) / len(part) / FULL


def simulate(
    checks: int,
    usual: float,
    commit: Callable[[int, float], float],
    others: Callable[[int], float] = lambda check: 1000.0,
    full: float = FULL,
) -> Run:
    """Runs the decisions against a server.

    usual -- seconds of a commit before the first chunk, as measured.
    commit -- seconds of a commit by the number of the check and the rate of the copies.
    """
    history = CommitHistory(usual)
    held: LoadLimit | None = None
    run = Run([], [])
    rate = full
    for check in range(checks):
        now = Commits(commit(check, rate), others(check))
        history = history.after(now, calm=calm(held, rate))
        held = give_way(held, rate, history, now, "p")
        # Tasks obey with the next check.
        rate = min(full, held.rate) if held else full
        run.rates.append(rate)
        run.reasons.append(held.reason if held else "")
    return run


def contended(base: float, share: float) -> Callable[[int, float], float]:
    """A server on which copies at the full rate add ``share`` of the usual time."""
    return lambda check, rate: base * (1 + share * rate / FULL)


def test_writers_that_wait_make_copies_slower_until_they_wait_no_more() -> None:
    run = simulate(300, 0.002, contended(0.002, 4.0))
    waits = [0.002 * (1 + 4 * rate / FULL) for rate in run.rates[20:]]
    assert sum(waits) / len(waits) < 0.002 * 1.6 + 0.0005
    # They take what is left over.
    assert run.share(20) > 0.08
    assert "writers of p wait 10.0 ms for a commit, 2.0 ms before" in run.reasons[1]
    assert "londiste copy throttle --full-speed" in run.reasons[1]


def test_a_single_slow_check_is_noise() -> None:
    run = simulate(50, 0.002, lambda check, rate: 0.05 if check % 4 == 0 else 0.002)
    assert run.share() == 1.0


@pytest.mark.parametrize("others", [0.0, WRITERS / 2, WRITERS])
def test_a_source_without_writers_has_full_speed(others: float) -> None:
    run = simulate(100, 0.0001, contended(0.0001, 100.0), lambda check: others)
    assert run.share() == 1.0


def test_copies_that_disturb_nobody_have_full_speed() -> None:
    assert simulate(100, 0.002, contended(0.002, 0.4)).share() == 1.0


def test_the_end_of_the_writers_is_full_speed_at_once() -> None:
    run = simulate(60, 0.002, contended(0.002, 9.0), lambda check: 1000.0 if check < 30 else 0.0)
    assert run.share(20, 30) < 0.4
    assert run.share(31) == 1.0


@pytest.mark.parametrize("factor", [2.0, 10.0, 1000.0])
def test_a_usual_time_that_was_measured_too_low_is_corrected(factor: float) -> None:
    run = simulate(200, 0.005 / factor, contended(0.005, 0.2))
    assert run.share(60) > 0.9


def test_a_server_that_becomes_slower_by_itself_does_not_hold_copies_down() -> None:
    # A backup begins: it is not the copies that writers wait for.
    run = simulate(200, 0.001, lambda check, rate: 0.001 if check < 20 else 0.02)
    assert run.share(60) == 1.0


def test_a_server_that_becomes_slower_all_the_time_does_not_hold_copies_down() -> None:
    run = simulate(400, 0.001, lambda check, rate: 0.001 * 1.005**check)
    assert run.share() > 0.7


def test_a_usual_time_that_was_measured_too_high_sinks_with_faster_commits() -> None:
    history = CommitHistory(0.02)
    for _ in range(100):
        history = history.after(Commits(0.004, 1000.0), calm=False)
    assert 0.004 <= history.usual < 0.006


@pytest.mark.parametrize(("noise", "least"), [(0.1, 0.99), (0.25, 0.85), (0.5, 0.5)])
@pytest.mark.parametrize("seed", range(10))
def test_noise_alone_costs_little(seed: int, noise: float, least: float) -> None:
    dice = random.Random(seed)
    run = simulate(
        600,
        0.004,
        lambda check, rate: 0.004 * dice.lognormvariate(0, noise) * (1 + rate / FULL / 5),
    )
    assert run.share() > least


@pytest.mark.parametrize("seed", range(20))
def test_whatever_commits_take_copies_end(seed: int) -> None:
    dice = random.Random(seed)
    run = simulate(
        600,
        0.001,
        lambda check, rate: dice.choice((0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)),
        lambda check: dice.choice((0.0, 100.0, 10_000.0)),
    )
    assert min(run.rates) >= FULL / 16 - 1
    assert run.share() > 0.15


def test_slow_copies_are_not_slowed_down_below_the_floor() -> None:
    run = simulate(50, 0.001, lambda check, rate: 0.1, full=FLOOR)
    assert min(run.rates) >= FLOOR


def test_a_copy_that_moves_nothing_is_not_throttled() -> None:
    history = CommitHistory(0.001, 1)
    now = Commits(0.1, 1000.0)
    assert calm(None, 0.0)
    assert give_way(None, 0.0, history.after(now, calm=True), now, "p") is None


def test_a_load_above_its_limit_outlasts_the_writers() -> None:
    # The limit of sessions has slowed the copies down: they come back step by step.
    held = LoadLimit(FLOOR, FULL, "sessions")
    found = give_way(held, FLOOR, CommitHistory(0.001), Commits(0.001, 0.0), "p")
    assert found == LoadLimit(FLOOR * 5 // 4, FULL, "sessions")
