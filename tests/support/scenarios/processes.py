"""Processes of a scenario: started like a user's, killed with SIGKILL, never left running."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.documents import check_output
from tests.support.hints import plain
from tests.support.programs import forked
from tests.support.waiting import wait_for

#: In the environment of every process of a scenario and, by inheritance, of all its descendants.
_MARK = "LONDISTE_SCENARIO"

#: What ``logging`` writes when a message and its arguments do not go together.
_NOT_LOGGED = "--- Logging error ---"


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    command: tuple[str, ...]
    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return (
            f"`{' '.join(self.command)}` ended with exit code {self.code}\n"
            f"--- stdout\n{self.out}\n--- stderr\n{self.err}"
        )


class Process:
    """A daemon in the background, with a file that takes all it says."""

    def __init__(self, name: str, argv: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self._read_from = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            self._popen = forked.start(
                argv, env=env, output=output, own_group=True, dies_with_us=True
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    def running(self) -> bool:
        return self._popen.poll() is None

    def exit_code(self) -> int | None:
        """None while it runs; negative when a signal ended it."""
        return self._popen.poll()

    def said(self) -> str:
        """What this process (not its predecessors) has written so far."""
        with self.log.open("rb") as file:
            file.seek(self._read_from)
            return file.read().decode(errors="replace")

    def wait(self, seconds: float = 60.0) -> int:
        """Waits until it ends by itself."""
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} still runs after {seconds:g} s:\n{tail(self.said())}"
            ) from None

    def send(self, number: signal.Signals) -> None:
        self._popen.send_signal(number)

    def go_on(self) -> None:
        """SIGCONT, when it stands still."""
        go_on(self.pid, lambda: not self.running())

    def kill(self) -> None:
        """SIGKILL, as the kernel's out-of-memory killer would."""
        self._popen.kill()
        self._popen.wait(60)

    def stop(self, seconds: float = 60.0) -> int:
        """SIGTERM; its exit code.  A process that does not obey fails the test."""
        if self.running():
            self._popen.terminate()
        return self.wait(seconds)


def stat(pid: int) -> list[str]:
    """State of a process, its parent and what follows; an empty state and 0 when it has gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["", "0"]


def is_stopped(pid: int) -> bool:
    """Whether a process stands still by a signal."""
    return stat(pid)[0] == "T"


def go_on(pid: int, ended: Callable[[], bool]) -> None:
    """Sends SIGCONT to a process that stands still, or is about to: sent before, it is lost.

    At a crash point a process leaves its mark first, and a busy machine may keep it from stopping.
    """
    wait_for(lambda: is_stopped(pid) or ended(), timeout=120, what=f"a stop of process {pid}")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@dataclass
class Processes:
    """All processes of one scenario."""

    directory: Path
    environment: dict[str, str] = field(default_factory=dict)
    _run: str = field(default_factory=lambda: uuid.uuid4().hex)
    _all: list[Process] = field(default_factory=list)

    def start(
        self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None
    ) -> Process:
        """Starts a process in the background; ``name`` is that of its log file."""
        process = Process(name, argv, self._environment(env or {}), self.directory / f"{name}.log")
        self._all.append(process)
        return process

    def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        seconds: float = 120.0,
    ) -> Done:
        """Runs a process to its end."""
        try:
            done = forked.run(
                argv, env=self._environment(env or {}), timeout=seconds, dies_with_us=True
            )
        except subprocess.TimeoutExpired as late:
            raise AssertionError(
                f"`{' '.join(argv)}` still runs after {seconds:g} s:\n"
                f"{tail(str(late.stderr))}\n{self.report()}"
            ) from None
        ended = Done(tuple(argv), done.returncode, done.stdout, plain(done.stderr))
        assert _NOT_LOGGED not in ended.err, str(ended)
        if "londiste" in argv:
            check_output(argv, ended.out)
        return ended

    def living(self) -> dict[int, str]:
        """Every living process that descends from this scenario, with its command line."""
        mark = f"{_MARK}={self._run}".encode()
        found = {}
        for pid, environment in _environments():
            if mark in environment.split(b"\0"):
                with contextlib.suppress(OSError):
                    if _state(pid) != "Z":
                        found[pid] = command_line(pid)
        return found

    def find(self, *words: str) -> list[int]:
        """The living processes whose arguments contain all these words."""
        return sorted(
            pid for pid, line in self.living().items() if all(w in line.split() for w in words)
        )

    def everything_said(self) -> str:
        """All log files together."""
        return "\n".join(
            path.read_text(errors="replace") for path in sorted(self.directory.glob("*.log"))
        )

    def report(self) -> str:
        """The ends of all log files, for the message of a failed test."""
        parts = []
        for path in sorted(self.directory.glob("*.log")):
            parts.append(f"--- {path.name}\n{tail(path.read_text(errors='replace'))}")
        return "\n".join(parts)

    def close(self) -> list[str]:
        """Ends everything; what must not be left.

        The command lines of descendants that outlived their parents, and the names of logs with a
        line that could not be put together.
        """
        for process in self._all:
            if process.running():
                with contextlib.suppress(ProcessLookupError):
                    process.send(signal.SIGTERM)
        for process in self._all:
            try:
                process.wait()
            except AssertionError:
                process.kill()
        left: dict[int, str] = {}
        try:
            wait_for(lambda: not self.living(), what="the end of all processes")
        except AssertionError:
            left = self.living()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        wrong = [
            f"a wrong line in {path.name}:\n{tail(path.read_text(errors='replace'), 60)}"
            for path in sorted(self.directory.glob("*.log"))
            if _NOT_LOGGED in path.read_text(errors="replace")
        ]
        return [*left.values(), *wrong]

    def clean_environment(self) -> dict[str, str]:
        """What every process of the scenario starts with."""
        return self._environment({})

    def _environment(self, more: Mapping[str, str]) -> dict[str, str]:
        clean = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PG", "LONDISTE_")) or key == "LONDISTE_PGBIN"
        }
        return {**clean, **self.environment, _MARK: self._run, **more}


def command_line(pid: int) -> str:
    """The arguments of a process, joined by spaces; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def tail(text: str, lines: int = 40) -> str:
    """The last lines of a log."""
    return "\n".join(text.splitlines()[-lines:])


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _environments() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "environ").read_bytes()
