"""A hot standby of an embedded server, which streams from it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import conninfo

from londiste.embedded.account import server_account, short_temp_dir
from londiste.embedded.postgres import Cluster
from tests.fixtures.cluster import memory_directory
from tests.support.waiting import wait_for


class Standby:
    """A standby on a Unix socket in a directory of its own."""

    def __init__(self, primary: Cluster, place: Path) -> None:
        self.primary = primary
        self.place = place
        self.data = place / "data"
        self._options = server_account().popen_options()
        self._made_with = ""

    def dsn(self, dbname: str) -> str:
        """A connection string of the superuser."""
        return conninfo.make_conninfo(
            host=str(self.place), port=5432, user="postgres", dbname=dbname
        )

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        """Runs a statement in database postgres."""
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as conn:
            cursor = conn.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def configure(self, settings: Mapping[str, str]) -> None:
        """Gives it these settings besides those of the primary, and no others."""
        lines = [f"{name} = '{value}'" for name, value in settings.items()]
        file = self.data / "postgresql.auto.conf"
        file.write_text("\n".join([self._made_with, *lines, ""]))
        if self.running():
            self._run("pg_ctl", "-D", self.data, "reload")

    def running(self) -> bool:
        """Whether its first process lives."""
        with contextlib.suppress(OSError, ValueError):
            return Path(f"/proc/{self.pid()}/stat").exists()
        return False

    def restored(self) -> bool:
        """Makes it replay again, whatever a test has done; False where it is a primary now."""
        if not self.running():
            self.start()
        if not self.execute("select pg_is_in_recovery()")[0][0]:
            return False
        self.resume()
        return True

    def start(self) -> None:
        """Starts it; returns when it can be read."""
        settings = f"-c unix_socket_directories='{self.place}' -c port=5432"
        log = self.place / "log"
        self._run("pg_ctl", "-D", self.data, "-l", log, "-o", settings, "-w", "start")

    def stop(self) -> None:
        """Stops it."""
        self._run("pg_ctl", "-D", self.data, "-m", "immediate", "-w", "stop")

    def kill(self) -> None:
        """SIGKILL for all of its processes."""
        pid = self.pid()
        self.signal(signal.SIGKILL)
        wait_for(lambda: not Path(f"/proc/{pid}/stat").exists(), what="the end of the standby")

    def signal(self, number: signal.Signals) -> None:
        """A signal for all of its processes.  After SIGSTOP it is as silent as a lost host."""
        pid = self.pid()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, number)

    def pid(self) -> int:
        """Its first process."""
        return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])

    def pause(self) -> None:
        """Replays nothing until ``resume``."""
        self.execute("select pg_wal_replay_pause()")
        state = "select pg_get_wal_replay_pause_state() = 'paused'"
        wait_for(lambda: self.execute(state)[0][0], what="a pause of the replay")

    def resume(self) -> None:
        """Replays again."""
        self.execute("select pg_wal_replay_resume()")

    def promote(self) -> None:
        """Makes it a primary."""
        self.execute("select pg_promote()")

    def caught_up(self) -> None:
        """Waits until it has replayed all that the primary has written."""
        self._has("pg_last_wal_replay_lsn()")

    def received_all(self) -> None:
        """Waits until it has received all that the primary has written."""
        self._has("pg_last_wal_receive_lsn()")

    def _has(self, position: str) -> None:
        with psycopg.connect(self.primary.dsn(), autocommit=True) as conn:
            row = conn.execute("select pg_current_wal_flush_lsn()").fetchone()
        assert row is not None
        statement = f"select {position} >= '{row[0]}'"
        wait_for(lambda: self.execute(statement)[0][0], what=f"{position} of the standby")

    def make(self) -> None:
        """Copies the files of the primary."""
        dsn = self.primary.dsn("postgres")
        options = ("-R", "--no-sync", "--checkpoint=fast")
        self._run("pg_basebackup", "-D", self.data, *options, "-d", dsn)
        self._made_with = (self.data / "postgresql.auto.conf").read_text()

    def _run(self, name: str, *args: object) -> None:
        said = self.place / "said"
        with said.open("w") as output:
            done = subprocess.run(
                [str(self.primary.program(name)), *map(str, args)],
                env=self.primary.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                check=False,
                **self._options,
            )
        assert done.returncode == 0, said.read_text()


@contextlib.contextmanager
def running_standby(primary: Cluster, **settings: str) -> Iterator[Standby]:
    """A new standby, with these settings besides those of the primary."""
    account = server_account()
    directory = memory_directory() or short_temp_dir(account)
    place = Path(tempfile.mkdtemp(prefix="ld-standby", dir=directory))
    account.own(place, 0o700)
    standby = Standby(primary, place)
    try:
        standby.make()
        standby.configure(settings)
        standby.start()
        yield standby
    finally:
        with contextlib.suppress(OSError, ValueError):
            standby.kill()
        shutil.rmtree(place, ignore_errors=True)
