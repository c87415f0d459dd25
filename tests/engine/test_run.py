"""Tasks in general: the contract of every engine."""

from __future__ import annotations

import operator
import os
import signal
from typing import Any

import pytest

from londiste import engine
from londiste.db.names import TableName
from londiste.engine.base import Engine
from londiste.errors import BadOption, LondisteError, TransientError


@pytest.mark.parametrize("parallel", [1, 2, 8])
def test_every_item_gives_one_result(carrier: Engine, parallel: int) -> None:
    assert sorted(carrier.run(operator.neg, list(range(20)), parallel)) == list(range(-19, 1))


def test_nothing_to_do_gives_nothing(carrier: Engine) -> None:
    assert list(carrier.run(operator.neg, [], 2)) == []


def test_our_errors_arrive_as_they_were_raised(carrier: Engine) -> None:
    with pytest.raises(BadOption) as caught:
        list(carrier.run(TableName.parse, ["public.t", "."], 2))
    assert caught.value.message == "'.': not a table name"
    assert caught.value.hint


def test_other_errors_name_their_class_in_one_line(carrier: Engine) -> None:
    with pytest.raises(LondisteError, match="ValueError: invalid literal"):
        list(carrier.run(int, ["1", "x"], 2))


def test_a_killed_task_is_worth_another_try_and_the_engine_goes_on(carrier: Engine) -> None:
    with pytest.raises(TransientError):
        list(carrier.run(os._exit, [3, 3], 2))
    assert sorted(carrier.run(operator.neg, [1, 2], 2)) == [-2, -1]


def test_tasks_run_in_other_processes(carrier: Engine) -> None:
    answers = set(carrier.run(eval, ["__import__('os').getpid()"] * 4, 2))
    assert os.getpid() not in answers


def test_closing_twice_is_fine_and_the_next_job_starts_again() -> None:
    carrier = engine.create("local")
    carrier.close()
    assert sorted(carrier.run(operator.neg, [1, 2], 2)) == [-2, -1]
    carrier.close()
    carrier.close()


def test_processes_of_the_local_engine_end_with_it() -> None:
    carrier = engine.create("local")
    pids = set(carrier.run(eval, ["__import__('os').getpid()"] * 8, 2))
    carrier.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, signal.SIG_DFL)


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(BadOption, match="engine flink: unknown"):
        engine.create("flink")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_killed_jvm_is_worth_another_try_and_the_next_job_starts_a_new_one() -> None:
    from pyspark import SparkContext

    carrier = engine.create("spark", {"spark.master": "local[2]"})
    assert sorted(carrier.run(operator.neg, [1, 2], 2)) == [-2, -1]
    gateway: Any = SparkContext._gateway
    os.kill(gateway.proc.pid, signal.SIGKILL)
    gateway.proc.wait(30)
    assert sorted(carrier.run(operator.neg, [1, 2], 2)) == [-2, -1]
