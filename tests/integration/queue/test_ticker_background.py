"""``ticker -d`` reports what is wrong at the start before it goes into the background."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.daemon import pidfile
from tests.fixtures.cluster import Database
from tests.integration.queue.test_ticker import Start, queue_in, wait_for_tick
from tests.support.waiting import wait_for

Background = Callable[..., tuple[int, str]]


@pytest.fixture
def in_background(program: Start, tmp_path: Path) -> Iterator[Background]:
    """``in_background(dsn, …)`` starts a ticker of these databases: code and output."""
    config, pid = tmp_path / "ticker.toml", tmp_path / "own.pid"

    def start(*databases: str) -> tuple[int, str]:
        config.write_text(
            f"[ticker]\ndatabases = {json.dumps(databases)}\npidfile = {json.dumps(str(pid))}\n"
            "ticker_period = 0.05\n"
        )
        config.chmod(0o600)
        done = program("-c", str(config), "ticker", "-d")
        return done.end(), done.text

    yield start
    left = pidfile.running(pid)
    if left is not None:
        os.kill(left, signal.SIGKILL)
        wait_for(lambda: pidfile.running(pid) is None, what="the end of the daemon")


def test_a_database_without_the_sql_is_an_error_with_the_command_that_installs_it(
    new_database: Callable[..., Database], in_background: Background
) -> None:
    empty = new_database()
    code, text = in_background(empty.dsn)
    assert code == 4, text
    assert f"error: {empty.name}: schema pgq is not installed" in text
    hint = text.partition("hint: ")[2].strip()
    assert f"dbname={empty.name}" in hint and hint.endswith(" pgq"), text
    argv = shlex.split(hint)
    assert argv[0] == "londiste" and "install" in argv


def test_one_of_several_without_the_sql_stops_no_others(
    new_database: Callable[..., Database], in_background: Background
) -> None:
    empty, served = new_database(), new_database(pgq=True)
    conn = queue_in(served)
    code, text = in_background(empty.dsn, served.dsn)
    assert code == 0, text
    wait_for_tick(conn)


def test_a_server_that_does_not_respond_is_waited_for(
    new_database: Callable[..., Database], in_background: Background
) -> None:
    code, text = in_background("host=127.0.0.1 port=1 dbname=none", new_database().dsn)
    assert code == 0, text
