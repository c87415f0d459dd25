"""Commands and workers of a scenario, each with files of its own for what it prints and logs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.programs import forked
from tests.support.scenarios.processes import Processes, go_on, tail


@dataclass(frozen=True)
class Fork:
    """One command that was started."""

    argv: tuple[str, ...]
    base: Path
    process: forked.Started

    @property
    def pid(self) -> int:
        return self.process.pid

    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self.process.poll()

    def wait(self, seconds: float = 120.0) -> int:
        """Waits until it ends by itself."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{' '.join(self.argv)} still runs after {seconds:g} s:\n{tail(self.err)}"
            ) from None

    def send(self, number: int) -> None:
        """A signal; nothing when it has ended."""
        self.process.send_signal(number)

    def go_on(self) -> None:
        """SIGCONT, when it stands still."""
        go_on(self.pid, lambda: self.code() is not None)

    def kill(self) -> None:
        """SIGKILL, and the end of it."""
        self.process.kill()
        self.wait(60)

    @property
    def out(self) -> str:
        """What it has printed."""
        return self.base.with_suffix(".out").read_text(errors="replace")

    @property
    def err(self) -> str:
        """What it has said."""
        return self.base.with_suffix(".log").read_text(errors="replace")

    def __str__(self) -> str:
        return f"`{' '.join(self.argv)}` ended with {self.code()}\n{self.out}\n{self.err}"


class Forks:
    """Starts them; ``close`` ends what still runs."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._started: list[Fork] = []

    def start(self, config: Path, *args: str, program: str = "londiste", **env: str) -> Fork:
        """Starts a command with a settings file; returns at once.

        program -- the module of Python that it is a command of.
        """
        name = f"fork{len(self._started) + 1:04}_{config.stem}_{args[0] if args else program}"
        base = self._processes.directory / name
        argv = ("-c", str(config), *args)
        with base.with_suffix(".out").open("ab") as out, base.with_suffix(".log").open("ab") as log:
            process = forked.start(
                [sys.executable, "-m", program, *argv],
                env={**self._processes.clean_environment(), **env},
                output=out,
                errors=log,
                cwd=forked.ROOT,
                own_group=True,
                dies_with_us=True,
            )
        self._started.append(Fork(argv, base, process))
        return self._started[-1]

    def run(self, config: Path, *args: str, seconds: float = 120.0, **env: str) -> Fork:
        """Runs a command to its end, whatever that is."""
        fork = self.start(config, *args, **env)
        fork.wait(seconds)
        return fork

    def close(self) -> None:
        """Ends all of them."""
        for fork in self._started:
            if fork.code() is None:
                fork.kill()
