"""A server crashes during copy or replay: every process resumes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from londiste.embedded.postgres import Cluster
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import Cascade, Node
from tests.support.scenarios.writers import TokenWriter

TABLES = (*writers.KEYED, *writers.KEYLESS, "scenario.bulk")
DURABLE = {"fsync": "on", "full_page_writes": "on"}


class Crashing:
    """Source and target on servers of their own, which really flush."""

    def __init__(self, cascade: Cascade, new_cluster: Callable[..., Cluster]) -> None:
        self.servers = {
            "source": new_cluster("source", version=16, settings=DURABLE),
            "target": new_cluster("target", version=18, settings=DURABLE),
        }
        cascade.settings["copy_chunk_bytes"] = str(256 * 1024)
        cascade.settings["parallel_copies"] = "1"
        rows = writers.BULK_ROWS.replace("20000", "60000")
        self.root = cascade.root(
            on=self.servers["source"],
            schema=writers.SCHEMA + writers.DATA + writers.BULK + rows,
        )
        self.leaf = cascade.leaf(
            provider=self.root,
            on=self.servers["target"],
            schema=writers.SCHEMA + writers.BULK,
        )

    def crash(self, which: str) -> None:
        """Stops a server without warning, and starts it again."""
        self.servers[which].restart("immediate")


@pytest.fixture
def crashing(cascade: Cascade, new_cluster: Callable[..., Cluster]) -> Crashing:
    return Crashing(cascade, new_cluster)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["source", "target"])
def test_replay_resumes_after_a_crash_of_the(
    which: str, cascade: Cascade, crashing: Crashing
) -> None:
    root, leaf = crashing.root, crashing.leaf
    ticker = cascade.start_ticker()
    worker = cascade.start_worker(leaf)
    cascade.add_tables("--all", "--insert-only")
    cascade.wait_sync(leaf)
    with (
        TokenWriter(root.database, pause=0.001) as writer,
        TokenWriter(root.database, number=2, hold=0.3) as slow,
    ):
        for _ in range(2):
            writer.wait(50)
            cascade.wait_progress(leaf)
            crashing.crash(which)
        writer.wait(50)
        cascade.wait_progress(leaf)
        writer.stop()
        slow.stop()
    _is_in_step(cascade, root, leaf)
    assert ticker.running()
    assert worker.running()


@pytest.mark.slow
@pytest.mark.parametrize("which", ["source", "target"])
def test_a_copy_resumes_after_a_crash_of_the(
    which: str, cascade: Cascade, crashing: Crashing
) -> None:
    _crash_in_copy(cascade, crashing, which)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["source", "target"])
def test_a_resumable_copy_goes_on_after_a_crash_of_the(
    which: str, cascade: Cascade, new_cluster: Callable[..., Cluster]
) -> None:
    cascade.settings["resumable_copy_min_bytes"] = "0"
    _crash_in_copy(cascade, Crashing(cascade, new_cluster), which)
    assert "chunks are done" in cascade.processes.everything_said()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("which", ["source", "target"])
def test_a_copy_by_spark_resumes_after_a_crash_of_the(
    which: str, cascade: Cascade, new_cluster: Callable[..., Cluster]
) -> None:
    cascade.engine = "spark"
    _crash_in_copy(cascade, Crashing(cascade, new_cluster), which)
    cascade.assert_spark_copied()


def _crash_in_copy(cascade: Cascade, crashing: Crashing, which: str) -> None:
    root, leaf = crashing.root, crashing.leaf
    ticker = cascade.start_ticker()
    worker = cascade.start_worker(leaf)
    with TokenWriter(root.database) as writer:
        cascade.add_tables("--all", "--insert-only")
        before = cascade.wait(
            lambda: _chunks(leaf), "the first chunks of the big table", seconds=90
        )
        crashing.crash(which)
        assert before < _all_chunks(leaf) or cascade.states(leaf)["scenario.bulk"] == "in-copy"
        cascade.wait_sync(leaf)
        writer.wait(50)
        writer.stop()
    _is_in_step(cascade, root, leaf)
    assert ticker.running()
    assert worker.running()


def _chunks(leaf: Node) -> int:
    """Chunks of the big table that are done, while it is in-copy."""
    return int(
        leaf.database.value(
            "select count(*) from londiste.copy_chunk c join londiste.table_info t"
            " using (queue_name, table_name)"
            " where table_name = 'scenario.bulk' and merge_state = 'in-copy'"
            " and c.done_at is not null"
        )
    )


def _all_chunks(leaf: Node) -> float:
    size: Any = 60000 * 256 / (256 * 1024)
    return float(size)


def _is_in_step(cascade: Cascade, root: Node, leaf: Node) -> None:
    cascade.wait_root(leaf)
    answer = cascade.compare(leaf)
    assert answer["equal"], answer
    assert len(answer["tables"]) == len(TABLES)
    oracles.assert_same_rows(root.database, leaf.database, TABLES)
    assert oracles.applied_twice(leaf.database) == []
