"""Work that begins on this host and moves over to Spark: when, and that each task runs once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from londiste import engine
from londiste.engine.local.engine import LocalEngine
from londiste.engine.local_first import WORTH, WORTH_HERE, LocalFirst, worth_starting
from londiste.errors import LondisteError, SparkUnavailable
from tests.support.waiting import wait_for


@pytest.mark.parametrize(
    ("left", "done", "running", "seconds", "busy", "elsewhere", "here"),
    [
        # 400 MB in four chunks of 2.5 s, two at a time.
        (2, 0, 2, 2.4, 2.4, False, False),
        (0, 2, 2, 2.6, 2.6, False, False),
        # 2 GB in 16 such chunks.
        (14, 0, 2, 1.0, 1.0, True, False),
        # 10 GB in 80 such chunks.
        (78, 0, 2, 1.0, 1.0, True, True),
        # Chunks of a slow network.
        (2, 0, 2, 5.5, 5.5, True, False),
        # Whatever is to come, nothing can be moved over.
        (0, 0, 2, 1000.0, 1000.0, False, False),
        # One table after the other, each of which ends soon.
        (4, 4, 2, 1.0, 29.0, False, False),
        (4, 4, 2, 1.0, 31.0, True, False),
        (4, 4, 2, 1.0, 181.0, True, True),
    ],
)
def test_spark_starts_when_the_rest_is_worth_its_start(
    left: int, done: int, running: int, seconds: float, busy: float, elsewhere: bool, here: bool
) -> None:
    facts = (left, done, running, seconds, busy)
    assert (worth_starting(*facts, WORTH), worth_starting(*facts, WORTH_HERE)) == (elsewhere, here)


@pytest.mark.parametrize(
    ("settings", "seconds"),
    [
        ({}, WORTH_HERE),
        ({"spark.master": "local[4]"}, WORTH_HERE),
        ({"spark.master": "spark://master:7077"}, WORTH),
        ({"spark.master": "local-cluster[2,1,1024]"}, WORTH),
        ({"spark.remote": "sc://server"}, WORTH),
    ],
)
def test_spark_on_this_host_is_worth_less(settings: dict[str, str], seconds: float) -> None:
    carried = engine.begun_locally("spark", settings, 1)
    assert isinstance(carried, LocalFirst)
    assert carried._worth == seconds
    carried.close()


class Slow:
    """Takes the place of Spark: starts when it is told to, and runs in this process."""

    name = "spark"

    def __init__(self, failure: LondisteError | None = None) -> None:
        self.asked, self.told, self._is_ready = (threading.Event() for _ in range(3))
        self.failure = failure
        self.ran: list[Any] = []
        self.closed = False

    def start(self) -> None:
        self.asked.set()
        assert self.told.wait(30)
        if self.failure is not None:
            raise self.failure
        self._is_ready.set()

    def ready(self) -> bool:
        return self._is_ready.is_set()

    def starting(self) -> str:
        return "Spark ready"

    def run(self, task: Callable[[Any], Any], items: Sequence[Any], parallel: int) -> Iterator[Any]:
        self.ran += items
        yield from map(task, items)

    def close(self) -> None:
        self.closed = True
        self.told.set()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def first(spark: Slow, monkeypatch: pytest.MonkeyPatch, *, worth: float = 0.0) -> Any:
    """The engine, its steps as a user is told them, and what is worth a start of Spark."""
    monkeypatch.setattr("londiste.engine.local_first._POLL_SECONDS", 0.001)
    steps: list[str] = []
    return LocalFirst(LocalEngine(), spark, worth, steps.append), steps


def test_tasks_run_here_until_spark_is_ready_and_each_runs_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark = Slow()
    carried, steps = first(spark, monkeypatch)
    here: list[int] = []

    def task(item: int) -> int:
        if not spark.ready():
            here.append(item)
            if len(here) == 3:
                # In the middle of this task the session comes up.
                assert spark.asked.wait(30)
                spark.told.set()
                wait_for(spark.ready, what="the session")
        return item

    assert sorted(carried.run(task, list(range(10)), 1)) == list(range(10))
    assert here == [0, 1, 2]
    assert spark.ran == list(range(3, 10))
    wait_for(lambda: steps == ["starting Spark", "Spark ready"], what="both steps")
    # And the next job has nothing to wait for.
    spark.ran.clear()
    assert list(carried.run(task, [1, 2], 1)) == [1, 2]
    assert spark.ran == [1, 2]


def test_work_that_ends_before_starts_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Slow()
    carried, steps = first(spark, monkeypatch, worth=1000.0)
    assert sorted(carried.run(abs, [-1, 2, 3], 1)) == [1, 2, 3]
    carried.close()
    assert (spark.asked.is_set(), spark.ran, steps, spark.closed) == (False, [], [], True)


def test_a_start_that_fails_leaves_all_of_it_to_this_host(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = Slow(SparkUnavailable("Spark: the master does not answer", hint="start it"))
    spark.told.set()
    carried, steps = first(spark, monkeypatch)

    def task(item: int) -> int:
        assert spark.asked.wait(30)
        return item

    assert list(carried.run(task, list(range(5)), 1)) == list(range(5))
    assert spark.ran == []
    wait_for(lambda: len(steps) == 2, what="the reason")
    assert "this host continues without Spark: Spark: the master does not answer" in steps[1]


def test_an_engine_that_is_closed_while_spark_starts_keeps_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark = Slow()
    carried, _ = first(spark, monkeypatch)

    def task(item: int) -> int:
        assert spark.asked.wait(30)
        return item

    jobs = carried.run(task, [1, 2, 3], 1)
    assert next(jobs) == 1
    carried.close()
    wait_for(spark.ready, what="the start that was under way")
    wait_for(lambda: spark.closed, what="its end")
