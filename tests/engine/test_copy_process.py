"""The copy process of a worker on the engine Spark."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from londiste.engine.base import Engine
from tests.fixtures.copies import A, Nodes, fill, same
from tests.support.waiting import wait_for


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
