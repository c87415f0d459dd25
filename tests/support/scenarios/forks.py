"""Commands and workers that start in milliseconds: see ``fork_server``."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.scenarios.processes import Processes, die_with_parent, go_on, tail
from tests.support.waiting import wait_for


@dataclass(frozen=True)
class Fork:
    """One command that was started."""

    argv: tuple[str, ...]
    pid: int
    base: Path

    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        try:
            return int(self.base.with_suffix(".code").read_text(encoding="ascii"))
        except FileNotFoundError:
            return None

    def wait(self, seconds: float = 120.0) -> int:
        """Waits until it ends by itself."""
        return int(
            wait_for(
                lambda: None if self.code() is None else str(self.code()),
                timeout=seconds,
                what=f"the end of {' '.join(self.argv)}\n{tail(self.err)}",
            )
        )

    def send(self, number: signal.Signals) -> None:
        """A signal; nothing when it has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def go_on(self) -> None:
        """SIGCONT, when it stands still."""
        go_on(self.pid, lambda: self.code() is not None)

    def kill(self) -> None:
        """SIGKILL, and the end of it."""
        self.send(signal.SIGKILL)
        self.wait(30)

    @property
    def out(self) -> str:
        """What it has printed."""
        return _read(self.base.with_suffix(".out"))

    @property
    def err(self) -> str:
        """What it has said."""
        return _read(self.base.with_suffix(".log"))

    def __str__(self) -> str:
        return f"`{' '.join(self.argv)}` ended with {self.code()}\n{self.out}\n{self.err}"


class Forks:
    """The process that forks; what it forks dies with it at the latest."""

    def __init__(self, processes: Processes) -> None:
        self._directory = processes.directory
        self._count = 0
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "tests.support.programs.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=processes.clean_environment(),
            text=True,
            preexec_fn=die_with_parent,
        )

    def start(self, config: Path, *args: str, **env: str) -> Fork:
        """Starts a command with a settings file; returns at once."""
        self._count += 1
        base = self._directory / f"fork{self._count:04}_{config.stem}_{args[0]}"
        argv = ("-c", str(config), *args)
        order = {"argv": argv, "env": env, "out": str(base) + ".out", "err": str(base) + ".log"}
        assert self._popen.stdin is not None and self._popen.stdout is not None
        self._popen.stdin.write(json.dumps(order | {"code": str(base) + ".code"}) + "\n")
        self._popen.stdin.flush()
        return Fork(argv, int(self._popen.stdout.readline()), base)

    def run(self, config: Path, *args: str, seconds: float = 120.0, **env: str) -> Fork:
        """Runs a command to its end, whatever that is."""
        fork = self.start(config, *args, **env)
        fork.wait(seconds)
        return fork

    def close(self) -> None:
        """Ends the forking process."""
        assert self._popen.stdin is not None and self._popen.stdout is not None
        self._popen.stdin.close()
        self._popen.wait(10)
        self._popen.stdout.close()


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
