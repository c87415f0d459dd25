"""Real daemons report to a service manager: ready, status, reload, watchdog, stop."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fixtures.cascade import Node, Nodes
from tests.fixtures.cluster import Database
from tests.fixtures.one_file import OneFile
from tests.fixtures.process import Program


class Manager:
    """The side of the service manager."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.got: list[str] = []

    def until(self, text: str, *, seconds: float = 30) -> None:
        """Reads messages up to one that has this text."""
        self.socket.settimeout(seconds)
        while True:
            self.got.append(self.socket.recv(4096).decode())
            if text in self.got[-1]:
                return

    def quiet(self, seconds: float) -> bool:
        """Whether nothing arrives for this time, after what has been sent already."""
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.recv(4096)
        except BlockingIOError:
            pass
        self.socket.settimeout(seconds)
        try:
            self.socket.recv(4096)
        except TimeoutError:
            return True
        return False


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Manager]:
    found = Manager(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    yield found
    found.socket.close()


def test_a_ticker_reports_its_whole_life(
    pgq_db: Database, program: Callable[..., Program], manager: Manager
) -> None:
    ticker = program("ticker", "--db", pgq_db.dsn)
    manager.until("READY=1")
    assert "STATUS=serving 1 databases" in manager.got
    manager.until("WATCHDOG=1")
    ticker.signal(signal.SIGHUP)
    manager.until("RELOADING=1\nMONOTONIC_USEC=")
    manager.until("READY=1")
    # A process that is stopped by a signal is silent, and is restarted by the watchdog.
    ticker.signal(signal.SIGSTOP)
    assert manager.quiet(1.5)
    ticker.signal(signal.SIGCONT)
    manager.until("WATCHDOG=1")
    ticker.signal(signal.SIGTERM)
    manager.until("STOPPING=1")
    assert ticker.end() == 0


def test_a_worker_whose_server_is_down_is_ready_and_alive(
    program: Callable[..., Program], manager: Manager
) -> None:
    worker = program("--set", "db=host=127.0.0.1 port=1", "--set", "queue_name=q", "worker")
    manager.until("STATUS=waiting for a server: node database ")
    assert "is down or cannot be reached" in manager.got[-1]
    manager.until("READY=1")
    manager.until("WATCHDOG=1")
    worker.signal(signal.SIGTERM)
    manager.until("STOPPING=1")
    assert worker.end() == 0


@pytest.fixture
def refused(nodes_of: Nodes) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """A node, and the options of a worker whose role does not exist yet."""
    node = nodes_of.root()
    role = f"late_{node.db.name}"
    settings = (f"db={node.dsn} user={role}", "queue_name=q", f"job_name={node.worker}")
    yield node, tuple(word for one in settings for word in ("--set", one))
    if node.db.value("select true from pg_roles where rolname = %s", role):
        node.db.execute(f"drop owned by {role}; drop role {role}")


def test_a_worker_that_the_server_refuses_waits_until_it_is_let_in(
    refused: tuple[Node, tuple[str, ...]], program: Callable[..., Program], manager: Manager
) -> None:
    node, options = refused
    once = program(*options, "worker", "--once")
    assert once.end() == 2, once.text
    worker = program(*options, "worker")
    manager.until("STATUS=waiting for access: ")
    assert "does not exist" in manager.got[-1]
    manager.until("READY=1")
    manager.until("WATCHDOG=1")
    worker.says("detail: this service waits until the server accepts it; hint: check")
    node.db.execute(f"create role late_{node.db.name} superuser login")
    manager.until("STATUS=running")
    worker.signal(signal.SIGTERM)
    manager.until("STOPPING=1")
    assert worker.end() == 0


def test_without_a_service_manager_it_ends(
    refused: tuple[Node, tuple[str, ...]], program: Callable[..., Program]
) -> None:
    _, options = refused
    worker = program(*options, "worker")
    assert worker.end() == 2
    assert "does not exist" in worker.text


def test_run_reports_for_itself_and_not_for_its_children(
    one_file: OneFile, program: Callable[..., Program], manager: Manager
) -> None:
    one_file.write({"n1": "root"}, "\n[run]\nmax_retry_delay = 60\n", pgq=False)
    runs = program("-c", str(one_file.path), "run")
    # Without its node the worker ends.
    manager.until("STATUS=2 daemons, not running: worker n1")
    runs.signal(signal.SIGTERM)
    manager.until("STOPPING=1")
    assert runs.end(within=60) == 0
    assert [one for one in manager.got if "READY" in one] == ["READY=1"]
