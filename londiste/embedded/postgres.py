"""PostgreSQL servers that this program starts itself: throw-away, or kept.

A throw-away cluster lives as long as the process that started it.  Stopping it, leaving
its ``with`` block, the end of the process and the death of the process (``kill -9`` too)
end the server and remove its files; a small watcher process sees to the last case.  It
does not flush to disk: nobody will read it after a power failure.

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
import fcntl
import functools
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Literal, TypeAlias

import psycopg
from psycopg import conninfo, sql

from londiste.embedded import watcher
from londiste.embedded.account import Account, require_reach, server_account, short_temp_dir
from londiste.embedded.binaries import Binaries, find_binaries, within_reach
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

_SETTINGS: dict[str, str] = {
    "max_connections": "100",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "wal_level": "logical",
    "max_prepared_transactions": "20",
    "timezone": "UTC",
    "log_timezone": "UTC",
    # Segments in /dev/shm would outlive a server that was killed, and are scarce in containers.
    "dynamic_shared_memory_type": "mmap",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] %q%a ",
}
_THROWAWAY: dict[str, str] = {"fsync": "off", "full_page_writes": "off"}

_made_homes: set[Path] = set()


class Cluster:
    """One running server with its files; made by ``start``."""

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
        """Not for callers: use ``Cluster.start``."""
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
        self._watcher: subprocess.Popen[bytes] | None = None
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
        """Starts the server ``name`` with its files in ``home/name``; returns when it answers.

        home -- made when it does not exist; None is a new temporary directory.
        version -- major version; None is that of existing files, else the first one found.
        port -- False: Unix socket only; True: a free port of 127.0.0.1; or the port.
        settings -- lines for postgresql.auto.conf, over the defaults of this module.
        keep -- the server outlives this process; existing files and servers are taken over.

        Raises ServerBinariesMissing, BadOption (directory out of reach, other version,
        port taken) and StateError (files exist already, the server does not come up).
        """
        if not name or "/" in name or name in {".", ".."}:
            raise BadOption(f"not a name for a cluster: {name!r}", hint="use letters and digits")
        if home is None and keep:
            raise BadOption("a kept cluster needs a directory", hint="name one")
        home = throwaway_home() if home is None else _ready_home(home)
        try:
            return cls._start(home, name, version, port, dict(settings or {}), keep)
        except BaseException:
            _leave(home)
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
                f"there is a cluster in {directory} already",
                hint="choose another name or directory; a kept cluster is started with keep=True",
            )
        existing = _data_version(directory / "data")
        if existing and version and existing != version:
            raise BadOption(
                f"the cluster in {directory} has PostgreSQL {existing}, not {version}",
                hint=f"ask for version {existing}, or remove the directory",
            )
        binaries = within_reach(find_binaries(version or existing), account)
        cluster = cls(home, name, account, binaries)
        cluster.kept = keep
        directory.mkdir(exist_ok=True)
        with _locked(directory / "lock"):
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
        """Where this server's programs are."""
        return self._binaries.bindir

    @property
    def pid(self) -> int | None:
        """The process id of the running server, None when it is down."""
        return self._pid if self._pid is not None and self.running() else None

    def program(self, name: str) -> Path:
        """The path of ``psql``, ``pgbench``, ``pg_dump``…; ServerBinariesMissing if not there."""
        return self._binaries.program(name)

    def environment(self) -> dict[str, str]:
        """An environment for those programs: nothing in it depends on the user's settings."""
        return _environment()

    def create_database(self, name: str, template: str | None = None) -> None:
        """Creates a database, as a copy of ``template`` when given."""
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
        """Stops the server and leaves its files; ``immediate`` is a crash without warning.

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
        self._tell_watcher(f"-{self._pid}")
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
        """From now on the server and its files outlive this process."""
        self.kept = True
        for name in _THROWAWAY:
            self._settings.pop(name, None)
        if self._pid is not None:
            self._write_settings()
            watcher.kill(self._pid, signal.SIGHUP)
        self._tell_watcher("keep")
        self._end_watcher()
        atexit.unregister(self._at_exit)

    def remove(self) -> None:
        """Stops the server and removes its files, also those of a kept cluster."""
        self.stop("immediate")
        for directory in {self.directory, self._socket_dir}:
            shutil.rmtree(directory, ignore_errors=True)
        _leave(self.home)
        self._end_watcher()
        atexit.unregister(self._at_exit)

    def close(self) -> None:
        """Ends the use: a throw-away cluster is removed, a kept one goes on running."""
        if not self.kept:
            self.remove()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _start_first(self, port: bool | int, settings: dict[str, str]) -> None:
        self._account.own(self.directory, 0o700)
        self._settings = {**_SETTINGS, **({} if self.kept else _THROWAWAY), **settings}
        if self.version >= 18:
            self._settings.setdefault("io_method", "sync")  # worker processes gain nothing here
        if self._adopt():
            return
        self._choose_socket_dir()
        if not self.kept:
            self._start_watcher()
            atexit.register(self._at_exit)
        if _data_version(self.data) is None:
            self._initdb()
        self._password = _read(self.directory / "password")
        remembered = _read(self.directory / "port")
        for attempt in range(5):
            self.port = _choose_port(port, remembered if attempt == 0 else "")
            try:
                self._launch()
            except StateError:
                # Somebody took the free port between the question and the start.
                if port is not True or "Address already in use" not in self._log_tail():
                    raise
                continue
            break
        else:
            raise StateError(f"no free port for the cluster {self.name}", hint="try again")
        (self.directory / "port").write_text("" if self.port is None else str(self.port))

    def _adopt(self) -> bool:
        """Takes over a server that runs on these files; False when there is none."""
        lines = _read(self.data / "postmaster.pid").split("\n")
        if len(lines) < 5 or not lines[0].isdigit() or not watcher.alive(int(lines[0])):
            return False
        self._socket_dir = Path(lines[4])
        self._password = _read(self.directory / "password")
        port = _read(self.directory / "port")
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

    def _initdb(self) -> None:
        """Makes the files beside their final place, so that they are complete or not there."""
        building = self.directory / "data.new"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        self._account.own(building, 0o700)
        password = self.directory / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_hex(16))
        self._account.own(password, 0o600)
        command: list[str | Path] = [
            *(self.program("initdb"), "-D", building, "-U", "postgres", "-E", "UTF8"),
            *("--locale=C", "--auth=trust", f"--pwfile={password}", "--no-sync"),
            "--no-instructions",
        ]
        with self._log_file() as log:
            process = self._popen(command, log)
            self._tell_watcher(f"+{process.pid}")
            code = process.wait(_START_SECONDS)
            self._tell_watcher(f"-{process.pid}")
        if code != 0:
            raise StateError(
                f"initdb failed for the cluster {self.name}",
                detail=self._log_tail(),
                hint=f"see whether there is space left in {self.home}",
            )
        (building / "pg_hba.conf").write_text(
            "local all,replication all trust\nhost all,replication all 127.0.0.1/32 scram-sha-256\n"
        )
        building.rename(self.data)

    def _launch(self) -> None:
        """Starts the server process and waits until it takes connections."""
        self._write_settings()
        with self._log_file() as log:
            self._process = self._popen([self.program("postgres"), "-D", self.data], log)
        self._pid = self._process.pid
        self._tell_watcher(f"+{self._pid}")
        deadline = time.monotonic() + _START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            lines = _read(self.data / "postmaster.pid").split("\n")
            if lines[0] == str(self._pid) and len(lines) > 7 and lines[7].strip() == "ready":
                return
            time.sleep(0.01)
        self.stop("immediate")
        raise StateError(
            f"the server of the cluster {self.name} did not start",
            detail=self._log_tail(),
            hint=f"see {self.log}" if self.kept else "correct the settings it was started with",
        )

    def _write_settings(self) -> None:
        values = {
            **self._settings,
            "listen_addresses": "" if self.port is None else "127.0.0.1",
            "port": str(self.port or 5432),
            "unix_socket_directories": str(self._socket_dir),
        }
        text = "".join(
            "{} = '{}'\n".format(key, value.replace("\\", "\\\\").replace("'", "''"))
            for key, value in values.items()
        )
        path = self.data / "postgresql.auto.conf"  # read last, so nothing overrides it
        path.write_text(text, encoding="utf-8")
        self._account.own(path, 0o600)

    def _popen(self, command: list[str | Path], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            # A pipe would be inherited by every process of the server and never end.
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(),
            umask=0o077,
            start_new_session=True,  # Ctrl-C in the terminal is not for the server
            **self._account.popen_options(),
        )

    def _log_file(self) -> IO[bytes]:
        return self.log.open("ab")

    def _log_tail(self) -> str:
        """The last lines of the log, for an error's detail."""
        return "\n".join(_read(self.log).rstrip().split("\n")[-5:])

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

    def _start_watcher(self) -> None:
        home = self.home if self.home in _made_homes else ""
        self._watcher = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", watcher.__file__),
                *(self.data, home, *{self.directory, self._socket_dir}),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )

    def _tell_watcher(self, line: str) -> None:
        if self._watcher is None or self._watcher.stdin is None:
            return
        with contextlib.suppress(OSError):
            self._watcher.stdin.write(line.encode() + b"\n")
            self._watcher.stdin.flush()

    def _end_watcher(self) -> None:
        if self._watcher is None:
            return
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._watcher.communicate(timeout=20)
        self._watcher = None

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
    home = throwaway_home() if home is None else _ready_home(home)
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
        _leave(home)


def throwaway_home(parent: Path | None = None) -> Path:
    """A new directory for throw-away clusters; it disappears with the last of them.

    parent -- where it is made; None is the temporary directory.
    """
    parent = parent or short_temp_dir(server_account())
    home = Path(tempfile.mkdtemp(prefix="londiste-", dir=parent)).resolve()
    home.chmod(0o755)
    _made_homes.add(home)
    return home


def _ready_home(home: Path) -> Path:
    if not home.exists():
        for directory in reversed([p for p in (home, *home.parents) if not p.exists()]):
            directory.mkdir(exist_ok=True)
            # A umask of 077 must not lock the server's account out of what was made for it.
            directory.chmod(0o755)
        _made_homes.add(home.resolve())
    return home.resolve()


def _leave(home: Path) -> None:
    """Removes a directory that was made here, once it is empty."""
    if home in _made_homes:
        with contextlib.suppress(OSError):
            home.rmdir()


def _choose_port(wanted: bool | int, remembered: str) -> int | None:
    if wanted is False:
        return None
    if wanted is not True:
        return int(wanted)
    if remembered.isdigit() and _is_free(int(remembered)):
        return int(remembered)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One process at a time starts a cluster; the others then find it running."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _data_version(data: Path) -> int | None:
    text = _read(data / "PG_VERSION")
    return int(text) if text.isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


@functools.cache
def _environment() -> dict[str, str]:
    """PG* variables, locales and time zones of the user change what a server does."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LC_ALL": "C",
        "TZ": "UTC",
        "HOME": "/",
    }
