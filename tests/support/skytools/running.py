"""Runs programs of earlier versions: their settings files, their processes, their queues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.fixtures.cluster import Database
from tests.support.programs import forked
from tests.support.programs.earlier import PROGRAMS as PROGRAMS
from tests.support.programs.earlier import ROOT as ROOT
from tests.support.waiting import wait_for


def ini(folder: Path, section: str, **keys: object) -> str:
    """A settings file of one section; its path."""
    file = folder / f"{keys.get('job_name', section)}.ini"
    lines = "".join(f"{key} = {value}\n" for key, value in keys.items())
    file.write_text(f"[{section}]\n{lines}")
    return str(file)


class Started:
    """A running program: a file of this folder (``welcome.py``), or an entry point (``pgqadm``).

    crash -- LONDISTE_CRASH, where it dies by SIGKILL; environment -- more variables.
    """

    def __init__(
        self,
        program: str,
        *arguments: str,
        crash: str = "",
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.program = program
        self.crash = crash
        handle, name = tempfile.mkstemp(prefix="program-")
        os.close(handle)
        self._output = Path(name)
        argv = [sys.executable, "-m", "tests.support.programs.earlier", program, *arguments]
        more = {"PYTHONPATH": str(ROOT), "LONDISTE_CRASH": crash, **(environment or {})}
        with self._output.open("ab") as output:
            self._process = forked.start(
                argv, env={**os.environ, **more}, output=output, cwd=cwd, dies_with_us=True
            )
        self.pid = self._process.pid

    @property
    def text(self) -> str:
        """What it has printed, on both channels."""
        return self._output.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal."""
        os.kill(self.pid, number)

    def end(self, expect: int | None = None) -> str:
        """Waits for the end; what it printed.  The code must be that of the crash, or this."""
        code: int | None = None
        try:
            code = self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        text = self.text
        self._output.unlink()
        wanted = (-9 if self.crash else 0) if expect is None else expect
        assert code == wanted, f"{self.program} ended with {code}, not {wanted}:\n{text}"
        return text

    def kill_while_waiting(self, db: Database) -> str:
        """Kills it with -9 as soon as a session waits for a lock in the database; what it printed.

        So a test with the lock chooses the place of the work where it dies.
        """
        backend = wait_for(
            lambda: waiting(db), what=f"a session that waits for a lock:\n{self.text}"
        )
        self.signal(signal.SIGKILL)
        text = self.end(-9)
        # Its session would otherwise go on as soon as it gets the lock.
        db.execute("select pg_terminate_backend(%s, 30000)", backend)
        return text


def waiting(db: Database, application: str = "") -> int | None:
    """The server process of a session that waits for a lock; None if none does."""
    found: int | None = db.value(
        "select pid from pg_stat_activity where datname = current_database()"
        " and wait_event_type = 'Lock' and starts_with(application_name, %s)",
        application,
    )
    return found


def run(
    program: str,
    *arguments: str,
    crash: str = "",
    expect: int | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Runs a program to its end; what it printed.  ``crash`` is LONDISTE_CRASH: it must die."""
    started = Started(program, *arguments, crash=crash, cwd=cwd, environment=environment)
    return started.end(expect)


def send(db: Database, queue: str, *events: tuple[str, ...]) -> None:
    """Inserts events and creates a tick."""
    rows = [[*event, *[None] * (6 - len(event))] for event in events]
    with db.connect() as conn:
        for fields in rows:
            conn.execute("select pgq.insert_event(%s, %s, %s, %s, %s, %s, %s)", [queue, *fields])
        conn.execute("select pgq.force_tick(%s)", [queue])
        conn.execute("select pgq.ticker(%s)", [queue])


def tick(db: Database, queue: str) -> None:
    """Creates a tick."""
    send(db, queue)


def column(db: Database, statement: str) -> list[object]:
    """The first column of a result."""
    return [row[0] for row in db.execute(statement)]


@contextmanager
def held(db: Database, statement: str = "select pg_advisory_lock(1)") -> Iterator[None]:
    """Holds a lock in a session of its own: where a program waits for it, it can be killed."""
    with psycopg.connect(db.dsn) as conn:
        conn.execute(statement)
        yield
        conn.rollback()
        conn.execute("select pg_advisory_unlock_all()")


def wait_in_the_middle(db: Database, table: str, condition: str) -> None:
    """Lets inserts of some rows wait for ``held``: ``new.name = 'bert'``."""
    db.execute(
        "create function wait_for_test() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock(1); return new; end';"
        f"create trigger wait_for_test before insert on {table} for each row"
        f" when ({condition}) execute function wait_for_test()"
    )
