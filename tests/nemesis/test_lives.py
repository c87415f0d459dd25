"""Lives of the fault machine: a few by default, hundreds in the slow suite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nemesis import coverage, mutation
from tests.nemesis.plan import MIGRATING, NEWER, plan
from tests.nemesis.runner import live
from tests.nemesis.stage import Stage

#: Seconds after which no further life begins in the default suite.
_ENOUGH = 4.0


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("nemesis"))
    yield made
    made.close()


def _run(stage: Stage, lives: range, log: Path, seconds: float = 0.0) -> coverage.Covered:
    began = time.monotonic()
    wrong = []
    for number in lives:
        outcome = live(stage, plan(number))
        coverage.append(log, outcome)
        if outcome.wrong:
            told = "\n".join([*outcome.wrong, *outcome.log])
            wrong.append(f"life {number}: {told}")
        if seconds and time.monotonic() - began > seconds:
            break
    covered = coverage.read(log)
    print(coverage.table(covered))
    assert not wrong, "\n\n".join(wrong)
    return covered


def test_a_few_lives(stage: Stage, tmp_path: Path) -> None:
    covered = _run(stage, range(1, 21), tmp_path / "log", _ENOUGH)
    assert covered.transactions and covered.looks


@pytest.mark.slow
def test_a_life_with_a_lost_root_that_returns(stage: Stage, tmp_path: Path) -> None:
    one = plan(NEWER, wanted=[("", "return", "")], steps=1)
    assert [step["do"] for step in one.steps] == ["takeover", "return"]
    outcome = live(stage, one)
    assert not outcome.wrong, "\n".join([*outcome.wrong, *outcome.log])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "first",
    [
        *range(1000, 1500, 50),
        *range(NEWER, NEWER + 250, 50),
        *range(MIGRATING, MIGRATING + 100, 50),
    ],
)
def test_hundreds_of_lives(stage: Stage, tmp_path: Path, first: int) -> None:
    _run(stage, range(first, first + 50), tmp_path / "log")


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_every_planted_defect_is_caught(stage: Stage, tmp_path: Path) -> None:
    assert mutation.run(stage, [], 20, 1, tmp_path / "log") == 0
