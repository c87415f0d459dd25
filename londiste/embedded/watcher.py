"""Watcher: ends a temporary server when the process that started it has died.

Started as a program of its own, in its own session, with the standard library only:

    python -I -S watcher.py DATA-DIRECTORY HOME DIRECTORY…

Standard input is a pipe whose other end only the starting process holds.  It says there
which processes it starts (``+PID``) and has seen end (``-PID``), and ``keep`` when the
server shall outlive it.  End of input, or another parent, means that it has died, however
that happened: whatever still runs is stopped and the directories are removed; HOME (may be an
empty text) only when nothing else is left in it.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    data, home = Path(sys.argv[1]), sys.argv[2]
    # Signals for the whole terminal or service are meant for the parent; its end is ours.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pids = wait_for_end(os.getppid())
    if pids is None:
        return
    deadline = time.monotonic() + 10
    # A second look: a server that was just being started writes its pid file a little later.
    for _ in range(2):
        stop(pids | postmaster(data), deadline)
        for directory in sys.argv[3:]:
            remove(Path(directory))
    if home:
        with contextlib.suppress(OSError):
            Path(home).rmdir()


def wait_for_end(parent: int) -> set[int] | None:
    """The processes to end after the parent's death; None if the server is to be kept."""
    pids: set[int] = set()
    text = b""
    while True:
        # A forked child of the parent may hold the pipe open, hence the look at the parent.
        readable, _, _ = select.select([0], [], [], 2.0)
        if not readable:
            if os.getppid() != parent:
                return pids
            continue
        chunk = os.read(0, 4096)
        if not chunk:
            return pids
        *lines, text = (text + chunk).split(b"\n")
        for line in lines:
            if line == b"keep":
                return None
            (pids.add if line[:1] == b"+" else pids.discard)(int(line[1:]))


def postmaster(data: Path) -> set[int]:
    try:
        return {abs(int((data / "postmaster.pid").read_text().split("\n")[0]))}
    except (OSError, ValueError):
        return set()


def stop(pids: set[int], deadline: float) -> None:
    """SIGQUIT is PostgreSQL's immediate shutdown: it ends all its processes at once."""
    for pid in pids:
        kill(pid, signal.SIGQUIT)
    while any(alive(pid) for pid in pids):
        if time.monotonic() > deadline:
            for pid in pids:
                kill(pid, signal.SIGKILL)
            return
        time.sleep(0.02)


def kill(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def alive(pid: int) -> bool:
    """False also for a zombie process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 -- once every 20 ms
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        pass
    if Path("/proc/self/stat").exists():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def remove(directory: Path) -> None:
    for _ in range(50):
        shutil.rmtree(directory, ignore_errors=True)
        if not directory.exists():
            return
        time.sleep(0.1)


if __name__ == "__main__":
    main()
