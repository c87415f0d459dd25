"""The programs of a self-test: ticker and worker as children, and commands, with their outputs."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from psycopg import conninfo

from londiste.cascade.commands.endpoint import worker_settings
from londiste.daemon.child import Child
from londiste.dsn import SECRETS
from londiste.orchestration import daemons
from londiste.orchestration.daemons import TICKER, Need
from londiste.selftest.pair import QUEUE, Pair
from londiste.selftest.shapes import MARK
from londiste.settings import TickerSettings, WorkerSettings

WORKER = "worker"
#: Seconds that worker and commands of the test wait for a lock.
LOCK_SECONDS = 2.0

_KEYS = frozenset(WorkerSettings.model_fields) | frozenset(TickerSettings.model_fields)
_COPY = re.compile(r"copy process (\d+) started")


@dataclass
class Program:
    """A child and the file of its output."""

    child: Child
    output: Path

    def text(self) -> str:
        return self.output.read_text(encoding="utf-8", errors="replace")


class Programs:
    """All programs of a test; ``close`` ends them.

    own_ticker -- no other process runs a ticker in the source.
    """

    def __init__(self, pair: Pair, directory: Path, *, own_ticker: bool) -> None:
        self.directory = directory
        self._pair = pair
        self._needs = {WORKER: self._of_worker("worker")}
        if own_ticker:
            databases = {"databases": pair.source.dsn}
            self._needs[TICKER] = daemons.need(TICKER, "ticker", databases, _KEYS, verbose=())
        self.daemons: dict[str, Program] = {}
        self._commands: list[Program] = []
        self._count = 0
        #: Daemons that a signal of the test has ended, or is about to.
        self._killed: set[str] = set()

    def _of_worker(self, command: str) -> Need:
        pair = self._pair
        settings = worker_settings(pair.settings, QUEUE, pair.target, pair.source, logfile=None)
        values = {key: getattr(settings, key) for key in settings.model_fields_set}
        values["lock_timeout"] = LOCK_SECONDS
        return daemons.need(command, command, values, _KEYS, verbose=())

    def revive(self) -> list[str]:
        """Starts the daemons that do not run; those that have ended without a signal, and how."""
        wrong = []
        for name, need in self._needs.items():
            program = self.daemons.get(name)
            code = None if program is None else program.child.exit_code()
            if program is not None and code is None:
                continue
            if code is not None and not (code < 0 and name in self._killed):
                wrong.append(f"the {name} ended with exit code {code}")
            self._killed.discard(name)
            self.daemons[name] = self._start(name, need, ())
        return wrong

    def send(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to a daemon."""
        if number is signal.SIGKILL:
            self._killed.add(name)
        self.daemons[name].child.signal(number)

    def copies(self) -> list[int]:
        """Ids of the copy processes that the worker has started, the newest last."""
        return [int(pid) for pid in _COPY.findall(self.daemons[WORKER].text())]

    def send_to_copy(self, pid: int, number: signal.Signals) -> None:
        """Sends a signal to a copy process, which leads its own process group, if it runs."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getpgid(pid) == pid:
                os.kill(pid, number)

    def command(self, *words: str) -> Program:
        """Starts a command about the target's node."""
        program = self._start(words[0], self._of_worker(words[0]), words[1:])
        self._commands.append(program)
        return program

    def _start(self, name: str, need: Need, words: tuple[str, ...]) -> Program:
        self._count += 1
        output = self.directory / f"{self._count:03d}-{name}.log"
        with output.open("wb") as file:
            child = Child.start([*need.argv, *words], env=need.environment, output=file)
        return Program(child, output)

    def offences(self) -> list[str]:
        """Outputs with a secret, a value of a row or a traceback."""
        secrets = [
            str(value)
            for side in self._pair.both
            for key, value in conninfo.conninfo_to_dict(side.dsn).items()
            if key in SECRETS and len(str(value)) > 3
        ]
        wrong = []
        for path in sorted(self.directory.glob("*.log")):
            text = path.read_text(encoding="utf-8", errors="replace")
            found = {
                "a password": any(secret in text for secret in secrets),
                # These two print rows.
                "a value of a row": MARK in text and not re.search("compare|repair", path.name),
                "a traceback": "Traceback" in text,
            }
            wrong += [f"{what} in {path.name}" for what, there in found.items() if there]
        return wrong

    def close(self) -> None:
        """Ends all programs."""
        every = [*self.daemons.values(), *self._commands]
        for program in every:
            with contextlib.suppress(ProcessLookupError):
                program.child.signal(signal.SIGCONT)
                program.child.signal(signal.SIGTERM)
        for program in every:
            program.child.terminate()
        self.daemons.clear()
        self._commands.clear()
