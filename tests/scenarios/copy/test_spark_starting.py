"""The start of Spark, which takes seconds, is a visible step of a copy."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Server
from tests.support.scenarios import writers
from tests.support.scenarios.harness import Cascade, quoted


@pytest.mark.slow
@pytest.mark.spark
def test_wait_sync_reports_that_spark_starts_and_the_rows(
    cascade: Cascade, cluster16: Server
) -> None:
    cascade.engine = "spark"
    cascade.settings |= {"copy_chunk_bytes": str(512 * 1024), '"spark.master"': quoted("local[1]")}
    root = cascade.root(on=cluster16, schema=writers.BULK_SCHEMA + writers.BULK_ROWS)
    leaf = cascade.leaf(provider=root, schema=writers.BULK_SCHEMA)
    cascade.start_ticker()
    cascade.add_tables("scenario.bulk")
    waiting = cascade.processes.start("wait", cascade.command(leaf.config, "wait-sync"))
    cascade.wait(
        lambda: "0 of 1 table in sync; scenario.bulk waits for its copy" in waiting.said(),
        "the first line",
    )
    cascade.start_worker(leaf)
    assert waiting.wait(120) == 0
    said = waiting.said()
    assert "scenario.bulk: starting Spark; 0 rows" in said
    assert said.splitlines()[-1] == "1 of 1 table in sync"
    assert "in-copy" not in said
