"""Start of a Spark session until its first job of two Python tasks has ended, old way and new.

python -m bench.support.spark_start old|new MASTER   one start; prints seconds and processor seconds

On a cluster the processor seconds are those of the driver: executors belong to the workers.
"""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.support import common, cpu
from bench.support.spark_cluster import cluster

LOCAL = "local[2]"
OLD = "pyspark's launch, session of SQL, mapInArrow"
PLAIN = "context alone, job of RDDs; writes the archive"
NEW = "the same with the archive of classes"


def start(rounds: int, folder: Path) -> dict[str, float]:
    """Measures each way in processes of their own, in turns; prints a table for each master."""
    found = _table("start", LOCAL, rounds)
    with cluster(folder) as master:
        on_cluster = _table("start-on-cluster", master, rounds)
    seconds = f"start, s: {NEW}", f"start, s: {OLD}"
    found["cluster start"] = on_cluster[seconds[0]] / on_cluster[seconds[1]]
    return found


def _table(name: str, master: str, rounds: int) -> dict[str, float]:
    took: dict[str, list[tuple[float, float]]] = {OLD: [], PLAIN: [], NEW: []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for way in took:
                took[way].append(_measured("old" if way == OLD else "new", master, Path(cache)))
    wall = {way: common.median([one[0] for one in all]) for way, all in took.items()}
    work = {way: common.median([one[1] for one in all]) for way, all in took.items()}
    where = LOCAL if master == LOCAL else "two workers"
    print(f"\n## Start of a session until a job of two tasks has ended, {where}")
    print(f"\n{common.machine()}")
    common.table(
        [where, "s", "× old", "processor s", "processor × old"],
        [
            [
                way,
                f"{wall[way]:.1f}",
                f"{wall[way] / wall[OLD]:.2f}",
                f"{work[way]:.1f}",
                f"{work[way] / work[OLD]:.2f}",
            ]
            for way in took
        ],
        name=name,
    )
    return {
        "start": work[NEW] / work[OLD],
        **{f"start, processor s: {way}": value for way, value in work.items()},
        **{f"start, s: {way}": value for way, value in wall.items()},
    }


def _measured(way: str, master: str, cache: Path) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.support.spark_start", way, master],
        env={**os.environ, "LONDISTE_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    seconds, work = json.loads(done.stdout)
    return float(seconds), float(work)


def main() -> None:
    """One start: all processes below this one count."""
    from londiste.engine.spark import jobs, session

    settings = {"spark.master": sys.argv[2]}
    if sys.argv[2] != LOCAL:
        settings |= {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m"}
    began = time.perf_counter()
    if sys.argv[1] == "old":
        _old(settings)
    else:
        list(jobs.run(session.carrier(settings), operator.neg, [1, 2], 2))
    took = time.perf_counter() - began
    me = os.getpid()
    print(json.dumps([took, cpu.of_tree(me) - cpu.of_process(me)]))
    session.stop()


def _old(given: dict[str, str]) -> None:
    """As sessions were started before: every setting twice, and the first job through SQL."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from londiste.embedded.java import find_java
    from londiste.engine.spark import jobs, session

    settings = session.merged(given)
    conf = SparkConf(loadDefaults=False)
    builder = SparkSession.builder
    for key, value in settings.items():
        conf.set(key, value)
        builder = builder.config(key, value)
    os.environ |= {"JAVA_HOME": str(find_java()), **session._python_environment(settings)}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    SparkContext(conf=conf, gateway=launch_gateway(conf, quiet))
    program = jobs._program(jobs.packed(operator.neg, [[1], [2]]), "")
    assert len(jobs.by_frame(builder.getOrCreate(), program, 2)) == 2


if __name__ == "__main__":
    main()
