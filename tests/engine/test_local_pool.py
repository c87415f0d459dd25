"""Processes that the local engine starts in advance."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.daemon.test_pidfile import ROOT, gone
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the first job does it")

COMMON = """
import os, signal, sys, threading, time
import londiste.engine.local.engine as local
from londiste.engine import by_size
from londiste.errors import TransientError
local._MOST_AHEAD = 1000
def who(item): return os.getpid()
def die(item): os.kill(os.getpid(), signal.SIGKILL)
def crash_points(item):
    from londiste.daemon import crash
    return bool(crash._armed)
def pids(engine): return set(engine._pool._processes) if engine._pool else set()
"""


def script(text: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMON + text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def said(text: str) -> str:
    out, err = script(text).communicate(timeout=120)
    assert err == ""
    return out.strip()


def test_jobs_run_in_the_processes_that_were_started_ahead() -> None:
    text = (
        "engine = by_size('local', None, 0, ahead=2)\n"
        "there = pids(engine)\n"
        "assert len(there) >= 2\n"
        "assert set(engine.run(who, [1, 2, 3, 4], 2)) <= there\n"
        "engine.close()\n"
        "print(not any(os.path.exists(f'/proc/{pid}') for pid in there))\n"
    )
    assert said(text) == "True"


def test_without_ahead_or_beside_another_thread_nothing_is_started() -> None:
    text = (
        "print(pids(by_size('local', None, 0)))\n"
        "end = threading.Event()\n"
        "other = threading.Thread(target=end.wait); other.start()\n"
        "print(pids(by_size('local', None, 0, ahead=2)))\n"
        "end.set(); other.join()\n"
    )
    assert said(text) == "set()\nset()"


def test_after_one_of_them_was_killed_others_are_started_in_their_place() -> None:
    text = (
        "engine = by_size('local', None, 0, ahead=2)\n"
        "there = pids(engine)\n"
        "try: list(engine.run(die, [1, 2], 2))\n"
        "except TransientError as error: print(error.message)\n"
        "print(engine._pool is None)\n"
        "engine.prepare(2)\n"
        "engine.close()\n"
    )
    assert said(text).splitlines() == ["local engine: a process was killed", "True"]


def test_they_do_not_outlive_a_process_that_was_killed() -> None:
    process = script(
        "engine = by_size('local', None, 0, ahead=2)\n"
        "print(*pids(engine), flush=True)\n"
        "time.sleep(600)\n"
    )
    assert process.stdout is not None
    pids = [int(pid) for pid in process.stdout.readline().split()]
    assert pids and not any(map(gone, pids))
    process.kill()
    process.communicate()
    wait_for(lambda: all(map(gone, pids)), what="the end of the pool")


def test_crash_points_are_those_of_the_pool_not_of_the_process() -> None:
    text = (
        "from londiste.daemon import crash\n"
        "crash.arm('copy.mid-chunk')\n"
        "engine = by_size('local', None, 0, ahead=2)\n"
        "print(set(engine.run(crash_points, [1, 2], 2)))\n"
        "engine.close()\n"
    )
    assert said(text) == "{False}"
