"""Steps: a completed step is not repeated after an interruption."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from londiste.errors import BadOption
from londiste.orchestration import steps as plan
from londiste.orchestration.connections import Connections, reach


@dataclass
class World:
    """Which steps have had their effect, and how often each was run."""

    done: set[int] = field(default_factory=set)
    runs: list[int] = field(default_factory=list)
    dies_after: int | None = None


class Killed(Exception):
    pass


@dataclass(frozen=True)
class Numbered:
    world: World
    number: int

    def describe(self) -> str:
        return f"node: step {self.number}"

    def done(self, sites: Connections) -> bool:
        return self.number in self.world.done

    def run(self, sites: Connections) -> None:
        assert all(before in self.world.done for before in range(self.number))
        self.world.runs.append(self.number)
        self.world.done.add(self.number)
        if self.world.dies_after == self.number:
            self.world.dies_after = None
            raise Killed


SITES = Connections(name="nobody")


@given(count=st.integers(1, 8), deaths=st.lists(st.integers(0, 7), max_size=4))
def test_an_interrupted_command_is_finished_when_given_again(count: int, deaths: list[int]) -> None:
    world = World()
    steps = [Numbered(world, n) for n in range(count)]
    for death in deaths:
        world.dies_after = death
        try:
            plan.execute(steps, SITES)
        except Killed:
            continue
    world.dies_after = None
    plan.execute(steps, SITES)
    assert world.runs == list(range(count))


def test_what_is_done_is_neither_explained_nor_reported() -> None:
    world = World(done={0, 2})
    steps = [Numbered(world, n) for n in range(3)]
    assert [s.describe() for s in plan.remaining(steps, SITES)] == ["node: step 1"]
    reported: list[str] = []
    assert plan.execute(steps, SITES, lambda step: reported.append(step.describe())) == 1
    assert reported == ["node: step 1"]


def test_explaining_runs_nothing() -> None:
    world = World()
    plan.remaining([Numbered(world, n) for n in range(3)], SITES)
    assert world.runs == []


def test_extra_parameters_are_added_to_a_location() -> None:
    assert reach("host=a dbname=b", "") == "host=a dbname=b"
    assert set(reach("host=a dbname=b", "user=u").split()) == {"host=a", "dbname=b", "user=u"}
    with pytest.raises(BadOption):
        reach("host=a", "nonsense")
