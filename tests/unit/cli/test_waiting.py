"""Polling for a condition: at least once, until it is true or the time is over."""

from __future__ import annotations

from londiste.daemon.waiting import wait_until


def test_a_true_condition_is_polled_once() -> None:
    answers = iter([True])
    assert wait_until(lambda: next(answers), 60)


def test_polling_ends_when_the_condition_becomes_true() -> None:
    answers = iter([False, False, True])
    assert wait_until(lambda: next(answers), 60, poll=0.001)


def test_a_limit_of_zero_polls_once() -> None:
    answers = iter([False])
    assert not wait_until(lambda: next(answers), 0)
