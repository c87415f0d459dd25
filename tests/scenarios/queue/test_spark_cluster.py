"""Streams and lakes on a Spark cluster whose two workers lack Londiste; executors are killed."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.lake import statements
from tests.fixtures.spark import SparkCluster, end
from tests.fixtures.stream import Stream
from tests.scenarios.queue.test_lake_killed import kept
from tests.support.scenarios.processes import Processes
from tests.support.waiting import wait_for

PROGRAM = Path(__file__).parents[2] / "support" / "programs" / "cluster_program.py"
#: Enough for a task on each of two workers.
ROWS = 10_500
BLOCKED = (
    "select count(*) from pg_stat_activity where application_name = 'londiste-spark q'"
    " and wait_event_type = 'Lock' and datname = current_database()"
)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_stream_survives_an_executor_that_is_killed_while_it_reads(
    pgq_db: Database, spark_processes: Processes, tmp_path: Path
) -> None:
    cluster = SparkCluster.start(spark_processes, tmp_path)
    stream = Stream(None, pgq_db, tmp_path)
    stream.table()
    stream.write(
        f"do $$ begin for i in 1..{ROWS} loop insert into t values (i, 'row ' || i);"
        " end loop; end $$"
    )
    target = tmp_path / "target"
    target.mkdir()
    events = pgq_db.value("select pgq.current_event_table('q')")
    with pgq_db.connect() as holder, holder.transaction():
        # So both tasks stand still in the middle of their work.
        holder.execute(f"lock table {events} in access exclusive mode".encode())
        driver = spark_processes.start(
            "driver",
            [sys.executable, str(PROGRAM)],
            {
                "MASTER": cluster.master,
                "DSN": pgq_db.dsn,
                "TARGET": str(target),
                "CHECKPOINT": str(tmp_path / "checkpoint"),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
        )

        def both_read() -> bool:
            assert driver.running(), driver.said()
            return bool(pgq_db.value(BLOCKED) == 2)

        wait_for(both_read, timeout=400, what="a task on each worker")
        before = set(cluster.executors())
        assert len(before) == 2
        end(min(before))
    assert driver.wait(400) == 0, driver.said()
    assert "ExecutorLostFailure" in driver.said() or "Lost executor" in driver.said()
    # The driver's package, in a directory of the executor's.
    assert f"executors have {tmp_path}/work" in driver.said(), driver.said()
    found = [
        tuple(row) for path in target.glob("*.json") for row in json.loads(path.read_text("utf-8"))
    ]
    assert len({event for event, *_ in found}) == len(found) == ROWS
    assert {tuple(row[1:]) for row in found} == {
        ("insert", i, f"row {i}") for i in range(1, ROWS + 1)
    }


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", ["append", "state", "history"])
def test_a_lake_is_kept_though_an_executor_and_drivers_are_killed(
    mode: str, pgq_db: Database, spark_processes: Processes, tmp_path: Path
) -> None:
    chance = random.Random(mode)
    cluster = SparkCluster.start(spark_processes, tmp_path)
    lake = kept(pgq_db, spark_processes, tmp_path, mode)
    lake.spark = ("spark.master", cluster.master)
    process = spark_processes.start("lake", lake.argv("once"), {})

    def has_executors() -> bool:
        assert process.running(), process.said()
        return len(cluster.executors()) == 2

    wait_for(has_executors, timeout=400, what="two executors")
    end(min(cluster.executors()))
    assert process.wait(600) == 0, process.said()
    for point in ("lake.written", "lake.published"):
        lake.stream.write(*statements(chance, truncate=0))
        assert lake.run("once", crash=point).code != 0
    assert lake.run("once").code == 0
    lake.check()
