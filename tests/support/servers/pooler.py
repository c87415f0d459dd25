"""A pgbouncer in front of a test server.

The program is the distribution's (``apt-get install pgbouncer``).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import conninfo

from londiste.embedded.account import server_account
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for


class Pooler:
    """A running pgbouncer; ``dsn(database)`` leads through it.

    directory -- one that every account may enter: pgbouncer runs as another one than root.
    """

    def __init__(self, mode: str, directory: Path, size: int = 20) -> None:
        found = self.program()
        assert found is not None, "no pgbouncer here: apt-get install pgbouncer"
        self._program = found
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.mode = mode
        self._size = size
        self._settings = directory / f"pgbouncer.{mode}.{self.port}.ini"
        self._log = self._settings.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def program() -> str | None:
        """Where pgbouncer is; None if there is none."""
        return shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")

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
        self._settings.write_text(
            f"[databases]\n{database.name} = {target}\n"
            f"[pgbouncer]\nlisten_addr = {address}\nunix_socket_dir =\nauth_type = any\n"
            f"server_login_retry = 1\n"
            f"listen_port = {self.port}\npool_mode = {self.mode}\n"
            f"default_pool_size = {self._size}\nquery_wait_timeout = 20\n"
            "ignore_startup_parameters = extra_float_digits\n"
            + "".join(f"{key} = {value}\n" for key, value in (more or {}).items())
        )
        self._settings.chmod(0o644)
        self.up()
        wait_for(lambda: self._answers(database), what=f"pgbouncer: {self._log.read_text()}")

    def up(self) -> None:
        """Runs it, also again after ``stop``."""
        if self._process is not None and self._process.poll() is None:
            return
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [self._program, str(self._settings)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                **server_account().popen_options(),
            )
        wait_for(self._listens, what=f"pgbouncer: {self._log.read_text()}")

    def dsn(self, database: Database) -> str:
        """A connection string that leads to the database through the pooler."""
        return f"host={self.address} port={self.port} dbname={database.name} user=app"

    def stop(self) -> None:
        """Kills it, with all connections."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(30)

    def _listens(self) -> bool:
        try:
            socket.create_connection((self.address, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def _answers(self, database: Database) -> bool:
        try:
            with psycopg.connect(
                self.dsn(database), autocommit=True, connect_timeout=2, sslmode="prefer"
            ) as conn:
                conn.execute("select 1")
        except psycopg.OperationalError:
            return False
        return True
