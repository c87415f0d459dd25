"""Pid files, daemons in the background, and children that die with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from londiste.daemon import child, pidfile
from londiste.daemon.child import Child
from londiste.daemon.pidfile import PidFile
from londiste.errors import BadOption, LondisteError, NodeBusy, StateError, TransientError
from tests.fixtures.cluster import Database
from tests.fixtures.process import ROOT, Program
from tests.support.full_disk import full_disk
from tests.support.waiting import wait_for


def gone(pid: int) -> bool:
    """No such process, or one that only waits to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_the_second_process_is_told_who_runs(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with PidFile(path):
        assert path.read_text() == f"{os.getpid()}\n"
        assert pidfile.running(path) == os.getpid()
        with pytest.raises(NodeBusy, match=f"already running with process id {os.getpid()}"):
            PidFile(path).acquire()
    assert not path.exists()
    assert pidfile.running(path) is None


def test_a_number_that_now_belongs_to_another_process_is_never_signalled(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    path.write_text(f"{os.getpid()}\n")
    assert pidfile.running(path) is None
    with pytest.raises(StateError, match="not running") as caught:
        pidfile.send(path, signal.SIGKILL)
    assert "is stale" in caught.value.detail
    with PidFile(path):
        assert pidfile.running(path) == os.getpid()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a file of another user")
def test_a_file_of_another_user_leads_to_no_signal(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        with PidFile(path):
            path.write_text(f"{other.pid}\n")
            os.chown(path, 12345, 12345)
            with pytest.raises(StateError, match="belongs to another user than process"):
                pidfile.send(path, signal.SIGKILL)
            os.chown(path, 0, 0)
            assert pidfile.send(path, signal.SIGCONT) == other.pid
        other.communicate(b"\n")
        assert other.returncode == 0


def test_a_link_to_the_file_of_another_process_leads_to_no_signal(tmp_path: Path) -> None:
    other = tmp_path / "other"
    with PidFile(other):
        link = tmp_path / "pid"
        link.symlink_to(other)
        with pytest.raises(BadOption, match="is a symbolic link"):
            pidfile.send(link, signal.SIGCONT)
        link.unlink()
        link.hardlink_to(other)
        with pytest.raises(StateError, match="is a second name of the file"):
            pidfile.send(link, signal.SIGCONT)


def test_a_file_left_by_a_killed_process_does_not_stop_the_next(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    program = (
        "import sys, time; from pathlib import Path\n"
        "from londiste.daemon.pidfile import PidFile\n"
        "PidFile(Path(sys.argv[1])).acquire(); print('has it', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"has it\n"
        assert pidfile.running(path) == process.pid
        process.kill()
        process.wait()
    assert path.exists()
    with PidFile(path):
        assert path.read_text() == f"{os.getpid()}\n"


def test_of_many_that_start_at_once_one_gets_the_file(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    program = (
        "import sys; from pathlib import Path\n"
        "from londiste.daemon.pidfile import PidFile\n"
        "from londiste.errors import NodeBusy\n"
        "sys.stdin.readline()\n"
        "try: PidFile(Path(sys.argv[1])).acquire(); print('mine', flush=True)\n"
        "except NodeBusy: print('busy', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(5)
    ]
    for process in processes:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.stdout.readline().strip() for process in processes if process.stdout]
    for process in processes:
        process.communicate("end\n", timeout=30)
    assert sorted(answers) == ["busy"] * 4 + ["mine"]


def test_a_link_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("text")
    (tmp_path / "pid").symlink_to(target)
    with pytest.raises(BadOption, match="symbolic link"):
        PidFile(tmp_path / "pid").acquire()
    assert target.read_text() == "text"


@pytest.fixture
def settings(tmp_path: Path, pgq_db: Database) -> Iterator[Path]:
    """Settings of a ticker with pid file and log; what still runs afterwards is ended."""
    file = tmp_path / "ticker.toml"
    file.write_text(
        "[ticker]\nticker_period = 0.05\n"
        f'databases = ["{pgq_db.dsn}"]\n'
        f'pidfile = "{tmp_path / "ticker.pid"}"\nlogfile = "{tmp_path / "ticker.log"}"\n'
    )
    yield file
    pid = pidfile.running(tmp_path / "ticker.pid")
    if pid is not None:
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: gone(pid), what="the end of the daemon")


@pytest.mark.parametrize("how", ["-s", "-k"])
def test_a_daemon_goes_into_the_background_and_obeys(
    settings: Path, program: Callable[..., Program], how: str
) -> None:
    def londiste(*arguments: str) -> tuple[int, str]:
        done = program("-c", str(settings), "ticker", *arguments)
        return done.end(), done.text

    log = settings.with_suffix(".log")
    assert londiste("-s")[0] == 3
    started = time.monotonic()
    assert londiste("-d") == (0, "")
    assert time.monotonic() - started < 20
    pid = pidfile.running(settings.with_suffix(".pid"))
    assert pid is not None
    assert os.getsid(pid) != os.getsid(0)
    wait_for(lambda: "serving" in log.read_text(), what="its log")

    code, text = londiste("-d")
    assert code == 3
    assert f"already running with process id {pid}" in text

    assert londiste("-r")[0] == 0
    wait_for(lambda: "reloaded the settings" in log.read_text(), what="the reload")

    code, text = londiste(how)
    assert (code, text) == (0, f"stopped process {pid}\n")
    # So that the next start, or --rewind, finds neither its lock nor its address.
    assert pidfile.running(settings.with_suffix(".pid")) is None
    assert not settings.with_suffix(".pid").exists()

    code, text = londiste(how)
    assert code == 3
    assert "not running" in text
    or_else = f"or, if the command run has started it: londiste -c {settings} run {how}"
    assert f"hint: start it: -d; {or_else}\n" in text


def test_a_daemon_that_does_not_end_is_named(tmp_path: Path) -> None:
    with pidfile.PidFile(tmp_path / "pid"), pytest.raises(TransientError, match="still runs"):
        pidfile.wait_end(tmp_path / "pid", os.getpid(), 0)


def test_a_daemon_without_pid_file_is_refused(program: Callable[..., Program]) -> None:
    for arguments in (["-d", "--db", "host=x"], ["-r"], ["-s"], ["-k"]):
        done = program("ticker", *arguments)
        assert done.end() == 2
        assert "no pid file is configured" in done.text


CHILD = (
    "from londiste.daemon import child\n"
    "assert child.die_with_parent() and child.die_with_parent()\n"
    "import signal, sys, threading\n"
    "print('child stands', flush=True)\n"
    "threading.Event().wait(60)\n"
)
PARENT = (
    "import sys, threading, time\n"
    "from londiste.daemon.child import Child\n"
    "def start(): print(Child.start([sys.executable, '-c', sys.argv[1]]).pid, flush=True)\n"
    "if sys.argv[2] == 'thread':\n"
    "    t = threading.Thread(target=start); t.start(); t.join()\n"
    "else: start()\n"
    "time.sleep(60)\n"
)


@pytest.mark.parametrize("where", ["main", "thread"])
def test_a_child_does_not_outlive_a_parent_that_was_killed(where: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD, where], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert parent.stdout.readline() == "child stands\n"
        # The thread that started it has ended; that must not end the child.
        assert not gone(pid)
        parent.kill()
        parent.wait()
        wait_for(lambda: gone(pid), what="the end of the child")


def test_a_child_is_watched_and_ended() -> None:
    one = Child.start(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r});{CHILD}"]
    )
    assert one.exit_code() is None
    assert one.terminate() == -signal.SIGTERM
    assert one.exit_code() == -signal.SIGTERM


def test_a_child_that_ignores_the_request_is_killed() -> None:
    stubborn = (
        "import signal, threading; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('stands', flush=True); threading.Event().wait(60)"
    )
    one = Child.start([sys.executable, "-c", stubborn])
    assert one.wait(0.5) is None
    assert one.terminate(grace=0.1) in {-signal.SIGKILL, -signal.SIGTERM}


def test_a_process_that_nobody_started_as_a_child_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("LONDISTE_PARENT_FILE", raising=False)
    assert child.die_with_parent() is False


def test_a_full_disk_leaves_no_pid_file_and_the_error_names_it(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with full_disk(), pytest.raises(LondisteError) as caught:
        PidFile(path).acquire()
    assert caught.value.message == f"pidfile {path}: File too large"
    assert "free space" in caught.value.hint
    assert not path.exists()
    with PidFile(path):
        assert pidfile.running(path) == os.getpid()
