"""Servers and databases for tests: one server per session, a fresh database per test.

The servers are embedded ones.  ``LONDISTE_TEST_SERVERS=docker`` takes containers instead,
``LONDISTE_TEST_DSN`` a server that runs already; the tests do not see the difference, except
that a server which is not ours cannot be stopped.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest

from londiste.db import connection
from londiste.embedded.homes import throwaway_home
from londiste.embedded.postgres import Cluster
from tests.other_servers import DockerCluster, ExternalCluster

Server: TypeAlias = Cluster | DockerCluster | ExternalCluster

#: Small: several pytest workers with two servers each share a small machine.
SETTINGS = {
    "shared_buffers": "32MB",
    "max_connections": "60",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "logical",
    "max_prepared_transactions": "20",
    "checkpoint_timeout": "1h",
    "max_wal_size": "512MB",
    "log_min_messages": "warning",
}

_TEMPLATE = "template_pgq"
_numbers = itertools.count(1)


@dataclass
class Database:
    """A database of one test, dropped after it."""

    cluster: Server
    name: str
    _open: list[connection.Connection] = field(default_factory=list, repr=False)

    @property
    def dsn(self) -> str:
        """A connection string for libpq."""
        return self.cluster.dsn(self.name)

    def connect(self, **options: Any) -> connection.Connection:
        """A connection as the program opens them, autocommit unless told otherwise.

        It is closed after the test.
        """
        conn = connection.connect(self.dsn, **{"autocommit": True, **options})
        self._open.append(conn)
        return conn

    def execute(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Runs one statement in a session of its own and returns its rows, if it has any.

        Without parameters the text goes to the server as it is: ``%`` needs no doubling, and
        several statements may follow each other.
        """
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            cursor = conn.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *parameters: Any) -> Any:
        """The first column of the first row; None when there is no row."""
        rows = self.execute(statement, *parameters)
        return rows[0][0] if rows else None

    def drop(self) -> None:
        for conn in self._open:
            conn.close()
        self.cluster.drop_database(self.name)


def wanted_version() -> int:
    """The release that the tests run on."""
    return int(os.environ.get("LONDISTE_TEST_PG") or 18)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Server]:
    """The server for most tests: PostgreSQL 18, or what LONDISTE_TEST_PG names."""
    dsn = os.environ.get("LONDISTE_TEST_DSN")
    if dsn:
        yield ExternalCluster(dsn)
        return
    with start_server("main", wanted_version()) as server:
        yield server


@pytest.fixture(scope="session")
def cluster16() -> Iterator[Server]:
    """A second server, of PostgreSQL 16."""
    with start_server("second", 16) as server:
        yield server


@pytest.fixture
def new_cluster() -> Iterator[Callable[..., Cluster]]:
    """Starts embedded servers that belong to one test: to be stopped, killed, restarted.

    Takes the arguments of ``Cluster.start`` but home; settings are added to those of tests.
    """
    yield from _own_clusters()


@pytest.fixture(scope="module")
def own_servers() -> Iterator[Callable[..., Cluster]]:
    """The same for all tests of a file."""
    yield from _own_clusters()


def _own_clusters() -> Iterator[Callable[..., Cluster]]:
    started: list[Cluster] = []
    home = throwaway_home(memory_directory())

    def start(name: str = "own", *, version: int | None = None, **options: Any) -> Cluster:
        options["settings"] = {**SETTINGS, **options.get("settings", {})}
        cluster = Cluster.start(home, name, version=version or 18, **options)
        started.append(cluster)
        return cluster

    yield start
    for cluster in started:
        cluster.remove()
    if home.exists():
        home.rmdir()


@pytest.fixture
def new_database(cluster: Server) -> Iterator[Callable[..., Database]]:
    """Makes as many databases as a test asks for: ``new_database()``, ``new_database(on=…)``.

    on -- the server; pgq -- True for one with all SQL components installed.
    """
    made: list[Database] = []

    def make(*, on: Server | None = None, pgq: bool = False) -> Database:
        server = on or cluster
        made.append(create_database(server, pgq=pgq))
        return made[-1]

    yield make
    for database in made:
        database.drop()


@pytest.fixture
def database(cluster: Server) -> Iterator[Database]:
    """A fresh, empty database."""
    yield from _one(cluster, pgq=False)


@pytest.fixture
def database16(cluster16: Server) -> Iterator[Database]:
    """A fresh, empty database on PostgreSQL 16."""
    yield from _one(cluster16, pgq=False)


@pytest.fixture
def pgq_db(cluster: Server) -> Iterator[Database]:
    """A fresh database with all SQL components installed."""
    yield from _one(cluster, pgq=True)


@pytest.fixture
def pgq_db16(cluster16: Server) -> Iterator[Database]:
    """The same on PostgreSQL 16."""
    yield from _one(cluster16, pgq=True)


def start_server(name: str, version: int, **settings: str) -> Cluster | DockerCluster:
    """A throw-away server of the kind that LONDISTE_TEST_SERVERS names."""
    wanted = {**SETTINGS, **settings}
    kind = os.environ.get("LONDISTE_TEST_SERVERS") or "embedded"
    if kind == "docker":
        return DockerCluster.start(version, wanted)
    if kind != "embedded":
        pytest.fail(f"LONDISTE_TEST_SERVERS={kind}: write embedded or docker", pytrace=False)
    home = throwaway_home(memory_directory())
    return Cluster.start(home, name, version=version, settings=wanted)


def create_database(server: Server, *, pgq: bool) -> Database:
    """A new database with a name of its own; the caller drops it."""
    # Several pytest processes may share one external server.
    name = f"ld_{os.getpid()}_{next(_numbers)}"
    server.create_database(name, template=template(server) if pgq else None)
    return Database(server, name)


def template(server: Server) -> str:
    """The database with everything installed that others are cloned from; made once."""
    if not server.template:
        # Imported here so that tests without the queue run when the installer does not.
        from londiste.install.apply import install

        name = f"{_TEMPLATE}_{os.getpid()}"
        server.drop_database(name)
        server.create_database(name)
        with connection.session(server.dsn(name), autocommit=True) as conn:
            install(conn)
        server.template = name
    return server.template


def memory_directory() -> Path | None:
    """A memory file system if there is plenty of it: databases are cloned ten times faster there.

    LONDISTE_TEST_DIR names another place.
    """
    given = os.environ.get("LONDISTE_TEST_DIR")
    if given:
        return Path(given)
    shm = Path("/dev/shm")
    try:
        status = os.statvfs(shm)
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    available = next(int(x.split()[1]) for x in meminfo.split("\n") if x.startswith("MemAvailable"))
    room = min(status.f_bavail * status.f_frsize, available * 1024)
    return shm if room > 6 << 30 and os.access(shm, os.W_OK | os.X_OK) else None


def _one(server: Server, *, pgq: bool) -> Iterator[Database]:
    database = create_database(server, pgq=pgq)
    yield database
    database.drop()
