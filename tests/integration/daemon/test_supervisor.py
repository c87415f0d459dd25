"""A daemon that cannot be started is a failed daemon: logged, counted and started again."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from londiste.daemon.signals import Signals
from londiste.daemon.supervisor import Daemon, Supervisor
from londiste.orchestration.daemons import Daemons, Found, Need
from londiste.replication.worker.copy_launcher import Copies
from tests.support.waiting import wait_for


def test_a_program_that_is_missing_is_started_when_it_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    program, ran = tmp_path / "program", tmp_path / "ran"
    other = Daemon("other", ("/bin/sh", "-c", "exec sleep 60"))
    signals = Signals()
    supervisor = Supervisor(
        lambda: [Daemon("late", (str(program),)), other],
        signals,
        stop_timeout=5.0,
        longest=0.1,
        output=[],
    )
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        wait_for(lambda: supervisor.health().get("late", (True, 0))[1] >= 2, what="two failures")
        assert "late cannot start: No such file or directory; it is started again" in caplog.text
        assert supervisor.health()["other"] == (True, 0)
        program.write_text(f"#!/bin/sh\ntouch {ran}\nexec sleep 60\n")
        wait_for(lambda: "late cannot start: Permission denied" in caplog.text, what="its right")
        program.chmod(0o755)
        wait_for(ran.exists, what="the start")
        assert supervisor.health()["late"][0] and thread.is_alive()
    finally:
        signals.stop()
        thread.join(60)
    assert not thread.is_alive()
    assert "other stopped with exit code -15" in caplog.text


def test_a_copy_process_that_cannot_start_is_tried_again(tmp_path: Path) -> None:
    program, ran = tmp_path / "program", tmp_path / "ran"
    copies = Copies([str(program)], longest_pause=0.1)
    wait_for(lambda: copies.look_after(True) or copies.failures >= 2, what="two failures")
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexec sleep 60\n")
    program.chmod(0o755)
    wait_for(lambda: copies.look_after(True) or ran.exists(), what="the start")
    copies.stop()


def test_a_daemon_of_a_command_that_cannot_start_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("londiste.orchestration.daemons.PERIOD", 0.05)
    program, ran = tmp_path / "program", tmp_path / "ran"
    children = Daemons([Need("late", (str(program),), {})], Found, hint="")
    assert children.look() == Found() and children.own == []
    program.write_text(f"#!/bin/sh\ntouch {ran}\nexec sleep 60\n")
    program.chmod(0o755)
    wait_for(lambda: children.look() == Found() and ran.exists(), what="the start")
    children.close()
