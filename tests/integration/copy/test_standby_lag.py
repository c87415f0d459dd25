"""A lagging standby throttles the copies."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from londiste.copy.load_throttle import Limits
from londiste.copy.sqlapi import control
from londiste.embedded.account import server_account, short_temp_dir
from londiste.embedded.postgres import Cluster
from tests.fixtures.copies import (
    A,
    Nodes,
    fill,
    same,
)
from tests.support.waiting import wait_for


@pytest.fixture
def standby(nodes: Nodes) -> Iterator[None]:
    """A standby of the server of both nodes, which replays a second late."""
    server = nodes.leaf.cluster
    if not isinstance(server, Cluster):
        pytest.skip("a standby needs a server of this host")
    account = server_account()
    place = Path(tempfile.mkdtemp(prefix="ld-standby", dir=short_temp_dir(account)))
    account.own(place, 0o700)
    options = account.popen_options()

    def program(name: str, *args: object) -> None:
        done = subprocess.run(
            [str(server.program(name)), *map(str, args)],
            env=server.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(place / "said").open("w"),
            check=False,
            **options,
        )
        assert done.returncode == 0, (place / "said").read_text()

    data = place / "data"
    settings = f"-c unix_socket_directories='{place}' -c recovery_min_apply_delay=1s"
    try:
        program("pg_basebackup", "-D", data, "-R", "-c", "fast", "-d", server.dsn("postgres"))
        program("pg_ctl", "-D", data, "-l", place / "log", "-o", settings, "-w", "start")
        yield
        program("pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.mark.usefixtures("standby")
def test_a_standby_that_falls_behind_holds_the_copies_back(nodes: Nodes) -> None:
    fill(nodes, A)
    nodes.add(A)
    with nodes.leaf.connect() as leaf:
        control.copy_pause(leaf, "q")
        nodes.start_work(replace(nodes.process(), limits=Limits(replica_lag=0.5)))
        leaf.execute("create table public.busy (i int)")

        def held_back() -> str | None:
            leaf.execute("insert into public.busy values (1)")
            return control.get_copy_control(leaf, "q").held_reason

        reason = wait_for(held_back, what="the copies to be held back")
        assert "standby lag is" in reason
        assert "copy_max_replica_lag (0.5)" in reason
        control.copy_resume(leaf, "q")
    nodes.wait_end()
    assert same(nodes, A)
    # The process has ended, and with it what it asked for.
    assert nodes.leaf.value("select held_reason from londiste.copy_control") is None
