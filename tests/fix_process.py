"""Runs the program as its own process, so that it can be signalled and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.waiting import wait_for

ROOT = Path(__file__).parents[1]


class Program:
    """A running ``londiste`` and what it has written."""

    def __init__(self, arguments: Sequence[str], log: Path, crash: str = "") -> None:
        self.log = log
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "LONDISTE_TRACEBACK": "1"}
        environment.pop("LONDISTE_CRASH", None)
        if crash:
            environment["LONDISTE_CRASH"] = crash
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "londiste", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
            )

    @property
    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def says(self, text: str, *, times: int = 1) -> None:
        """Waits until the output has the text so many times."""
        wait_for(lambda: self.text.count(text) >= times, what=f"{text!r} in\n{self.text}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, *, within: float = 30.0) -> int:
        """Waits for the end; the exit code, negative for a signal."""
        return self.process.wait(within)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    """Starts ``londiste`` with arguments; ``crash`` is LONDISTE_CRASH.  Killed after the test."""
    started: list[Program] = []

    def start(*arguments: str, crash: str = "") -> Program:
        started.append(Program(arguments, tmp_path / f"program{len(started)}.log", crash))
        return started[-1]

    yield start
    for one in started:
        one.kill()
