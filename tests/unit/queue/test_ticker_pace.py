"""Tick rate of a queue whose consumer is slower than the ticks."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from londiste.ticker.pace import SLOWEST, WINDOW, Pace, Standing, event_rate

LAG = 0.005


@dataclass
class Loop:
    """A queue with changes all the time, seconds as steps.

    speeds -- ticks that each consumer takes in a second.
    """

    speeds: dict[str, float]
    pace: Pace = field(default_factory=Pace)
    now: float = 0.0
    tick: float = 0.0
    stands: dict[str, float] = field(default_factory=dict)

    @property
    def wait(self) -> float:
        return self.pace.slowed.get("q", LAG)

    def behind(self, name: str) -> float:
        return self.tick - self.stands[name]

    def run(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.tick += 1 / self.wait
            for name, speed in self.speeds.items():
                self.stands[name] = min(self.tick, self.stands.get(name, 0.0) + speed)
            stands = {name: int(tick) for name, tick in self.stands.items()}
            self.pace.look([Standing("q", self.now, LAG, int(self.tick), 0, stands)])


@pytest.mark.parametrize("speed", [1.5, 20, 50, 120, 190])
def test_a_consumer_that_is_slower_than_the_ticks_comes_up_and_stays_near(speed: float) -> None:
    loop = Loop({"branch": speed, "leaf": 10_000})
    loop.run(1200)
    assert loop.behind("branch") < 2000
    farthest = 0.0
    for _ in range(600):
        loop.run(1)
        farthest = max(farthest, loop.behind("branch"))
    assert farthest < max(1000, 30 * speed), "it does not fall back for ever"


def test_a_consumer_that_gets_faster_gets_the_ticks_that_were_asked_for() -> None:
    loop = Loop({"branch": 20})
    loop.run(100)
    assert loop.wait > LAG
    loop.speeds["branch"] = 1000
    loop.run(60)
    assert loop.wait == LAG


def test_a_consumer_that_keeps_up_slows_nothing_down_however_rarely_it_looks() -> None:
    loop = Loop({"branch": 250})
    for round_ in range(100):
        loop.speeds["rare"] = 0 if round_ % 3 else 100_000
        loop.run(1)
        assert loop.wait == LAG


def test_consumers_that_stand_still_slow_nothing_down() -> None:
    loop = Loop({"branch": 250, "paused": 0})
    loop.run(100)
    assert loop.behind("paused") > 10_000
    assert loop.wait == LAG
    loop.speeds["branch"] = 0
    loop.run(100)
    assert loop.wait == LAG


def test_the_longest_wait_is_bounded_and_a_queue_that_is_gone_is_forgotten() -> None:
    loop = Loop({"branch": 0.4})
    loop.run(100)
    assert loop.wait == SLOWEST
    loop.pace.look([])
    assert not loop.pace.slowed and not loop.pace.lags


def test_nothing_is_decided_before_the_window_is_full() -> None:
    loop = Loop({"branch": 1.5})
    loop.run(WINDOW - 1)
    assert loop.wait == LAG
    loop.run(1)
    assert loop.wait > LAG


def test_the_rate_of_events_is_that_of_the_last_second_over_all_queues() -> None:
    pace = Pace()
    assert pace.events == 0
    pace.look([Standing("q", 10.0, LAG, 1, 1000, {}), Standing("r", 10.0, LAG, 1, 0, {})])
    assert pace.events == 0, "nothing to compare with"
    pace.look([Standing("q", 12.0, LAG, 9, 3000, {}), Standing("r", 12.0, LAG, 1, 50, {})])
    assert pace.events == 1025
    pace.look([Standing("q", 13.0, LAG, 9, 3000, {})])
    assert pace.events == 0


def test_a_sequence_that_was_set_back_and_a_clock_that_stands_are_no_events() -> None:
    def at(now: float, events: int) -> Standing:
        return Standing("q", now, LAG, 1, events, {})

    assert event_rate([at(1.0, 100), at(2.0, 50)]) == 0
    assert event_rate([at(1.0, 100), at(1.0, 500)]) == 0
