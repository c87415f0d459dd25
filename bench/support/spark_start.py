"""Start of a Spark session until its first job of two Python tasks has ended, old way and new.

python -m bench.support.spark_start old|new      one start; prints seconds and processor seconds
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

SETTINGS = {"spark.master": "local[2]"}
OLD = "pyspark's launch, session of SQL, mapInArrow"
PLAIN = "context alone, job of RDDs; writes the archive"
NEW = "the same with the archive of classes"


def start(rounds: int) -> dict[str, float]:
    """Measures each way in processes of their own, in turns; prints the table."""
    took: dict[str, list[tuple[float, float]]] = {OLD: [], PLAIN: [], NEW: []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for name in took:
                took[name].append(_measured("old" if name == OLD else "new", Path(cache)))
    wall = {name: common.median([one[0] for one in all]) for name, all in took.items()}
    work = {name: common.median([one[1] for one in all]) for name, all in took.items()}
    print(f"\n## Start of a session until a job of two tasks has ended\n\n{common.machine()}")
    common.table(
        ["way", "s", "processor s", "processor × old"],
        [[n, f"{wall[n]:.1f}", f"{work[n]:.1f}", f"{work[n] / work[OLD]:.2f}"] for n in took],
        name="start",
    )
    return {
        "start": work[NEW] / work[OLD],
        **{f"start, processor s: {name}": value for name, value in work.items()},
        **{f"start, s: {name}": value for name, value in wall.items()},
    }


def _measured(way: str, cache: Path) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.support.spark_start", way],
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

    began = time.perf_counter()
    if sys.argv[1] == "old":
        _old()
    else:
        list(jobs.run(session.carrier(SETTINGS), operator.neg, [1, 2], 2))
    took = time.perf_counter() - began
    me = os.getpid()
    print(json.dumps([took, cpu.of_tree(me) - cpu.of_process(me)]))
    session.stop()


def _old() -> None:
    """As sessions were started before: every setting twice, and the first job through SQL."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    from londiste.embedded.java import find_java
    from londiste.engine.spark import jobs, session

    settings = session.merged(SETTINGS)
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
