"""A copy of a process has its memory, and neither its sessions nor its locks nor its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.cluster import Database
from tests.integration.daemon.test_pidfile import ROOT, gone
from tests.support.waiting import wait_for

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere programs are started")

COMMON = """
import fcntl, gc, os, signal, stat, sys, threading, time
import psycopg
from londiste.daemon import child
from londiste.daemon.child import Child
from londiste.daemon.forked import may_fork
def sockets():
    return sum(stat.S_ISSOCK(os.stat(f'/proc/self/fd/{n}').st_mode)
               for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}'))
"""

#: Two sessions, one of them garbage in the copy; a locked file.
SESSIONS = """
conns = [psycopg.connect(sys.argv[1], autocommit=True) for _ in range(2)]
lock = open(sys.argv[2], 'w')
fcntl.flock(lock, fcntl.LOCK_EX)
def main():
    assert child.die_with_parent()
    assert sockets() == 0, 'a session of the other process'
    conns[0].close()
    conns.clear()
    gc.collect()
    with psycopg.connect(sys.argv[1]) as own:
        assert own.execute('select 6 * 7').fetchone() == (42,)
    return 7
assert may_fork()
one = Child.fork(main, [sys.executable, '-c', 'x', 'copy'])
assert one.wait(60) == 7, one.exit_code()
assert [c.execute('select 1').fetchone() for c in conns] == [(1,), (1,)]
print('whole')
"""

STANDS = """
lock = open(sys.argv[2], 'w')
fcntl.flock(lock, fcntl.LOCK_EX)
def main():
    assert child.die_with_parent()
    signal.signal(signal.SIGUSR1, lambda *a: None)
    print(os.getpid(), flush=True)
    while True:
        time.sleep(60)
one = Child.fork(main, ['londiste', 'copy'])
{then}
"""


def script(text: str, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMON + text, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_sessions_of_the_process_outlive_its_copy_which_has_its_own(
    new_database: Callable[..., Database], tmp_path: Path
) -> None:
    process = script(SESSIONS, new_database().dsn, str(tmp_path / "lock"))
    out, err = process.communicate(timeout=120)
    assert (out, process.returncode) == ("whole\n", 0), err


def test_a_copy_shows_its_own_command_line_holds_no_lock_and_dies_with_its_parent(
    tmp_path: Path,
) -> None:
    lock = tmp_path / "lock"
    process = script(STANDS.format(then="time.sleep(600)"), "", str(lock))
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    shown = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    assert shown == [b"londiste", b"copy"]
    held = [
        entry
        for entry in Path(f"/proc/{pid}/fd").iterdir()
        if entry.exists() and entry.resolve() == lock
    ]
    assert held == []
    process.kill()
    process.communicate()
    wait_for(lambda: gone(pid), what="the end of the copy")


def test_a_copy_is_ended_as_a_program_would_be(tmp_path: Path) -> None:
    then = (
        "assert one.wait(0.1) is None; code = one.terminate(); assert code == -signal.SIGTERM, code"
    )
    # The copy writes where the process does, so the end of both ends the output.
    out, err = script(STANDS.format(then=then), "", str(tmp_path / "lock")).communicate(timeout=120)
    assert (len(out.split()), err) in {(0, ""), (1, "")}


def test_an_error_in_a_copy_is_its_exit_code_and_is_told(tmp_path: Path) -> None:
    text = (
        "def main(): raise ValueError('told')\n"
        "assert Child.fork(main, ['x']).wait(60) == 70\n"
        "def main(): sys.exit(3)\n"
        "assert Child.fork(main, ['x']).wait(60) == 3\n"
        "print('both', signal.Signals.SIGTERM == 15)\n"
    )
    out, err = script(text).communicate(timeout=120)
    assert out == f"both {signal.SIGTERM == 15}\n", err
    assert "ValueError: told" in err


def test_a_process_with_another_thread_is_not_copied() -> None:
    text = (
        "print(may_fork())\n"
        "end = threading.Event()\n"
        "other = threading.Thread(target=end.wait); other.start()\n"
        "print(may_fork())\n"
        "end.set(); other.join()\n"
        "t = threading.Thread(target=lambda: print(may_fork())); t.start(); t.join()\n"
    )
    out, err = script(text).communicate(timeout=120)
    assert out.split() == ["True", "False", "False"], err
