"""Spark failures become one error line with cause, place and remedy."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from londiste.engine.spark import session
from londiste.engine.spark.failures import translated
from londiste.engine.spark.lake import dataframes
from londiste.errors import LondisteError, SparkUnavailable, TransientError

#: As Spark 4.3 writes it; lines of the trace are left out.
LOST = """An error occurred while calling o74.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 \
times, most recent failure: Lost task 1.3 in stage 0.0 (TID 6) (10.0.0.5 executor 3): {reason}
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator(PythonRunner.scala:1136)
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:4568)
"""
CRASHED = (
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting"
    " 'spark.sql.execution.pyspark.udf.faulthandler.enabled' configuration to 'true'."
)
EXITED = (
    "ExecutorLostFailure (executor 3 exited caused by one of the running tasks)"
    " Reason: Command exited with code 137"
)
LABELS = ["chunk 0 of public.t", "chunk 1 of public.t"]


def _told(reason: str) -> LondisteError:
    error = translated(RuntimeError(LOST.format(reason=reason)), LABELS)
    for text in (error.message, error.detail, error.hint):
        assert "\n" not in text
        assert "\tat " not in text
        assert "java." not in text
    return error


@pytest.mark.parametrize("reason", [CRASHED, EXITED])
def test_a_killed_task_names_its_chunk_and_host_and_is_worth_another_try(reason: str) -> None:
    error = _told(reason)
    assert isinstance(error, TransientError)
    assert "4 times: chunk 1 of public.t, on 10.0.0.5" in error.detail
    assert "Consider" not in error.detail
    assert 'engine = "local"' in error.hint


def test_a_python_that_a_busy_host_starts_too_late_is_worth_another_try() -> None:
    error = _told("org.apache.spark.SparkException: Python worker failed to connect back.")
    assert isinstance(error, TransientError)
    assert error.message == "Spark: a Python worker did not start in time"
    assert "chunk 1 of public.t" in error.detail


def test_what_ended_an_executor_is_said() -> None:
    assert "Command exited with code 137" in _told(EXITED).detail


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            'java.io.IOException: Cannot run program "/opt/py/bin/python": error=2, No such file',
            'Cannot run program "/opt/py/bin/python"',
        ),
        (
            "PythonException: Traceback:\\n  ModuleNotFoundError: No module named 'pyarrow'",
            "No module named 'pyarrow'",
        ),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python"
            " in worker has different version: 3.12 than that in driver: 3.11",
            "3.12 than that in driver: 3.11",
        ),
    ],
)
def test_a_python_that_cannot_run_our_tasks_is_named_with_the_setting_to_change(
    reason: str, said: str
) -> None:
    error = _told(reason)
    assert isinstance(error, SparkUnavailable)
    assert "on 10.0.0.5" in error.detail
    assert said in error.detail
    assert "spark.pyspark.python" in error.hint


def test_what_nobody_foresaw_keeps_one_line_without_names_of_java_classes() -> None:
    error = _told("org.apache.spark.memory.SparkOutOfMemoryError: no space for 64 MiB")
    assert not error.retry
    assert error.detail == "chunk 1 of public.t, on 10.0.0.5: no space for 64 MiB"


#: As Spark 4.3 raises what a program of a DataFrame has raised, and that of an RDD.
CAPTURED = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/app/londiste/engine/spark/lake/file_writer.py", line 200, in _write
    self._writer.write(table)
{raised}
"""
IN_RDD = LOST.format(
    reason="""org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/app/londiste/engine/spark/jobs.py", line 90, in execute
{raised}

"""
)


@pytest.mark.parametrize("text", [CAPTURED, IN_RDD], ids=["dataframe", "rdd"])
def test_what_a_python_worker_raised_is_said_without_values_of_rows(text: str) -> None:
    full = "OSError: [Errno 28] Error writing bytes to file. Detail: No space left on device"
    error = translated(RuntimeError(text.format(raised=full)), LABELS)
    assert error.message == "Spark: job failed" and error.detail.endswith(full)
    error = translated(RuntimeError(text.format(raised="pyarrow.lib.ArrowInvalid: Could not 'x'")))
    assert error.detail.endswith("ArrowInvalid in a Python worker") and "'x'" not in error.detail


def test_a_full_directory_of_spark_is_named() -> None:
    error = _told("java.io.IOException: No space left on device")
    assert error.hint.startswith("free space in spark.local.dir")


def test_an_error_whose_text_only_a_dead_jvm_knows_is_no_second_error() -> None:
    class Unspeakable(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError

    assert translated(Unspeakable()).message == "Spark: job failed"


def test_a_jvm_that_is_killed_before_the_first_job_of_a_lake_is_worth_another_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(given: dict[str, str]) -> None:
        raise Py4JNetworkError("Answer from Java side is empty")

    monkeypatch.setattr(session, "get", lost)
    with pytest.raises(TransientError, match="connection to the JVM lost"):
        dataframes.get({})


def test_a_defect_of_the_driver_is_no_failure_of_spark() -> None:
    with pytest.raises(AttributeError) as caught:
        dataframes.cols([None])  # type: ignore[list-item]
    with pytest.raises(AttributeError) as again:
        dataframes.ours(caught.value)
    assert again.value is caught.value
    assert again.value.__cause__ is None
