"""A pgbouncer of a test's own, in front of a test server.

The program is the distribution's (``apt-get install pgbouncer``); without it the test is skipped.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from londiste.embedded.account import server_account
from tests.fix_cluster import Database
from tests.waiting import wait_for


class Pooler:
    """A running pgbouncer; ``dsn(database)`` leads through it."""

    def __init__(self, mode: str, directory: Path, size: int) -> None:
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        if program is None:
            pytest.skip("no pgbouncer here: apt-get install pgbouncer")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.mode = mode
        self._size = size
        self._program = program
        self._directory = directory
        self._log = directory / f"pgbouncer.{mode}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, database: Database, address: str = "127.0.0.1", more: Mapping[str, str] | None = None
    ) -> None:
        """Begins to pool sessions of a database; in one pool of backends for all.

        more -- settings.
        """
        self.address = address
        real = conninfo.conninfo_to_dict(database.dsn)
        keys = {"host", "port", "dbname", "user", "password"}
        target = " ".join(f"{k}='{v}'" for k, v in real.items() if k in keys)
        settings = self._directory / f"pgbouncer.{self.mode}.ini"
        settings.write_text(
            f"[databases]\n{database.name} = {target}\n"
            f"[pgbouncer]\nlisten_addr = {address}\nunix_socket_dir =\nauth_type = any\n"
            f"listen_port = {self.port}\npool_mode = {self.mode}\n"
            f"default_pool_size = {self._size}\nquery_wait_timeout = 20\n"
            "ignore_startup_parameters = extra_float_digits\n"
            + "".join(f"{key} = {value}\n" for key, value in (more or {}).items())
        )
        settings.chmod(0o644)
        account = server_account()
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [self._program, str(settings)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                **account.popen_options(),
            )
        wait_for(lambda: self._answers(database), what=f"pgbouncer: {self._log.read_text()}")

    def dsn(self, database: Database) -> str:
        """A connection string that leads to the database through the pooler."""
        return f"host={self.address} port={self.port} dbname={database.name} user=app"

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)

    def _answers(self, database: Database) -> bool:
        try:
            with psycopg.connect(
                self.dsn(database), autocommit=True, connect_timeout=2, sslmode="prefer"
            ) as conn:
                conn.execute("select 1")
        except psycopg.OperationalError:
            return False
        return True


@pytest.fixture
def pooler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Pooler]]:
    """``pooler("transaction", database)``; size: backends that it opens at most."""
    # pgbouncer refuses root and runs as another account, which has to reach its settings.
    directory = tmp_path_factory.mktemp("pgbouncer")
    for part in (directory, *directory.parents):
        if part == Path("/") or part.name == "tmp":
            break
        part.chmod(part.stat().st_mode | 0o755)
    with ExitStack() as stack:

        def make(
            mode: str,
            database: Database,
            *,
            size: int = 20,
            address: str = "127.0.0.1",
            **more: str,
        ) -> Pooler:
            made = Pooler(mode, directory, size)
            stack.callback(made.stop)
            made.start(database, address, more)
            return made

        yield make
