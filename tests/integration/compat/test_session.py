"""The session of the talk as the page shows it: a table is added while it is written to.

Every line is typed as it is there, with daemons in the background; the daemon is killed with -9 in
the middle of the copy and in the middle of a batch, and takes turns with the present worker.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from londiste.daemon import pidfile
from londiste.migrate.pg_dump import find_dumper
from tests.fixtures.cluster import Database
from tests.support.skytools.running import ROOT, run
from tests.support.waiting import wait_for

PAGE = (ROOT / "docs" / "howto" / "coming-from-skytools.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?ms)^```(\w*)\n(.*?)^```", PAGE)
FILES = [text for kind, text in BLOCKS if kind == "ini"][:2]
LINES = next(text for kind, text in BLOCKS if not kind).splitlines()
USERS = "create table users (id serial primary key, name text not null, password text)"


class Shell:
    """A shell in an empty home, with the files of the page."""

    def __init__(self, home: Path, master: Database, slave: Database) -> None:
        self.home, self.master, self.slave = home, master, slave
        dumper = find_dumper(
            master.value("select current_setting('server_version_num')::int / 10000")
        )
        assert dumper is not None
        where = conninfo.conninfo_to_dict(master.dsn)
        self.environment = {
            "HOME": str(home),
            "PATH": f"{dumper.program.parent}:{os.environ['PATH']}",
            **{f"PG{key.upper()}": str(where[key]) for key in ("host", "port", "user")},
            "PGPASSWORD": str(where.get("password") or ""),
        }
        for folder in ("log", "pid"):
            (home / folder).mkdir()
        for name, text in zip(("replic.ini", "ticker.ini"), FILES, strict=True):
            (home / name).write_text(re.sub(r" host=\w+", "", self.here(text)))

    def here(self, text: str) -> str:
        """The text with the names of this test's databases."""
        return text.replace("userdb", self.master.name).replace("foodb", self.slave.name)

    def __call__(self, line: str, **more: str) -> str:
        """Runs a line, with more variables of the environment; what it printed."""
        line = self.here(line)
        if "|" in line:
            return subprocess.run(
                ["bash", "-o", "pipefail", "-c", line],
                env={**os.environ, **self.environment},
                cwd=self.home,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        program, *words = shlex.split(line)
        return run(program, *words, cwd=self.home, environment={**self.environment, **more})

    def pid(self, job: str) -> int | None:
        """The process of a daemon."""
        return pidfile.running(self.home / "pid" / f"{job}.pid")

    def log(self, job: str) -> str:
        return (self.home / "log" / f"{job}.log").read_text(encoding="utf-8")


@pytest.fixture
def shell(new_database: Callable[..., Database], tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, new_database(), new_database())
    yield shell
    for job in ("replic", "ticker"):
        if (pid := shell.pid(job)) is not None:
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda job=job: shell.pid(job) is None, what=f"the end of {job}")


@contextmanager
def written_to(master: Database) -> Iterator[None]:
    """Somebody writes into the table all the time."""
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(master.dsn, autocommit=True) as conn:
            while not stop.is_set():
                conn.execute("insert into users (name) values ('new')")
                conn.execute("update users set password = 'x' where id %% 7 = %s", [3])
                conn.execute("delete from users where id = (select min(id) from users)")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


@pytest.mark.slow
def test_the_session_replicates_a_table_that_is_written_to(shell: Shell) -> None:
    master, slave = shell.master, shell.slave
    master.execute(USERS)
    master.execute("insert into users (name) select 'u' || n from generate_series(1, 100) n")
    *first, replay, dump, provider_add, subscriber_add = LINES
    assert [line.split()[0] for line in first] == ["mkdir", "londiste", "londiste", "pgqadm"]
    assert first.pop(0) == "mkdir -p ~/log ~/pid"  # which the home of the test has
    for line in first:
        shell(line)
    # The process that copies stops in the middle: its rows are written and not committed.
    stopped = shell.home / "stopped"
    shell(
        replay,
        LONDISTE_CRASH="copy.mid-chunk",
        LONDISTE_CRASH_SIGNAL="STOP",
        LONDISTE_CRASH_MARK=str(stopped),
    )

    def new_rows() -> None:
        least = master.value("select max(id) from users") + 20
        newest = "select coalesce(max(id), 0) from users"
        wait_for(lambda: slave.value(newest) > least, what=f"new rows:\n{shell.log('replic')}")

    def ended() -> None:
        wait_for(lambda: shell.pid("replic") is None, what="the end of the daemon")

    with written_to(master):
        shell(dump)
        shell(provider_add)
        shell(subscriber_add)
        wait_for(stopped.exists, what=f"the copy:\n{shell.log('replic')}")
        state = "select merge_state from londiste.table_info"
        assert slave.value(state) == "in-copy"
        pid = shell.pid("replic")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        ended()
        # Started again, in the other form, it copies the table.
        shell("londiste replic.ini replay -d")
        wait_for(lambda: slave.value(state) == "ok", what=f"the copy:\n{shell.log('replic')}")
        shell("londiste replic.ini -s")
        ended()
        # Now it dies in the middle of a batch.
        shell(replay, LONDISTE_CRASH="worker.mid-apply")
        ended()
        # The present worker takes its turn, and is replaced by replay again.
        for line in ("londiste -c replic.ini worker -d", replay):
            shell(line)
            new_rows()
            shell("londiste replic.ini -s")
            ended()
        # So do the present commands for another table.
        for db in (master, slave):
            db.execute("create table orders (id int primary key)")
        shell("londiste -c replic.ini --set side=provider add-table orders")
        shell("londiste -c replic.ini add-table orders")
        shell(replay)
        master.execute("insert into orders values (1)")
        wait_for(lambda: slave.execute("select * from orders") == [(1,)], what="the other table")
        shell("londiste replic.ini subscriber remove orders")
        new_rows()
    users = "select * from users order by 1"
    wait_for(
        lambda: master.execute(users) == slave.execute(users),
        what=f"equal tables:\n{shell.log('replic')}",
    )
    shell("londiste replic.ini compare users")
    shell("londiste -c replic.ini compare users")
    shell("londiste replic.ini repair users --plan plan.sql")
    # The provider's duties run in the same process.
    assert "of node londiste.replic_provider (root)" in shell.log("replic")
    shell("londiste replic.ini replay -s")
    shell("pgqadm ticker.ini -s")
    wait_for(lambda: not list((shell.home / "pid").iterdir()), what="the end of both daemons")
