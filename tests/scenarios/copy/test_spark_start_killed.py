"""SIGTERM and kill -9 at any moment of Spark's start, of a job and of a stop: no process is left.

The moments are times since the program says that it starts, a hundred under the mark ``slow``.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from londiste.embedded.java import find_java
from londiste.errors import LondisteError
from tests.fixtures.process import ROOT
from tests.support.waiting import wait_for

PROGRAM = "tests.support.programs.spark_start_program"
SEED = 22
HOWS = (signal.SIGTERM, signal.SIGKILL)


@pytest.fixture(autouse=True, scope="module")
def java() -> None:
    """Skips where Spark cannot run."""
    pytest.importorskip("pyspark")
    try:
        find_java()
    except LondisteError as missing:
        pytest.skip(str(missing))


def below(directory: Path) -> list[int]:
    """Processes that run with this directory as their cache: the program and all it has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if f"LONDISTE_CACHE={directory}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def ended(directory: Path, number: signal.Signals, seconds: float, *, jobs: int = 1) -> str:
    """Ends a program so long after it begins to start Spark; what it had come to.

    seconds -- from 100 on: after it has said that it stops.
    """
    program = subprocess.Popen(
        [sys.executable, "-m", PROGRAM, str(jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "LONDISTE_CACHE": str(directory)},
    )
    assert program.stdout is not None
    assert program.stderr is not None
    said = program.stdout.readline()
    while seconds >= 100 and said and not said.endswith("stopping\n"):
        said += program.stdout.readline()
    timer = threading.Timer(seconds % 100, program.send_signal, (number,))
    timer.start()
    said += program.stdout.read()
    errors = program.stderr.read()
    assert program.wait(60) in (0, -number, 128 + number), errors
    timer.cancel()
    assert "Traceback" not in errors
    assert "py4j" not in errors
    # A JVM that has begun sees the end of its program once it is up.
    wait_for(lambda: not below(directory), timeout=300, what=f"the end of {below(directory)}")
    return said.split("\n")[-2]


@pytest.mark.slow
@pytest.mark.spark
def test_no_process_is_left_after_the_end_of_a_program_that_starts_spark(tmp_path: Path) -> None:
    # The launcher, the boot of the JVM, and what follows.
    came_to = [
        ended(tmp_path, number, seconds)
        for number, seconds in [
            (signal.SIGTERM, 1.2),
            (signal.SIGKILL, 0.8),
            (signal.SIGTERM, 100.3),
        ]
    ]
    assert came_to[0] == "starting"
    assert came_to[-1] in ("stopping", "stopped")
    # A JVM whose program was killed may have written its file before it saw that.
    assert len(list(tmp_path.glob("*.info"))) <= 1


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3600)
def test_no_process_is_left_at_a_hundred_moments_of_a_start_a_job_and_a_stop(
    tmp_path: Path,
) -> None:
    chance = random.Random(SEED)
    moments = [
        *(n / 10 for n in range(60)),
        *(chance.uniform(2.0, 9.0) for _ in range(20)),
        *(100 + chance.uniform(0.0, 2.0) for _ in range(20)),
    ]
    came_to = {
        ended(tmp_path, chance.choice(HOWS), seconds, jobs=30 if seconds < 100 else 1)
        for seconds in moments
    }
    assert {"starting", "stopping"} <= came_to
