"""A cluster of Spark's own on this host, and the processes of a job in it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from londiste.errors import LondisteError
from tests.scenarios.processes import Process, Processes, is_stopped, stat
from tests.waiting import wait_for

EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
DRIVER = "org.apache.spark.deploy.SparkSubmit"


@dataclass
class SparkCluster:
    """A master, and workers with one core each.

    master -- its address.  The Python of its executors finds no package of ours by itself: the
        directory of the tests is not theirs.
    """

    processes: Processes
    directory: Path
    env: dict[str, str]
    master: str = ""
    workers: list[Process] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        processes: Processes,
        directory: Path,
        env: Mapping[str, str] | None = None,
        *,
        workers: int = 2,
    ) -> SparkCluster:
        """Starts one; skips the test where Spark cannot run.

        env -- of the executors.
        """
        pytest.importorskip("pyspark")
        from londiste.embedded.java import find_java

        try:
            java = find_java()
        except LondisteError as missing:
            pytest.skip(str(missing))
        made = cls(
            processes,
            directory,
            {
                "JAVA_HOME": str(java),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m",
                # It has a port of its own, which another test may have.
                "SPARK_DAEMON_JAVA_OPTS": "-Dspark.master.rest.enabled=false",
                # The executors' processes start there.
                "PYTHONPATH": "",
                **(env or {}),
            },
        )
        master = made._daemon("master", "master.Master", "--port", "0", "--webui-port", "0")
        made.master = made._said(master, r"spark://127\.0\.0\.1:\d+")
        for _ in range(workers):
            made.add_worker()
        return made

    def add_worker(self) -> None:
        """One more, which has registered."""
        number = len(self.workers) + 1
        worker = self._daemon(
            f"spark_{number}",
            "worker.Worker",
            *("--webui-port", "0", "--cores", "1", "--memory", "1g"),
            *("--work-dir", str(self.directory / f"work{number}"), self.master),
        )
        self.workers.append(worker)
        self._said(worker, "Successfully registered with master")

    def executors(self) -> list[int]:
        """Their JVMs."""
        return self.processes.find(EXECUTOR)

    def executor_of(self, pid: int) -> int:
        """The JVM that a Python process of a task belongs to."""
        (found,) = set(self.executors()) & ancestors(pid)
        return found

    def _daemon(self, name: str, kind: str, *options: str) -> Process:
        import pyspark

        program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        argv = [program, f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *options]
        return self.processes.start(name, argv, self.env)

    def _said(self, process: Process, pattern: str) -> str:
        def look() -> str:
            if not process.running():
                pytest.skip(f"a cluster of Spark does not start here: {process.said()[-500:]}")
            found = re.search(pattern, process.said())
            return found[0] if found else ""

        return wait_for(look, timeout=400, what=f"{pattern} from {process.name}")


def run_query(begin: Callable[[], Any], seconds: float) -> None:
    """Starts a query that ends by itself, and waits for its end.

    Spark gives a Python of its own ten seconds to come up, whatever the host has to do, and there
    is no setting for it: a query that ended for this is started again, from its checkpoint.
    """
    for left in reversed(range(5)):
        query = begin()
        try:
            assert query.awaitTermination(seconds)
            return
        except Exception as error:
            if not left or "failed to connect back" not in str(error):
                raise
        finally:
            query.stop()


def standing(point: str, directory: Path) -> dict[str, str]:
    """Makes the first task that comes to a crash point stand still there."""
    return {
        "LONDISTE_CRASH": point,
        "LONDISTE_CRASH_MARK": str(directory / "stopped"),
        "LONDISTE_CRASH_SIGNAL": "STOP",
    }


def task_standing(processes: Processes, directory: Path) -> int:
    """Waits for it; its process."""
    wait_for((directory / "stopped").exists, timeout=400, what="a task that stands still")
    (task,) = wait_for(lambda: stopped(processes), timeout=30, what="its process")
    return task


def stopped(processes: Processes) -> list[int]:
    """Those that stand still at a crash point."""
    return [pid for pid in processes.living() if is_stopped(pid)]


def ancestors(pid: int) -> set[int]:
    """Parents, their parents, and so on."""
    found: set[int] = set()
    while pid > 1:
        pid = int(stat(pid)[1])
        found.add(pid)
    return found


def end(pid: int) -> None:
    """Kills a process that may have gone."""
    send(pid, signal.SIGKILL)


def send(pid: int, number: signal.Signals) -> None:
    """Signals a process that may have gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
