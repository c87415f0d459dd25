"""Tasks in general: the contract of every engine."""

from __future__ import annotations

import itertools
import operator
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from londiste import engine
from londiste.db.names import TableName
from londiste.engine.base import Engine
from londiste.engine.spark import jobs, session
from londiste.errors import BadOption, LondisteError, TransientError
from tests.fixtures.copies import A, Nodes, fill, same
from tests.support.suite.slow import first
from tests.support.waiting import wait_for


@pytest.mark.parametrize("parallel", first([2, 1, 8]))
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


@pytest.mark.spark
def test_a_job_of_spark_has_a_form_with_a_context_and_one_for_spark_connect(spark: Any) -> None:
    for carrier in (spark.sparkContext, spark):
        assert session.has_context(carrier) is (carrier is not spark)
        assert sorted(jobs.run(carrier, operator.neg, [1, 2, 3], 2)) == [-3, -2, -1]
        with pytest.raises(BadOption, match="not a table name"):
            list(jobs.run(carrier, TableName.parse, ["public.t", "."], 2))


@pytest.mark.spark
def test_tasks_of_a_lost_process_are_told_in_one_line(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Both end their process the first time.
    once = "__import__('os').path.exists({0!r}) or (open({0!r}, 'x'), __import__('os')._exit(3))"
    items = [once.format(str(tmp_path / name)) for name in ("a", "b")]
    assert list(jobs.run(spark.sparkContext, eval, items, 2)) == [True, True]
    (line,) = [r.getMessage() for r in caplog.records if "lost" in r.getMessage()]
    assert line.startswith("Spark: 2 tasks were lost") and items[1][:100] in line


@pytest.mark.spark
def test_a_task_of_spark_that_is_killed_in_a_chunk_runs_again(
    nodes: Nodes,
    spark_engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from pyspark import SparkContext

    mark = tmp_path / "killed"
    assert list(spark_engine.run(abs, [-1], 1)) == [1]
    context = SparkContext._active_spark_context
    assert context is not None
    monkeypatch.setitem(context.environment, "LONDISTE_CRASH", "copy.mid-chunk")
    monkeypatch.setitem(context.environment, "LONDISTE_CRASH_MARK", str(mark))
    nodes.engine = spark_engine
    fill(nodes, A)
    nodes.add(A)
    nodes.start(A)
    numbers = itertools.count(1)

    def killed() -> bool:
        number = next(numbers)
        nodes.root.execute("insert into a values (%s, 'meanwhile')", 1_000_000 + number)
        nodes.root.execute("update a set v = v || '.' where id = %s", number)
        return mark.exists()

    wait_for(killed, timeout=300, what="a task that is killed")
    nodes.wait_end(300)
    assert nodes.failure is None and nodes.state(A) == "ok"
    assert same(nodes, A)
    assert nodes.consumers() == []
    assert "a task was lost" in caplog.text


@pytest.mark.slow
@pytest.mark.spark
def test_a_killed_jvm_is_worth_another_try_and_the_next_job_starts_a_new_one(
    capfd: pytest.CaptureFixture[str],
) -> None:
    from pyspark import SparkContext

    odd = "a#!:=\\ 'x' é\t%d{x}\n😀"
    carrier = engine.create("spark", {"spark.master": "local[2]", "spark.k.secret": odd})
    assert sorted(carrier.run(operator.neg, [1, 2], 2)) == [-2, -1]
    assert SparkContext.getOrCreate().getConf().get("spark.k.secret") == odd
    gateway: Any = SparkContext._gateway
    assert b"spark.k" not in Path(f"/proc/{gateway.proc.pid}/cmdline").read_bytes()
    os.kill(gateway.proc.pid, signal.SIGKILL)
    gateway.proc.wait(30)
    assert sorted(carrier.run(operator.neg, [1, 2], 2)) == [-2, -1]
    # Nor does pyspark print that its connections have ended.
    assert "Traceback" not in capfd.readouterr().err
