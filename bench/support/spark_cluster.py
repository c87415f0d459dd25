"""A Spark cluster on this host for bench.spark: a master, and workers of one core each."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

from londiste.embedded.java import find_java

#: Seconds that a process of it has to come up.
PATIENCE = 120.0


@contextlib.contextmanager
def cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Starts one for the length of a with block; the address of its master."""
    env = {
        **os.environ,
        "JAVA_HOME": str(find_java()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
        # Executors have what travels with the session, and nothing else of ours.
        "PYTHONPATH": "",
    }
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, kind: str, said: str, *options: str) -> str:
        log = folder / f"{name}.log"
        program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        argv = [program, f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *options]
        with log.open("wb") as output:
            process = subprocess.Popen(argv, env=env, stdout=output, stderr=output)
        processes.append(process)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and process.poll() is None:
            found = re.search(said, log.read_text(errors="replace"))
            if found:
                return found[0]
            time.sleep(0.1)
        raise RuntimeError(f"{name} of Spark's cluster does not start: see {log}")

    try:
        address = r"spark://127\.0\.0\.1:\d+"
        master = start("master", "master.Master", address, "--port", "0", "--webui-port", "0")
        for number in range(workers):
            start(
                f"worker{number}",
                "worker.Worker",
                "Successfully registered with master",
                *("--webui-port", "0", "--cores", "1", "--memory", "1g"),
                *("--work-dir", str(folder / f"work{number}"), master),
            )
        yield master
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()
