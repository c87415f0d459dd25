"""Copies, large batches, compare, streams and a lake by a server of Spark Connect."""

from __future__ import annotations

import random
import signal
import socket
import sys
from pathlib import Path

import pytest

import londiste.spark
from tests.fixtures.cluster import Database, Server
from tests.fixtures.lake import statements
from tests.fixtures.spark import DRIVER, end, standing
from tests.fixtures.stream import Stream
from tests.scenarios.queue.test_lake_killed import kept
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import Cascade, Node, quoted
from tests.support.scenarios.processes import Process, Processes, is_stopped
from tests.support.waiting import wait_for

TABLE = "scenario.bulk"
CHANGES = """
do $$ begin
    for i in 1..3000 loop update scenario.bulk set filler = 'x' where id = i; end loop;
end $$
"""
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]


def start_server(processes: Processes, port: int, **env: str) -> Process:
    """A server whose Python has this package; its JVM is a process below."""
    pytest.importorskip("grpc")
    import pyspark

    from londiste.embedded.java import find_java

    options = {
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    made = processes.start(
        "connect",
        [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--class", SERVER, "--master", "local[2,4]"),
            *(word for key, value in options.items() for word in ("--conf", f"{key}={value}")),
            "spark-internal",
        ],
        {
            "JAVA_HOME": str(find_java()),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
            **env,
        },
    )

    def answers() -> bool:
        assert made.running(), made.said()
        return "Spark Connect server started" in made.said()

    wait_for(answers, timeout=400, what="a server of Spark Connect")
    return made


@pytest.fixture
def port() -> int:
    """A port that nobody has."""
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


def nodes(cascade: Cascade, cluster16: Server, port: int, way: str) -> tuple[Node, Node]:
    cascade.engine = "spark"
    cascade.settings |= {
        "copy_chunk_bytes": str(512 * 1024),
        "parallel_apply_min_events": "1000",
        "resumable_copy_min_bytes": "0" if way == "resumable" else str(1 << 40),
        '"spark.remote"': quoted(f"sc://127.0.0.1:{port}/;user_id=nobody-reads-this"),
        '"spark.executor.memory"': quoted("512m"),
    }
    root = cascade.root(on=cluster16, schema=writers.BULK_SCHEMA + writers.BULK_ROWS)
    leaf = cascade.leaf(provider=root, schema=writers.BULK_SCHEMA)
    cascade.start_ticker()
    return root, leaf


@pytest.mark.parametrize("way", ["snapshot", "resumable"])
def test_a_server_copies_applies_and_compares(
    way: str, cascade: Cascade, cluster16: Server, port: int
) -> None:
    start_server(cascade.processes, port)
    root, leaf = nodes(cascade, cluster16, port, way)
    cascade.start_worker(leaf)
    cascade.add_tables(TABLE)
    cascade.wait_sync(leaf, 300)
    root.database.execute(CHANGES)
    cascade.wait_root(leaf, 300)
    assert cascade.compare(leaf)["equal"]
    oracles.assert_same_rows(root.database, leaf.database, [TABLE])
    assert leaf.worker is not None
    said = leaf.worker.said()
    assert f"starting Spark, sc://127.0.0.1:{port}\n" in said
    assert "staged by 2 tasks of engine spark" in said
    warnings = {line.partition("WARNING ")[2] for line in said.splitlines() if "WARNING" in line}
    assert {text.partition("queue=scenario: ")[2] for text in warnings} <= {
        "Spark Connect: the server decides these settings: spark.executor.memory",
        f"{TABLE}: starting Spark",
    }
    # The server writes the name of the user into its own log.
    assert "nobody-reads-this" not in said


def test_a_server_that_is_killed_during_a_copy_is_used_again_when_it_is_back(
    cascade: Cascade, cluster16: Server, port: int, tmp_path: Path
) -> None:
    server = start_server(cascade.processes, port, **standing("copy.mid-chunk", tmp_path))
    root, leaf = nodes(cascade, cluster16, port, "resumable")
    cascade.start_worker(leaf)
    cascade.add_tables(TABLE)
    tasks = wait_for(
        lambda: [p for p in cascade.processes.find("pyspark.daemon") if is_stopped(p)],
        timeout=400,
        what="a task in the middle of a chunk",
    )
    for jvm in cascade.processes.find(DRIVER):
        end(jvm)
    for task in tasks:
        end(task)
    server.wait(60)
    cascade.wait(
        lambda: "the server does not answer" in cascade.londiste(leaf, "status", accept=None).out,
        "status that names the server",
        200,
    )
    start_server(cascade.processes, port)
    cascade.wait_sync(leaf, 600)
    assert cascade.compare(leaf)["equal"]
    oracles.assert_same_rows(root.database, leaf.database, [TABLE])
    assert leaf.worker is not None
    said = leaf.worker.said()
    assert "Spark: connection to the server lost" in said
    for word in ("Traceback", "\tat ", "ERROR", "UserWarning"):
        assert word not in said


def test_streams_snapshots_and_tables_are_read_and_written_by_a_server(
    pgq_db: Database, spark_processes: Processes, tmp_path: Path, port: int
) -> None:
    start_server(spark_processes, port)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    try:
        londiste.spark.register(spark)
        stream = Stream(spark, pgq_db, tmp_path)
        stream.table()
        stream.write(*(f"insert into t values ({i}, 'v{i}')" for i in range(20)))
        source = {"dsn": pgq_db.dsn, "queue": "q", "tables": "public.t"}
        out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
        query = (
            stream.load()
            .writeStream.format("parquet")
            .option("path", out)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(300) and query.exception() is None
        assert spark.read.parquet(out).count() == 20
        rows = spark.read.format("pgq").options(mode="snapshot", **source).load()
        pgq_db.execute("create table copied (id int primary key, v text)")
        rows.select("id", "v").write.format("pgq_table").mode("append").options(
            dsn=pgq_db.dsn, table="public.copied"
        ).save()
        assert pgq_db.execute("select * from copied order by id") == pgq_db.execute(
            "select * from t order by id"
        )
        columns = londiste.spark.schema(spark, "public.t", dsn=pgq_db.dsn)
        assert columns.fieldNames() == ["id", "v"]
    finally:
        spark.stop()


@pytest.mark.parametrize("mode", ["append", "state"])
def test_a_lake_is_kept_by_a_server(
    mode: str, pgq_db: Database, spark_processes: Processes, tmp_path: Path, port: int
) -> None:
    server = start_server(spark_processes, port)
    lake = kept(pgq_db, spark_processes, tmp_path, mode)
    lake.spark = ("spark.remote", f"sc://127.0.0.1:{port}")
    for _ in range(2):
        done = lake.run("once")
        assert done.code == 0, done
        lake.stream.write(*statements(random.Random(port), truncate=0))
    assert lake.run("once").code == 0
    lake.check()
    server.send(signal.SIGTERM)
    server.wait(60)
