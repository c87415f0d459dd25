"""Runs an example by the commands that its top prints."""

from __future__ import annotations

import ast
import re
import shlex
import string
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.support.scenarios.processes import Done, Process, Processes

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


class Example:
    """One program, and a database for it."""

    def __init__(self, name: str, db: Database, processes: Processes, environment: dict[str, str]):
        self.db = db
        self.file = f"examples/{name}.py"
        self.environment = {"LONDISTE_DB": db.dsn, **environment}
        #: Whether the program is started as a file, as its head says: the same, but slow.
        self.as_printed = name == "welcome" or name.startswith("spark_")
        self._processes = processes
        self.head = ast.get_docstring(ast.parse((ROOT / self.file).read_text("utf-8"))) or ""
        #: The commands of the head that have not been run yet.
        self.commands = re.findall(r"(?m)^    ((?:londiste|python|psql) .*)$", self.head)

    def run(self, start: str, *more: str, **environment: str) -> Done:
        """Runs the next command of the head, which has to begin so, to its end."""
        done = self._processes.run(
            self._argv(self._next(start)) + list(more), {**self.environment, **environment}
        )
        assert done.code == 0, done
        return done

    def start(self, start: str, *more: str, crash: str = "", **environment: str) -> Process:
        """Starts the next command of the head in the background."""
        return self.start_again(self._next(start), *more, crash=crash, **environment)

    def start_again(self, line: str, *more: str, crash: str = "", **environment: str) -> Process:
        """Starts a command in the background, whether it is in the head or not."""
        own = {**self.environment, **environment}
        if crash:
            own["LONDISTE_CRASH"] = crash
        name = re.sub(r"\W+", "-", line.removeprefix(f"python {self.file}"))
        return self._processes.start(
            f"{Path(self.file).stem}{name}", self._argv(line) + list(more), own
        )

    def sql(self, start: str) -> None:
        """Runs the next command of the head, one of psql, without psql."""
        words = self._argv(self._next(f'psql "$LONDISTE_DB" -c "{start}'))
        assert words[:3] == ["psql", self.db.dsn, "-c"], words
        self.db.execute(words[3])

    def tick(self, queue: str) -> None:
        """What the ticker does, now."""
        conn = self.db.connect()
        queues.maint_retry_events(conn)
        queues.force_tick(conn, queue)
        queues.ticker(conn, queue)

    def _next(self, start: str) -> str:
        assert self.commands, "the head has no more commands"
        line = self.commands.pop(0)
        assert line.startswith(start), line
        return line

    def _argv(self, line: str) -> list[str]:
        first, *words = shlex.split(line.removesuffix(" &"))
        words = [string.Template(word).safe_substitute(self.environment) for word in words]
        if first == "londiste":
            return [sys.executable, "-m", "londiste", *words]
        if first != "python":
            return [first, *words]
        if words[0] == self.file and not self.as_printed:
            # As a module it can be forked.
            return [sys.executable, "-m", f"examples.{Path(self.file).stem}", *words[1:]]
        return [sys.executable, *words]


@pytest.fixture
def example(
    pgq_db: Database, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Example]:
    """Makes the example of a name, in a database with queues; more is for its environment."""
    # The heads name the programs from there.
    monkeypatch.chdir(ROOT)

    def make(name: str, *, db: Database = pgq_db, **environment: str) -> Example:
        return Example(name, db, processes, environment)

    return make
