"""When a standby is read, waited for and tried again; what proves that it is one."""

from __future__ import annotations

from londiste.standby import health as states
from londiste.standby.health import Health
from londiste.standby.server import Server, refusal
from londiste.standby.ticks import verdict

PROVIDER = Server(7, 5, in_recovery=False)


def test_a_new_standby_is_asked_and_waited_for() -> None:
    assert Health().usable
    assert states.may_ask(Health(), 0.0)
    assert states.patience(Health(), 2.0) == 2.0


def test_one_that_lags_is_asked_for_each_batch_and_not_waited_for() -> None:
    late = states.lags(Health(), 10.0, "it lags")
    assert not late.usable
    assert states.may_ask(late, 10.0)
    assert states.patience(late, 2.0) == 0.0
    assert states.lags(late, 20.0, "it lags").since == 10.0


def test_one_that_fails_is_asked_at_growing_distances() -> None:
    health, pauses = Health(), []
    for _ in range(8):
        health = states.failed(health, 100.0, "it is down", 20.0)
        pauses.append(health.retry_at - 100.0)
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0, 20.0]
    assert not states.may_ask(health, 119.9)
    assert states.may_ask(health, 120.0)
    assert health.since == 100.0
    assert states.answers() == Health()


def test_a_failure_is_a_finding_after_a_minute() -> None:
    down = states.failed(Health(), 100.0, "it is down", 20.0)
    assert states.finding(down, 159.0) == ""
    assert states.finding(states.lags(down, 159.0, "it lags"), 160.0) == "it lags"
    assert states.finding(Health(), 1000.0) == ""


def test_only_a_standby_of_the_database_is_read() -> None:
    assert refusal(PROVIDER, Server(7, 5, in_recovery=True)) == ""
    assert "another server" in refusal(PROVIDER, Server(8, 5, in_recovery=True))
    assert "not the database" in refusal(PROVIDER, Server(7, 6, in_recovery=True))
    assert "no standby" in refusal(PROVIDER, PROVIDER)


def test_both_ticks_of_a_batch_have_to_be_there() -> None:
    def of(recovery: bool, first: bool, last: bool, other: bool = False) -> str | None:
        return verdict(recovery, first, last, other)

    assert of(True, True, True) == ""
    assert of(True, True, False) is None
    assert of(True, False, False) is None
    assert "lost the tick" in str(of(True, False, True))
    assert "another tick" in str(of(True, True, True, True))
    assert "promoted" in str(of(False, True, True))
