"""The original beside us: its extensions in a server of the system, its programs as processes.

In Debian these are postgresql-15-pgq3, postgresql-15-pgq-node, postgresql-15-londiste-sql, pgqd and
python3-londiste.  Where they are missing the tests are skipped, and say what is missing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from londiste.embedded.homes import throwaway_home
from londiste.embedded.postgres import Cluster
from londiste.errors import ServerBinariesMissing
from tests.fix_cluster import SETTINGS, Database, create_database, memory_directory
from tests.fix_process import ROOT
from tests.waiting import wait_for

EXTENSIONS = ("pgq", "pgq_node", "londiste")
_VERSION = 15


@pytest.fixture(scope="session")
def original_server() -> Iterator[Cluster]:
    """A server that has the extensions of the original."""
    home = throwaway_home(memory_directory())
    try:
        server = Cluster.start(home, "original", version=_VERSION, settings=SETTINGS)
    except ServerBinariesMissing:
        pytest.skip(f"no PostgreSQL {_VERSION}, for which there are packages of the original")
    with server:
        with psycopg.connect(server.dsn()) as conn:
            rows = conn.execute("select name from pg_available_extensions").fetchall()
        missing = set(EXTENSIONS) - {name for (name,) in rows}
        if missing:
            pytest.skip(f"extensions of the original are not installed: {', '.join(missing)}")
        yield server


def original_database(server: Cluster) -> Database:
    """A database with the extensions; the caller drops it."""
    database = create_database(server, pgq=False)
    for name in EXTENSIONS:
        database.execute(f"create extension {name}")
    return database


@dataclass
class Original:
    """Runs the programs of the original, and ours beside them, on databases of one server."""

    server: Cluster
    folder: Path
    londiste: Path
    pgqd: Path
    databases: dict[str, Database] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def node(self, name: str, *, ours: bool) -> Database:
        """A database for node ``name`` of queue q, with our SQL or theirs."""
        made = create_database(self.server, pgq=True) if ours else original_database(self.server)
        self.databases[name] = made
        (self.folder / f"{name}.ini").write_text(
            f"[londiste]\njob_name = {name}\ndb = {made.dsn}\nqueue_name = q\nloop_delay = 0.05\n"
            f"logfile = {self.folder}/{name}.log\npidfile = {self.folder}/{name}.pid\n"
        )
        return made

    def theirs(self, name: str, *args: str) -> str:
        """Runs a command of theirs on a node; what it printed."""
        done = subprocess.run(
            [self.londiste, self.folder / f"{name}.ini", *args],
            capture_output=True,
            text=True,
            env=_plain_environment(),
            cwd=self.folder,
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, f"londiste {' '.join(args)} on {name}: {output[-2000:]}"
        return output

    def ours(self, name: str, *args: str, fails: int = 0) -> str:
        """The same with our program, which reads the same file."""
        done = subprocess.run(
            [sys.executable, "-m", "londiste", str(self.folder / f"{name}.ini"), *args],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            cwd=self.folder,
            check=False,
        )
        output = done.stdout + done.stderr
        assert done.returncode == fails, f"our {' '.join(args)} on {name}: {output[-2000:]}"
        return output

    def tick(self) -> None:
        """Their ticker looks after all databases from now on."""
        names = ", ".join(database.name for database in self.databases.values())
        file = self.folder / "pgqd.ini"
        file.write_text(
            f"[pgqd]\nbase_connstr = {self.server.dsn('')}\ninitial_database = postgres\n"
            f"database_list = {names}\nlogfile = {self.folder}/pgqd.log\n"
            f"pidfile = {self.folder}/pgqd.pid\nticker_period = 0.1\n"
        )
        self._start("pgqd", [str(self.pgqd), str(file)], _plain_environment())

    def work(self, name: str, *, ours: bool = False) -> None:
        """A worker of a node: theirs, or ours in its place."""
        if name in self.running:
            self.stop(name)
        program = [sys.executable, "-m", "londiste"] if ours else [str(self.londiste)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)} if ours else _plain_environment()
        self._start(name, [*program, str(self.folder / f"{name}.ini"), "worker"], environment)

    def stop(self, name: str) -> None:
        """The process is asked to end, and has ended."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGINT if name != "pgqd" else signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def text(self, name: str) -> str:
        """What a worker has printed."""
        return (self.folder / f"{name}.out").read_text(encoding="utf-8", errors="replace")

    def wait_equal(self, source: str, target: str, table: str, *, timeout: float = 90) -> None:
        """Waits until a table has the same rows on both nodes."""
        content = f"select count(*), md5(string_agg(t::text, e'\\n' order by id)) from {table} t"
        wait_for(
            lambda: (
                self.databases[source].execute(content) == self.databases[target].execute(content)
            ),
            timeout=timeout,
            what=f"{table} on {target} to be what it is on {source}; {self.text(target)[-1500:]}",
        )

    def wait_copied(self, name: str, tables: int, *, timeout: float = 150) -> None:
        """Waits until that many tables of a node are in step."""
        asked = "select count(*) from londiste.table_info where local and merge_state = 'ok'"
        wait_for(
            lambda: self.databases[name].value(asked) == tables,
            timeout=timeout,
            what=f"the copies of {name}; {self.text(name)[-1500:]}",
        )

    def _start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        with (self.folder / f"{name}.out").open("ab") as output:
            self.running[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=self.folder,
            )


@pytest.fixture
def original(original_server: Cluster, tmp_path: Path) -> Iterator[Original]:
    """Their programs and databases for them; all ends with the test."""
    londiste, pgqd = (Path("/usr/bin") / name for name in ("londiste", "pgqd"))
    for program in (londiste, pgqd):
        if not program.exists():
            pytest.skip(f"the original's program {program.name} is not installed")
    made = Original(original_server, tmp_path, londiste, pgqd)
    yield made
    for name in list(made.running):
        made.stop(name)
    for database in made.databases.values():
        database.drop()


def _plain_environment() -> dict[str, str]:
    """Nothing of ours on the path: their program has the same name for its package."""
    return {"PATH": "/usr/bin:/bin", "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8"}
