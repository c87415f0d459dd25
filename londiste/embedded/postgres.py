"""Embedded PostgreSQL servers: temporary or kept.

A throw-away cluster lives as long as the process that started it.  ``remove``, leaving
its ``with`` block, the end of the process and the death of the process (``kill -9`` too)
end the server and remove its files; a small watcher process handles the last case.  It
does not flush to disk, because its data need not survive a power failure.

A kept cluster outlives the process.  Starting it again under the same name adopts the
running server, or starts one on the same files.

    with clusters(None, "root", "leaf", versions={"root": 16}) as (root, leaf):
        psycopg.connect(root.dsn())

Clients come in through a Unix socket in a directory that only the server's account and
root can enter, so no password is asked there; or through 127.0.0.1 with a generated
password, which ``dsn()`` contains.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeAlias

import psycopg
from psycopg import conninfo, sql

from londiste.embedded import files, process, watcher
from londiste.embedded.account import Account, require_reach, server_account, short_temp_dir
from londiste.embedded.binaries import Binaries, find_binaries, within_reach
from londiste.embedded.homes import is_shared, leave_home, ready_home, throwaway_home, was_made
from londiste.embedded.process import Watch
from londiste.errors import BadOption, StateError

StopMode: TypeAlias = Literal["smart", "fast", "immediate"]

_SIGNALS: dict[StopMode, signal.Signals] = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
#: "/.s.PGSQL.65535.lock" and a NUL must fit behind it in 103 bytes (macOS; Linux has 107).
_LONGEST_SOCKET_DIR = 80
_START_SECONDS = 120.0
_STOP_SECONDS = 60.0


class Cluster:
    """A running server with its files; created by ``start``."""

    name: str
    version: int
    home: Path
    directory: Path
    data: Path
    log: Path
    port: int | None
    kept: bool
    template: str | None  # for callers that keep a database to copy from

    def __init__(self, home: Path, name: str, account: Account, binaries: Binaries) -> None:
        """For ``Cluster.start`` only."""
        self.home = home
        self.name = name
        self.directory = home / name
        self.data = self.directory / "data"
        self.log = self.directory / "log"
        self.version = binaries.version
        self.port = None
        self.kept = False
        self.template = None
        self._binaries = binaries
        self._account = account
        self._socket_dir = self.directory
        self._password = ""
        self._settings: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._pid: int | None = None
        self._watch: Watch | None = None
        self._owner = os.getpid()

    @classmethod
    def start(
        cls,
        home: Path | None,
        name: str,
        *,
        version: int | None = None,
        port: bool | int = False,
        settings: Mapping[str, str] | None = None,
        keep: bool = False,
    ) -> Cluster:
        """Starts the server ``name`` in ``home/name``; returns when it accepts connections.

        home -- created if it does not exist; None is a new temporary directory.
        version -- major version; None is that of existing files, else the first one found.
        port -- False: Unix socket only; True: a free port of 127.0.0.1; or the port.
        settings -- lines for postgresql.auto.conf, over the defaults of this module.
        keep -- the server outlives this process; existing files and servers are adopted.

        Raises ServerBinariesMissing, BadOption (directory out of reach, other version,
        port taken) and StateError (files exist already, the server does not come up).
        """
        if not name or "/" in name or name in {".", ".."}:
            raise BadOption(f"{name!r}: not a name of a cluster", hint="use letters and digits")
        if home is None and keep:
            raise BadOption("a kept cluster needs a directory", hint="give a directory")
        home = throwaway_home() if home is None else ready_home(home)
        try:
            return cls._start(home, name, version, port, dict(settings or {}), keep)
        except BaseException:
            leave_home(home)
            raise

    @classmethod
    def _start(
        cls,
        home: Path,
        name: str,
        version: int | None,
        port: bool | int,
        settings: dict[str, str],
        keep: bool,
    ) -> Cluster:
        account = server_account()
        require_reach(account, home)
        directory = home / name
        if not keep and directory.exists():
            raise StateError(
                f"a cluster exists in {directory} already",
                hint="choose another name or directory, or keep=True to start a kept cluster",
            )
        existing = files.data_version(directory / "data")
        if existing and version and existing != version:
            raise BadOption(
                f"the cluster in {directory} has PostgreSQL {existing}, not {version}",
                hint=f"request version {existing}, or remove the directory",
            )
        binaries = within_reach(find_binaries(version or existing), account)
        cluster = cls(home, name, account, binaries)
        cluster.kept = keep
        directory.mkdir(exist_ok=True)
        with files.locked(directory / "lock"):
            try:
                cluster._start_first(port, settings)
            except BaseException:
                if not keep:
                    cluster.remove()
                raise
        return cluster

    def dsn(self, dbname: str = "postgres") -> str:
        """A libpq connection string for the superuser ``postgres``."""
        if self.port is None:
            return conninfo.make_conninfo(
                host=str(self._socket_dir), port=5432, user="postgres", dbname=dbname
            )
        return conninfo.make_conninfo(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=self._password,
            dbname=dbname,
        )

    @property
    def bindir(self) -> Path:
        """The directory of this server's programs."""
        return self._binaries.bindir

    @property
    def pid(self) -> int | None:
        """The process id of the running server, None when it is down."""
        return self._pid if self._pid is not None and self.running() else None

    def program(self, name: str) -> Path:
        """The path of ``psql``, ``pgbench``, ``pg_dump``…; ServerBinariesMissing if not there."""
        return self._binaries.program(name)

    def environment(self) -> dict[str, str]:
        """An environment for those programs, independent of the user's settings."""
        return process.environment()

    def create_database(self, name: str, template: str | None = None) -> None:
        """Creates a database, as a copy of ``template`` if given."""
        statement = sql.SQL("create database {}").format(sql.Identifier(name))
        if template is not None:
            # Measured without fsync: 8 to 23 ms in a memory file system, the default 20 to 25.
            statement += sql.SQL(" template {}").format(sql.Identifier(template))
            if self.version >= 15:
                statement += sql.SQL(" strategy file_copy")
        self._administer(statement)

    def drop_database(self, name: str) -> None:
        """Drops a database if it is there; sessions in it are ended."""
        self._administer(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )

    def running(self) -> bool:
        """True while the server process lives."""
        if self._process is not None:
            return self._process.poll() is None
        return self._pid is not None and watcher.alive(self._pid)

    def stop(self, mode: StopMode = "fast") -> None:
        """Stops the server and keeps its files; ``immediate`` is a crash without warning.

        Does nothing when it is down.  ``restart`` and ``up`` start it again.
        """
        if self._pid is None:
            return
        for number, seconds in ((_SIGNALS[mode], _STOP_SECONDS), (signal.SIGQUIT, 10.0)):
            watcher.kill(self._pid, number)
            if self._wait_gone(seconds):
                break
        else:
            watcher.kill(self._pid, signal.SIGKILL)
            self._wait_gone(10.0)
        if self._watch is not None:
            self._watch.ended(self._pid)
        self._process = None
        self._pid = None

    def up(self) -> None:
        """Starts a stopped server on its files, with the port and settings it had."""
        if not self.running():
            self._launch()

    def restart(self, mode: StopMode = "fast") -> None:
        """Stops and starts; connections break, the connection strings stay valid."""
        self.stop(mode)
        self._launch()

    def keep(self) -> None:
        """Detaches the server and its files, which then outlive this process."""
        self.kept = True
        for name in files.THROWAWAY:
            self._settings.pop(name, None)
        if self._pid is not None:
            self._write_settings()
            watcher.kill(self._pid, signal.SIGHUP)
        if self._watch is not None:
            self._watch.keep()
            self._watch = None
        atexit.unregister(self._at_exit)

    def remove(self) -> None:
        """Stops the server and removes its files, also those of a kept cluster."""
        self.stop("immediate")
        for directory in {self.directory, self._socket_dir}:
            shutil.rmtree(directory, ignore_errors=True)
        leave_home(self.home)
        if self._watch is not None:
            self._watch.end()
            self._watch = None
        atexit.unregister(self._at_exit)

    def close(self) -> None:
        """Ends the use: a temporary cluster is removed, a kept one keeps running."""
        if not self.kept:
            self.remove()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _start_first(self, port: bool | int, settings: dict[str, str]) -> None:
        self._account.own(self.directory, 0o700)
        self._settings = {**files.SETTINGS, **({} if self.kept else files.THROWAWAY), **settings}
        if self.version >= 18:
            self._settings.setdefault("io_method", "sync")  # worker processes gain nothing here
        if self._adopt():
            return
        self._choose_socket_dir()
        if not self.kept:
            directories = {self.directory, self._socket_dir}
            self._watch = Watch(
                self.data,
                self.home if was_made(self.home) else None,
                directories | ({self.home} if is_shared(self.home) else set()),
            )
            atexit.register(self._at_exit)
        if files.data_version(self.data) is None:
            files.initdb(self.directory, self._binaries, self._account, self.log, self._watch)
        self._password = files.read(self.directory / "password")
        remembered = files.read(self.directory / "port")
        for attempt in range(5):
            self.port = process.choose_port(port, remembered if attempt == 0 else "")
            try:
                self._launch()
            except StateError:
                # Somebody took the free port between the question and the start.
                if port is not True or "Address already in use" not in files.tail(self.log):
                    raise
                continue
            break
        else:
            raise StateError(f"no free port for the cluster {self.name}", hint="try again")
        (self.directory / "port").write_text("" if self.port is None else str(self.port))

    def _adopt(self) -> bool:
        """Adopts a server that runs on these files; False if there is none."""
        lines = files.read(self.data / "postmaster.pid").split("\n")
        if len(lines) < 5 or not lines[0].isdigit() or not watcher.alive(int(lines[0])):
            return False
        self._socket_dir = Path(lines[4])
        self._password = files.read(self.directory / "password")
        port = files.read(self.directory / "port")
        self.port = int(port) if port else None
        self._pid = int(lines[0])
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and self.running():
            with contextlib.suppress(psycopg.OperationalError):
                with psycopg.connect(self.dsn(), connect_timeout=5) as conn:
                    where = conn.execute("show data_directory").fetchone()
                if where and Path(where[0]).resolve() == self.data.resolve():
                    return True
                break
            time.sleep(0.05)
        # The number in a left-over file may belong to some other process by now.
        self._pid = None
        self._socket_dir = self.directory
        return False

    def _choose_socket_dir(self) -> None:
        """The cluster's own directory, or a short one where a socket's name still fits."""
        if len(os.fsencode(self.directory)) <= _LONGEST_SOCKET_DIR:
            self._socket_dir = self.directory
            return
        self._socket_dir = Path(tempfile.mkdtemp(prefix="ld-", dir=short_temp_dir(self._account)))
        self._account.own(self._socket_dir, 0o700)

    def _launch(self) -> None:
        """Starts the server process and waits until it accepts connections."""
        self._write_settings()
        with self.log.open("ab") as log:
            command: list[str | Path] = [self.program("postgres"), "-D", self.data]
            self._process = process.start(command, self._account, log)
        self._pid = self._process.pid
        if self._watch is not None:
            self._watch.started(self._pid)
        deadline = time.monotonic() + _START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            lines = files.read(self.data / "postmaster.pid").split("\n")
            if lines[0] == str(self._pid) and len(lines) > 7 and lines[7].strip() == "ready":
                return
            time.sleep(0.01)
        self.stop("immediate")
        raise StateError(
            f"the server of the cluster {self.name} did not start",
            detail=files.tail(self.log),
            hint=f"see {self.log}" if self.kept else "correct the settings it was started with",
        )

    def _write_settings(self) -> None:
        files.write_settings(
            self.data,
            {
                **self._settings,
                "listen_addresses": "" if self.port is None else "127.0.0.1",
                "port": str(self.port or 5432),
                "unix_socket_directories": str(self._socket_dir),
            },
            self._account,
        )

    def _wait_gone(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def _administer(self, statement: sql.Composed) -> None:
        # Two at once may meet on the template; the server then says so, and it passes.
        for attempt in range(20):
            try:
                with psycopg.connect(self.dsn(), autocommit=True) as conn:
                    conn.execute(statement)
                return
            except psycopg.errors.ObjectInUse:
                if attempt == 19:
                    raise
                time.sleep(0.25)

    def _at_exit(self) -> None:
        # A forked child that ends in the ordinary way must leave its parent's server alone.
        if os.getpid() == self._owner:
            self.close()


@contextlib.contextmanager
def clusters(
    home: Path | None,
    *names: str,
    versions: Mapping[str, int] | None = None,
    port: bool = False,
    settings: Mapping[str, str] | None = None,
    keep: bool = False,
) -> Iterator[tuple[Cluster, ...]]:
    """Several clusters in one directory, started side by side, closed at the end.

    Arguments as for ``Cluster.start``; ``versions`` gives a version per name.
    """
    home = throwaway_home() if home is None else ready_home(home)
    running: list[Cluster] = []
    lock = threading.Lock()

    def start(name: str) -> Cluster:
        cluster = Cluster.start(
            home,
            name,
            version=(versions or {}).get(name),
            port=port,
            settings=settings,
            keep=keep,
        )
        with lock:
            running.append(cluster)
        return cluster

    try:
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
            started = tuple(pool.map(start, names))
        yield started
    finally:
        for cluster in running:
            cluster.close()
        leave_home(home)
