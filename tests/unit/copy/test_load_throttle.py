"""How far copies are held back by the load of the servers."""

from __future__ import annotations

from londiste.copy.load_throttle import FLOOR, Limits, Load, LoadLimit, complaint, decide

MB = 1_000_000


def test_nothing_is_wrong_within_the_limits_or_without_any() -> None:
    busy = Load("p", 100, 60.0)
    assert not Limits().loads
    assert complaint(Limits(), busy, busy) == ""
    assert complaint(Limits(100, 60.0), busy, busy) == ""


def test_the_complaint_names_the_load_and_its_limit() -> None:
    calm = Load("here", 0, 0.0)
    assert complaint(Limits(9, 0), Load("p", 10, 0), calm) == (
        "p: 10 active sessions, above copy_max_source_sessions (9)"
    )
    for source, target in ((Load("a", 0, 7.5), calm), (calm, Load("b", 0, 7.5))):
        assert "standby lag is 7.5 s, above copy_max_replica_lag (5)" in complaint(
            Limits(0, 5.0), source, target
        )
    # The sessions of this node's server are nobody's business.
    assert complaint(Limits(9, 0), calm, Load("here", 100, 0.0)) == ""


def test_the_rate_is_halved_down_to_the_floor_and_comes_back() -> None:
    held = decide(None, 80 * MB, "busy")
    assert held == LoadLimit(40 * MB, 80 * MB, "busy")
    for _ in range(20):
        held = decide(held, held.rate if held else 0, "busy")
    assert held == LoadLimit(FLOOR, 80 * MB, "busy")
    looks = 0
    while held is not None:
        before, held, looks = held, decide(held, 0, ""), looks + 1
        assert held is None or before.rate < held.rate < held.full
    assert looks < 40


def test_copies_that_move_nothing_are_not_held_back_for_ever() -> None:
    held = decide(None, 0.0, "busy")
    assert held == LoadLimit(FLOOR, FLOOR, "busy")
    assert decide(held, 0.0, "") is None
