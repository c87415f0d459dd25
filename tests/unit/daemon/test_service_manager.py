"""What a process reports to its service manager, and when its watchdog stays silent."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from londiste.daemon.service_manager import ServiceManager, silent, waiting, watched
from londiste.daemon.signals import Signals
from tests.support.waiting import wait_for


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listener


def next_of(listener: socket.socket) -> str:
    return listener.recv(4096).decode()


def nothing_more(listener: socket.socket) -> None:
    listener.setblocking(False)
    with pytest.raises(BlockingIOError):
        listener.recv(1)


def test_states_are_reported_once_and_children_inherit_nothing(manager: socket.socket) -> None:
    found = ServiceManager.of_environment()
    assert "NOTIFY_SOCKET" not in os.environ
    with closing(Signals(manager=found)) as signals:
        signals.wait(0)
        signals.wait(0)
        found.status("two\nlines")
        found.status("two lines")
        assert [next_of(manager) for _ in range(2)] == ["READY=1", "STATUS=two lines"]
        signals._on_reload(1, None)
        assert signals.reload_wanted()
        assert next_of(manager).startswith("RELOADING=1\nMONOTONIC_USEC=")
        signals.wait(0)
        assert next_of(manager) == "READY=1"
        signals.stop()
        signals.stop()
        found.status("later")
        assert next_of(manager) == "STOPPING=1\nSTATUS=stopping"
    nothing_more(manager)


def test_an_abstract_socket_is_understood() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0londiste-test-{os.getpid()}")
        listener.settimeout(10)
        ServiceManager(f"@londiste-test-{os.getpid()}").ready()
        assert next_of(listener) == "READY=1"


def test_a_service_manager_that_has_gone_harms_nothing(tmp_path: Path) -> None:
    ServiceManager(str(tmp_path / "none")).ready()
    ServiceManager("").ready()


@pytest.mark.parametrize(("pid", "expected"), [("", 2.5), ("own", 2.5), ("1", 0.0)])
def test_the_watchdog_is_that_of_this_process(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch, pid: str, expected: float
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "2500000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)
    assert ServiceManager.of_environment().watchdog == expected


def test_a_thread_is_alive_while_it_waits_and_not_while_it_hangs() -> None:
    begun, end = threading.Event(), threading.Event()

    def work(context: contextlib.AbstractContextManager[None]) -> None:
        with watched(), context:
            begun.set()
            end.wait(30)

    for context, alive in (
        (waiting(), True),
        (waiting(0), False),
        (contextlib.nullcontext(), False),
    ):
        begun.clear()
        end.clear()
        thread = threading.Thread(target=work, args=(context,), name="the one")
        thread.start()
        assert begun.wait(60)
        if alive:
            assert "the one" not in silent(0)
        else:
            wait_for(lambda: "the one" in silent(0.01), what="silence")
            assert "the one" not in silent(60)
        end.set()
        thread.join()
        assert "the one" not in silent(0)


def test_the_watchdog_stays_silent_when_a_watched_thread_hangs(manager: socket.socket) -> None:
    found = ServiceManager(manager.getsockname(), watchdog=0.4)
    begun, end = threading.Event(), threading.Event()

    def hang() -> None:
        with watched():
            begun.set()
            end.wait(30)

    with found.watched(), waiting():
        assert next_of(manager) == next_of(manager) == "WATCHDOG=1"
        thread = threading.Thread(target=hang)
        thread.start()
        assert begun.wait(60)
        manager.settimeout(1)
        with pytest.raises(TimeoutError):
            for _ in range(5):
                next_of(manager)
        end.set()
        thread.join()
        manager.settimeout(10)
        assert next_of(manager) == "WATCHDOG=1"
