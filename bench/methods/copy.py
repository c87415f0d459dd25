"""Methods of an initial copy that bench.copy measures end to end.

Every way has a source database and a target database of its own.  The source has the rows, the
target the empty tables with keys, indexes and foreign keys; what is running all the time (worker,
ticker) runs before the clock does.  The clock ends when the tables are there and followed: with a
subscription ``ready``, with Londiste ``ok`` and every index and foreign key back, with pgcopydb
when the program has ended.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

import psycopg
from psycopg import conninfo

from bench.support import common, cpu
from bench.workloads.copy_tables import Case
from londiste.embedded.postgres import Cluster

QUEUE = "bench"
#: Of both servers.
SETTINGS = {"checkpoint_timeout": "1h", "max_wal_size": "16GB"}
TEMPLATE = "template_of_bench"
#: Seconds between looks at the memory of a copy process.
_LOOK = 0.02


class Way:
    """One way of copying, with its two databases of the same name."""

    name: str
    key: str
    follows = True

    def __init__(self, source: Cluster, target: Cluster, folder: Path, case: Case) -> None:
        self.source = source
        self.target = target
        self.folder = folder
        self.case = case
        self.memory = 0.0

    def prepare(self, template: str) -> None:
        """The source from a template, the target empty; everything that runs all the time."""
        with common.connect(self.source) as conn:
            conn.execute(f"create database {self.key} template {template}".encode())
        self.target.create_database(self.key)
        self.begin()

    def begin(self) -> None:
        """What is there before the copy."""

    def copy(self) -> float:
        """Copies, and returns the seconds until the tables are followed."""
        raise NotImplementedError

    def forget(self) -> None:
        """The target is as before the copy."""

    def end(self) -> None:
        """Nothing runs any more; both databases are gone."""
        for cluster in (self.source, self.target):
            with common.connect(cluster) as conn:
                conn.execute(f"drop database {self.key} with (force)".encode())

    def fresh(self) -> None:
        """Empty tables on the target, and no dirty pages of somebody else's."""
        with common.connect(self.target, self.key) as conn:
            self.case.drop(conn)
            self.case.empty(conn)
            conn.execute("checkpoint")
        with common.connect(self.source, self.key) as conn:
            conn.execute("checkpoint")

    def check(self) -> None:
        """Both sides hold the same, indexes and foreign keys too."""
        deadline = time.monotonic() + 120
        while True:
            found = []
            for cluster in (self.source, self.target):
                with common.connect(cluster, self.key) as conn:
                    found.append(self.case.contents(conn))
            if found[0] == found[1]:
                return
            # Changes that were made until a moment ago are on their way.
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.name}: source and target: {found}")
            time.sleep(0.2)


@contextlib.contextmanager
def prepared(source: Cluster, case: Case, rows: int, ways: Sequence[Way]) -> Iterator[None]:
    """All ways with their databases, the sources alike; all of it is gone afterwards."""
    source.create_database(TEMPLATE)
    with common.connect(source, TEMPLATE) as conn:
        case.make(conn, rows)
        conn.execute("vacuum (freeze, analyze)")
    begun: list[Way] = []
    try:
        for way in ways:
            # Before it is prepared: a half made one has to be ended, too.
            begun.append(way)
            way.prepare(TEMPLATE)
        yield
    finally:
        for way in begun:
            with contextlib.suppress(Exception):
                way.end()
        source.drop_database(TEMPLATE)


class Native(Way):
    """A subscription, from its creation until all tables are ready."""

    name = "native subscription"
    key = "native"

    def begin(self) -> None:
        with common.connect(self.source, self.key) as conn:
            names = ", ".join(f"public.{name}" for name in self.case.tables)
            conn.execute(f"create publication p for table {names}".encode())

    def copy(self) -> float:
        started = time.perf_counter()
        with common.connect(self.target, self.key) as conn:
            dsn = self.source.dsn(self.key).replace("'", "''")
            conn.execute(f"create subscription s connection '{dsn}' publication p".encode())
            common.wait_until(
                "select bool_and(srsubstate = 'r') from pg_subscription_rel", conn, seconds=3600
            )
        return time.perf_counter() - started

    def forget(self) -> None:
        with common.connect(self.target, self.key) as conn:
            conn.execute("drop subscription if exists s")


class Pgcopydb(Way):
    """The whole database by pgcopydb, which makes tables and indexes itself; it does not follow."""

    name = "pgcopydb"
    key = "pgcopydb"
    follows = False
    program: Path

    def fresh(self) -> None:
        super().fresh()
        with common.connect(self.target, self.key) as conn:
            self.case.drop(conn)

    def copy(self) -> float:
        folder = self.folder / f"pgcopydb-{time.monotonic_ns()}"
        started = time.perf_counter()
        done = subprocess.run(
            [
                *(str(self.program), "clone", "--dir", str(folder), "--no-owner", "--no-acl"),
                *("--table-jobs", "2", "--index-jobs", "2"),
                *("--split-tables-larger-than", "200MB"),
                *("--source", uri(self.source.dsn(self.key))),
                *("--target", uri(self.target.dsn(self.key))),
            ],
            env={**self.target.environment(), "PATH": f"{self.target.bindir}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise AssertionError(f"pgcopydb: {done.stderr[-2000:]}")
        return time.perf_counter() - started


class Replicated(Way):
    """A Londiste: root and leaf, worker and ticker run; ``add-table`` on the leaf until ok."""

    running: list[subprocess.Popen[bytes]]

    def command(self, node: str, *args: str) -> list[str]:
        """The command line of the program for a node."""
        raise NotImplementedError

    def run(self, node: str, *args: str) -> None:
        """Runs a command on one of the nodes."""
        done = subprocess.run(self.command(node, *args), capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"londiste {args[0]}: {done.stdout[-500:]}{done.stderr[-1000:]}")

    def add(self) -> list[str]:
        """The command that adds the tables on the leaf."""
        return ["add-table", *self.case.tables]

    def started(self) -> None:
        """Waits until worker and ticker do their work: the leaf knows the tables of the root."""
        with common.connect(self.target, self.key) as conn:
            common.wait_until(
                f"select count(*) = {len(self.case.tables)} from londiste.table_info", conn
            )

    def copy(self) -> float:
        started = time.perf_counter()
        self.run("leaf", *self.add())
        with common.connect(self.target, self.key) as conn:
            while not self._there(conn):
                for process in self.running:
                    if process.poll() is not None:
                        raise AssertionError(f"{self.name}: a program ended: {process.args!r}")
                    self._note_memory(process.pid)
                if time.perf_counter() - started > 3600:
                    raise TimeoutError(f"{self.name}: not ok after an hour")
                time.sleep(_LOOK)
        return time.perf_counter() - started

    def forget(self) -> None:
        self.run("leaf", "remove-table", *self.case.tables)

    def end(self) -> None:
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.wait()
        super().end()

    def _there(self, conn: psycopg.Connection) -> bool:
        row = conn.execute(
            "select count(*) filter (where merge_state = 'ok') = %s"
            " and not exists (select 1 from londiste.pending_fkeys)"
            " from londiste.table_info where local",
            [len(self.case.tables)],
        ).fetchone()
        return row == (True,)

    def _note_memory(self, pid: int) -> None:
        """Of the copy process, which the worker has started; a JVM is its child, not it."""


class Ours(Replicated):
    """Our worker at default settings but the engine."""

    def __init__(
        self,
        source: Cluster,
        target: Cluster,
        folder: Path,
        case: Case,
        *,
        engine: str = "local",
        mode: str = "snapshot",
        waits: bool = False,
    ) -> None:
        """waits -- the first chunk waits for the engine, as it did before."""
        super().__init__(source, target, folder, case)
        self.engine = engine
        self.mode = mode
        self.more = "spark_min_bytes = 0\n" if waits else ""
        self.name = f"londiste, {engine}, {mode}" + (", waits for Spark" if waits else "")
        self.key = f"ours_{engine}_{mode}" + ("_waits" if waits else "")
        self.running = []

    def add(self) -> list[str]:
        return [*super().add(), "--copy-mode", self.mode]

    def begin(self) -> None:
        for name, cluster in (("root", self.source), ("leaf", self.target)):
            self._file(name).write_text(
                f'[londiste]\ndb = "{cluster.dsn(self.key)}"\nqueue_name = "{QUEUE}"\n'
                f'job_name = "{name}"\nengine = "{self.engine}"\n{self.more}'
            )
            self.run(name, "install")
        self._file("ticker").write_text(f'[ticker]\ndb = "{self.source.dsn(self.key)}"\n')
        root, leaf = self.source.dsn(self.key), self.target.dsn(self.key)
        self.run("root", "create-root", "root", root)
        self.run("leaf", "create-leaf", "leaf", leaf, "--provider", root)
        self.run("root", "add-table", *self.case.tables)
        self.running = [
            subprocess.Popen(self.command("ticker", "ticker")),
            subprocess.Popen(self.command("leaf", "worker")),
        ]
        self.started()

    def fresh(self) -> None:
        super().fresh()
        # The copy process of the round before ends when it sees that nothing is left.
        with common.connect(self.target, self.key) as conn:
            common.wait_until(
                "select not exists (select 1 from pg_stat_activity where"
                " datname = current_database() and application_name = 'londiste copy')",
                conn,
            )

    def command(self, node: str, *args: str) -> list[str]:
        return [sys.executable, "-m", "londiste", "-q", "-c", str(self._file(node)), *args]

    def _file(self, node: str) -> Path:
        return self.folder / f"{self.key}-{node}.toml"

    def _note_memory(self, pid: int) -> None:
        for child in _children(pid):
            with contextlib.suppress(OSError, ValueError):
                self.memory = max(self.memory, cpu.peak_memory(child))


class Londiste3(Replicated):
    """Londiste 3 with pgqd, as its packages come."""

    name = "Londiste 3"
    key = "original"
    program: Path
    ticker: Path

    def begin(self) -> None:
        self.running = []
        for cluster in (self.source, self.target):
            with common.connect(cluster, self.key) as conn:
                for extension in ("pgq", "pgq_node", "londiste"):
                    conn.execute(f"create extension {extension}".encode())
        for name, cluster in (("root", self.source), ("leaf", self.target)):
            self._file(name).write_text(
                f"[londiste]\njob_name = {name}\ndb = {cluster.dsn(self.key)}\n"
                f"queue_name = {QUEUE}\nparallel_copies = 2\n"
                f"logfile = {self.folder}/{self.key}-{name}.log\n"
                f"pidfile = {self.folder}/{self.key}-{name}.pid\n"
            )
        base = conninfo.make_conninfo(self.source.dsn(self.key), dbname=None)
        self._file("ticker").write_text(
            f"[pgqd]\nbase_connstr = {base}\ninitial_database = {self.key}\n"
            f"database_list = {self.key}\nlogfile = {self.folder}/pgqd.log\n"
            f"pidfile = {self.folder}/pgqd.pid\n"
        )
        root, leaf = self.source.dsn(self.key), self.target.dsn(self.key)
        self.run("root", "create-root", "root", root)
        self.run("leaf", "create-leaf", "leaf", leaf, f"--provider={root}")
        self.run("root", "add-table", *self.case.tables)
        with common.connect(self.source, self.key) as conn:
            # By default a queue without events ticks once a minute, and the copy waits for that.
            conn.execute("select pgq.set_queue_config(%s, 'ticker_idle_period', '1 s')", [QUEUE])
        self.running = [
            subprocess.Popen(
                [self.ticker, "-q", self._file("ticker")],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            ),
            subprocess.Popen([self.program, "-q", self._file("leaf"), "worker"]),
        ]
        self.started()

    def command(self, node: str, *args: str) -> list[str]:
        return [str(self.program), "-q", str(self._file(node)), *args]

    def _file(self, node: str) -> Path:
        return self.folder / f"{self.key}-{node}.ini"


def uri(dsn: str) -> str:
    """A connection string as a URI, which some programs want."""
    parts = conninfo.conninfo_to_dict(dsn)
    database = quote(str(parts.pop("dbname")))
    return f"postgresql:///{database}?{urlencode({k: str(v) for k, v in parts.items()})}"


def _children(pid: int) -> list[int]:
    try:
        return [
            int(child)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    except OSError:
        return []
