"""kill -9 of each participant in a large batch: it is applied once, and the log has the reason."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from londiste.daemon import crash
from tests.engine.test_large_batches import (
    LARGE,
    SCHEMA,
    SOME_CHANGES,
    contents,
    staged,
    tables,
    way,
)
from tests.fixtures.line import Line, LineNode
from tests.fixtures.spark import SparkCluster, end, standing, task_standing
from tests.support.servers.kept_nodes import kept_nodes

#: Where the worker dies with all that it has started.
WORKER = (
    "worker.before-batch",
    "worker.after-next-batch",
    "large.begun",
    "large.mid-merge",
    "worker.mid-apply",
    "worker.before-commit",
    "worker.after-commit",
    "worker.before-finish",
    "worker.after-finish",
)
#: Where a task dies, and the worker lives on.
TASK = ("large.mid-slice", "large.after-slice")
BY_SPARK = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]
QUICK = ("worker.before-commit",)


@kept_nodes
def waiting(line: Line, engine: str) -> tuple[LineNode, LineNode, int]:
    """A root, a leaf for which a large batch waits, and its tick."""
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA, engine=engine)
    tables(line, root)
    line.tick()
    line.once(leaf)
    tables(line, leaf)
    line.configure(leaf, engine=engine, parallel_apply_min_events=LARGE)
    root.database.execute(SOME_CHANGES)
    return root, leaf, line.tick()


def is_done(line: Line, root: LineNode, leaf: LineNode, tick: int) -> None:
    assert line.position(leaf) == tick
    # A row of the table without a key would be there twice.
    assert contents(leaf) == contents(root)
    assert way(leaf) == ("job", "")
    assert staged(leaf) == []


def _points(engine: str) -> list[object]:
    return [
        pytest.param(
            engine,
            point,
            marks=BY_SPARK if engine == "spark" else [] if point in QUICK else [pytest.mark.slow],
        )
        for point in (*WORKER, *TASK)
    ]


def test_every_crash_point_of_large_batches_is_here() -> None:
    points = {point for point in crash.POINTS if point.startswith("large.")}
    assert points == {point for point in (*WORKER, *TASK) if point.startswith("large.")}


@pytest.mark.parametrize(("engine", "point"), [*_points("local"), *_points("spark")])
def test_a_worker_with_a_large_batch_killed_at(
    engine: str, point: str, line: Line, tmp_path: Path
) -> None:
    root, leaf, tick = waiting(line, engine)
    mark = tmp_path / "mark"
    worker = line.start(leaf, LONDISTE_CRASH=point, LONDISTE_CRASH_MARK=str(mark))
    line.wait(mark.exists, point, 120)
    if point in WORKER:
        assert worker.wait() == -signal.SIGKILL
        worker = line.start(leaf)
    line.wait_position(leaf, tick, 300)
    # The last thing of a batch is that what was staged is swept.
    line.wait(lambda: not staged(leaf), "the end of the batch", 60)
    if point in TASK:
        said = "was killed|was lost 1 times"
        line.wait(lambda: re.search(said, worker.said()), "the warning", 60)
    # It may have had nothing to do but to come up.
    line.wait(lambda: "reading from node" in worker.said(), "a worker that takes signals", 60)
    assert worker.stop() == 0
    is_done(line, root, leaf, tick)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_jvm_killed_in_the_middle_of_a_job_is_followed_by_another(
    line: Line, tmp_path: Path
) -> None:
    root, leaf, tick = waiting(line, "spark")
    worker = line.start(leaf, **standing("large.mid-slice", tmp_path))
    task = task_standing(line.processes, tmp_path)
    (jvm,) = line.processes.find("org.apache.spark.deploy.SparkSubmit")
    os.kill(jvm, signal.SIGKILL)
    line.wait_position(leaf, tick, 300)
    assert worker.running()
    end(task)
    line.wait(lambda: not staged(leaf), "the end of the batch", 60)
    assert worker.stop() == 0
    assert "Spark: connection to the JVM lost" in worker.said()
    is_done(line, root, leaf, tick)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_an_executor_of_a_cluster_killed_in_the_middle_of_a_job_is_made_up_for(
    line: Line, tmp_path: Path
) -> None:
    root, leaf, tick = waiting(line, "spark")
    cluster = SparkCluster.start(line.processes, tmp_path, standing("large.mid-slice", tmp_path))
    settings = ["--set", f"spark.master={cluster.master}", "--set", "spark.executor.memory=512m"]
    worker = line.processes.start("leaf_worker", line._argv(leaf, *settings, "worker"))
    task = task_standing(line.processes, tmp_path)
    assert len(cluster.executors()) == 2
    os.kill(cluster.executor_of(task), signal.SIGKILL)
    end(task)
    line.wait_position(leaf, tick, 300)
    line.wait(lambda: not staged(leaf), "the end of the batch", 60)
    line.wait(lambda: "Spark: a task was lost" in worker.said(), "the warning", 60)
    assert worker.stop() == 0
    is_done(line, root, leaf, tick)
