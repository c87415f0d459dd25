"""The context of a daemon, and its end: nothing stays open, and nobody is waited for."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from londiste.daemon.process import process
from londiste.daemon.signals import Interrupted, stopped


def _open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_each_file_of_the_context_is_closed_at_its_end() -> None:
    before = _open_files()
    for _ in range(3):
        with process(quiet=True, announced=False) as signals:
            signals.wait(0)
    assert _open_files() == before
    # A thread that still has the signals may call this.
    signals.wake()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_log_names_the_signal_that_ends_a_daemon(
    number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with process() as signals:
        signal.raise_signal(signal.SIGHUP)
        assert stopped(signals) == "stopped"
        signal.raise_signal(number)
        # Of two, the first is the cause.
        signal.raise_signal(signal.SIGTERM)
    assert stopped(signals) == f"stopped by {number.name}"
    assert caplog.messages[-1] == f"ends: {number.name} received"


def test_the_log_names_the_signal_also_of_a_unit_that_took_too_long(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    with pytest.raises(Interrupted), process(break_off_on_second=True):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert caplog.messages[-1] == "ends: SIGTERM received"


def test_a_daemon_that_ends_without_a_signal_names_none(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with process() as signals:
        signals.stop()
    assert not any(text.startswith("ends") for text in caplog.messages)


def test_an_interrupted_command_does_not_wait_for_a_silent_server() -> None:
    program = (
        "import os, signal, threading\n"
        "from londiste.orchestration.connections import side_by_side\n"
        "def ask(server):\n"
        "    if server == 'silent':\n"
        "        threading.Event().wait()\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "side_by_side(ask, ['silent', 'up'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, timeout=30, check=False
    )
    assert b"KeyboardInterrupt" in done.stderr
