"""``londiste replicate`` with three targets from the wheels: killed, detached, given again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.cluster import Database
from tests.support.programs.wheels import Environment, outside
from tests.support.replicating import FAST, wait_rows
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

ROWS = 200_000
TABLES = f"""
create table orders (id serial primary key, what text, at timestamptz default now());
create table lines (id int primary key, order_id int references orders, price numeric);
insert into orders (what) select 'thing ' || g from generate_series(1, {ROWS}) g;
insert into lines select g, g, g / 7.0 from generate_series(1, {ROWS}) g;
"""


class Shell:
    """The command of a stranger, with his connection strings."""

    def __init__(self, installed: Environment, directory: Path, dsns: list[str]) -> None:
        self.directory = directory
        self.state = directory / "state" / "londiste"
        self.env = outside(installed, **FAST, XDG_STATE_HOME=str(directory / "state"))
        source, first, *others = dsns
        self.command = ["londiste", "replicate", source, first]
        for other in others:
            self.command += ["--also", other]
        self.started: list[subprocess.Popen[bytes]] = []

    def run(self, *args: str) -> str:
        """Runs the command to its end; what it printed."""
        done = subprocess.run(
            [*self.command, *args],
            cwd=self.directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def start(self, name: str) -> tuple[subprocess.Popen[bytes], Callable[[], str]]:
        """The command in a terminal of its own, and what it has printed so far."""
        file = self.directory / name
        with file.open("wb") as output:
            process = subprocess.Popen(
                self.command,
                cwd=self.directory,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return process, file.read_text

    def detached(self) -> int:
        """The process in the background."""
        (file,) = self.state.glob("*.pid")
        return int(file.read_text().split()[0])

    def close(self) -> None:
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for file in self.state.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text().split()[0]), signal.SIGTERM)


@pytest.fixture
def databases(new_database: Callable[..., Database]) -> list[Database]:
    """A source and three targets."""
    return [new_database(pgq=False) for _ in range(4)]


@pytest.fixture
def shell(installed: Environment, tmp_path: Path, databases: list[Database]) -> Iterator[Shell]:
    made = Shell(installed, tmp_path, [one.dsn for one in databases])
    try:
        yield made
    finally:
        made.close()


def _count(databases: list[Database], table: str, count: int) -> None:
    """Until all of them have that many rows."""
    for one in databases:
        wait_rows(one, f"select count(*) from {table}", count)


def _is_copying(target: Database) -> bool:
    return bool(
        target.value("select to_regclass('londiste.table_info') is not null")
        and target.value("select count(*) from londiste.table_info where merge_state <> 'ok'")
    )


def _ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_three_targets_survive_kill_9_detach_and_ctrl_c(
    shell: Shell, databases: list[Database]
) -> None:
    source, *targets = databases
    source.execute(TABLES)

    # Killed with all its children in the middle of the copies.
    process, _ = shell.start("first")
    wait_for(lambda: any(map(_is_copying, targets)), timeout=60, what="a copy")
    process.kill()
    process.wait()

    # The same command goes on, in the background.
    said = shell.run("--detach")
    assert "--stop" in said and said.count("--also") >= 2
    for table in ("orders", "lines"):
        _count(targets, table, ROWS)
    wait_for(lambda: shell.run("--status").count("in sync") == 3, timeout=60, what="three in sync")
    source.execute("insert into orders (what) values ('detached')")
    _count(targets, "orders", ROWS + 1)

    # Killed in the background, and given again.
    pid = shell.detached()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: _ended(pid), what="the end of the process")
    source.execute("insert into orders (what) values ('nobody replicates')")
    shell.run("--detach")
    _count(targets, "orders", ROWS + 2)
    assert "stopped process" in shell.run("--stop")

    # In the foreground; Ctrl-C stops it, and it says how to go on.
    process, printed = shell.start("last")
    source.execute("update orders set what = 'changed' where id = 7")
    for one in targets:
        wait_rows(one, "select count(*) from orders where what = 'changed'", 1)
    wait_for(lambda: printed().count("in sync, 2 tables") >= 3, what="the lines of the nodes")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    for word in ("continue:", "continue in the background:", "remove everything:"):
        assert f"{word} " in printed()
    assert "Traceback" not in printed()

    assert shell.run("--once").count("yes") == 2 * len(targets)
    assert "removed" in shell.run("--remove")
    for one in databases:
        assert one.value("select to_regnamespace('pgq')") is None
        assert one.value("select count(*) from orders") == ROWS + 2
