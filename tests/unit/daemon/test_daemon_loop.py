"""The loop of every daemon: work, sleep, back off, stop."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste.daemon.logline import escaped
from londiste.daemon.loop import LONGEST_PAUSE, Loop, Trouble, level, pause
from londiste.daemon.signals import Interrupted, Signals
from londiste.errors import LondisteError, NodeDropped, NodeUnreachable, Superseded


def looping(work: Callable[[], bool], signals: Signals, **options: object) -> Callable[[], None]:
    loop = Loop(work, signals=signals, **options)  # type: ignore[arg-type]
    return loop.run


def test_pauses_double_up_to_a_limit_and_jitter_takes_off_half() -> None:
    assert [pause(n) for n in (1, 2, 3)] == [0.1, 0.2, 0.4]
    assert pause(1000) == LONGEST_PAUSE
    assert pause(1000, longest=5.0) == 5.0
    assert pause(4, chance=0.0) == pause(4) / 2


def test_a_dropped_node_is_no_warning_until_the_worker_is_left_behind() -> None:
    def levels(error: LondisteError) -> list[int]:
        return [level(error, failures) for failures in (1, 2, 4, 8, 16)]

    dropped = [logging.INFO] * 3 + [logging.WARNING] * 2
    assert levels(NodeDropped("it was dropped")) == dropped
    assert level(NodeDropped("it was dropped"), None) == logging.WARNING
    assert levels(NodeUnreachable("silent")) == [logging.WARNING] * 5
    assert levels(LondisteError("wrong")) == [logging.ERROR] * 5


def test_more_work_is_done_at_once() -> None:
    signals, rounds = Signals(), 0

    def work() -> bool:
        nonlocal rounds
        rounds += 1
        if rounds == 100:
            signals.stop()
        return True

    started = time.monotonic()
    looping(work, signals, delay=60.0)()
    assert rounds == 100
    # A single sleep takes a minute.
    assert time.monotonic() - started < 60


def test_without_work_the_loop_sleeps_until_it_is_woken() -> None:
    signals, passed = Signals(), []

    def work() -> bool:
        passed.append(time.monotonic())
        if len(passed) == 2:
            signals.stop()
        return False

    thread = threading.Thread(target=looping(work, signals, delay=60.0))
    thread.start()
    while not passed:
        thread.join(0.01)
    # Not woken: no second round, although the thread had time for thousands.
    thread.join(0.2)
    assert len(passed) == 1
    signals.wake()
    thread.join(60)
    assert len(passed) == 2
    assert not thread.is_alive()


def test_input_on_a_watched_file_ends_the_sleep() -> None:
    signals = Signals()
    reader, writer = os.pipe()
    os.write(writer, b"x")
    assert signals.wait(60.0, [reader]) == [reader]
    os.close(reader)
    os.close(writer)


def test_errors_are_tried_again_and_a_success_forgets_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    signals, rounds = Signals(), 0

    def work() -> bool:
        nonlocal rounds
        rounds += 1
        if rounds <= 3:
            raise NodeUnreachable("node a does not answer", hint="start it")
        signals.stop()
        return False

    with caplog.at_level(logging.INFO, "londiste"):
        looping(work, signals, longest_pause=0.02)()
    assert rounds == 4
    messages = [record.getMessage() for record in caplog.records]
    assert "hint: start it" in messages[0]
    assert messages[-1] == "recovered after 3 failures"
    assert all(r.levelno == logging.WARNING for r in caplog.records[:-1])


def test_the_same_failure_is_logged_ever_less_often() -> None:
    trouble, error = Trouble(), LondisteError("out of order")
    assert [n for n in range(1, 101) if trouble.failed(error)] == [1, 2, 4, 8, 16, 32, 64]
    assert trouble.failed(LondisteError("something else"))


def test_a_superseded_process_ends() -> None:
    def work() -> bool:
        raise Superseded("somebody else works here")

    with pytest.raises(Superseded):
        looping(work, Signals())()


def test_a_defect_is_named_and_does_not_end_the_daemon(caplog: pytest.LogCaptureFixture) -> None:
    signals, rounds = Signals(), 0

    def work() -> bool:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise KeyError("x")
        signals.stop()
        return False

    looping(work, signals, longest_pause=0.02)()
    assert "unexpected KeyError" in caplog.text
    assert "Traceback" not in caplog.text


def test_reload_is_called_between_two_units() -> None:
    signals, reloads = Signals(), 0

    def work() -> bool:
        if reloads:
            signals.stop()
        else:
            os.kill(os.getpid(), signal.SIGHUP)
        return False

    def reload() -> None:
        nonlocal reloads
        reloads += 1

    with signals.handled():
        looping(work, signals, on_reload=reload, delay=60.0)()
    assert reloads == 1


def test_sigterm_lets_the_unit_finish() -> None:
    signals, finished = Signals(), []

    def work() -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        finished.append(signals.stopping)
        return True

    with signals.handled():
        looping(work, signals)()
    assert finished == [True]


def test_a_unit_that_does_not_end_in_time_is_broken_off() -> None:
    signals, broken = Signals(stop_timeout=0.05), []

    def work() -> bool:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            threading.Event().wait(60)
        except Interrupted:
            broken.append(True)
            raise
        return True

    with signals.handled():
        looping(work, signals)()
    assert broken == [True]


def test_a_timer_of_the_caller_reaches_the_caller() -> None:
    heard = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    signals = Signals()
    try:
        with signals.handled():
            os.kill(os.getpid(), signal.SIGALRM)
            signal.setitimer(signal.ITIMER_REAL, 100)
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
        assert heard == [1] and left > 0
        # After a stop it is ours, and is not left behind.
        with signals.handled():
            os.kill(os.getpid(), signal.SIGTERM)
            assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
        os.kill(os.getpid(), signal.SIGALRM)
        assert heard == [1, 1]
    finally:
        signal.signal(signal.SIGALRM, before)
        signals.close()


def test_a_second_sigint_at_once_ends_the_process_at_once() -> None:
    program = (
        "import os, signal, threading\n"
        "from londiste.daemon.signals import Signals\n"
        "s = Signals(stop_timeout=60)\n"
        "with s.handled():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    threading.Event().wait(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert done.returncode == 130


def test_names_cannot_write_to_the_terminal_or_start_a_line() -> None:
    assert escaped("ünïcode is fine") == "ünïcode is fine"
    assert escaped("a\nb\x1b[31m\u202e") == "a\\x0ab\\x1b[31m\\u202e"


def test_a_line_is_written_once_when_stderr_is_the_logfile(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "import logging, sys; from pathlib import Path\n"
        "from londiste.daemon import logging as ours\n"
        "ours.setup(logfile=Path(sys.argv[1]))\n"
        "logging.getLogger('londiste.x').warning('once\\nonly')\n"
    )
    with log.open("ab") as output:
        subprocess.run([sys.executable, "-c", program, log], stderr=output, timeout=30, check=True)
    assert log.read_text().count("once\\x0aonly\n") == 1
