"""The copy process is started when it is wanted, once at a time, and again when it dies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from londiste.replication.worker.copy_launcher import Copies
from tests.support.waiting import wait_for

SCRIPT = """
import os, pathlib, sys, time
from londiste.daemon.child import die_with_parent
die_with_parent()
runs = pathlib.Path(sys.argv[1])
with runs.open("a") as file:
    file.write(f"{os.getpid()}\\n")
while not pathlib.Path(sys.argv[2]).exists():
    time.sleep(0.01)
sys.exit(int(pathlib.Path(sys.argv[2]).read_text()))
"""


class Script:
    def __init__(self, directory: Path) -> None:
        self.runs, self.exit = directory / "runs", directory / "exit"
        self.runs.touch()
        argv = [sys.executable, "-c", SCRIPT, str(self.runs), str(self.exit)]
        self.copies = Copies(argv, longest_pause=0.2)

    def started(self, wanted: bool = True) -> int:
        self.copies.look_after(wanted)
        return len(self.runs.read_text().split())

    def stop(self) -> None:
        self.copies.stop()


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Script]:
    script = Script(tmp_path)
    yield script
    script.stop()


def test_no_process_is_started_for_nothing_and_one_for_something(script: Script) -> None:
    assert script.started(wanted=False) == 0
    wait_for(lambda: script.started() == 1, what="the first start")
    for _ in range(20):
        assert script.started() == 1
    assert script.copies.failures == 0


def test_a_process_that_dies_is_started_again(script: Script) -> None:
    script.exit.write_text("1")
    wait_for(lambda: script.started() >= 3, what="three starts")
    assert script.copies.failures >= 2
    script.exit.write_text("0")
    wait_for(lambda: script.started() and script.copies.failures == 0, what="a good end")


def test_a_process_that_is_done_is_not_started_again_unless_wanted(script: Script) -> None:
    wait_for(lambda: script.started() == 1, what="the first start")
    script.exit.write_text("0")
    wait_for(lambda: script.started(wanted=False) and not script.copies.alive, what="its end")
    assert script.started(wanted=False) == 1
