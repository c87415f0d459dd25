"""CPU time of sessions, whole servers and started programs.

Wall time on a shared machine says what the others did; CPU time says what the work costs.  All
figures are seconds of user and system time together, from ``/proc``: Linux only.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import psycopg

_TICK = os.sysconf("SC_CLK_TCK")


def of_session(conn: psycopg.Connection) -> float:
    """What the server process of a session has used; resolution nanoseconds where the kernel
    accounts for them, else 10 ms."""
    return of_process(conn.info.backend_pid)


def of_process(pid: int) -> float:
    """What one process has used so far, its children not included."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return sum(_fields(pid)[:2]) / _TICK


def of_tree(pid: int) -> float:
    """What a process and all its descendants have used, those that are gone included.

    For a server give the process id of its postmaster: it waits for every process it started,
    so what ended sessions used is in its own account.
    """
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                children.setdefault(_parent(int(entry.name)), []).append(int(entry.name))
            except OSError:
                continue  # it has ended meanwhile
    total = 0.0
    waiting = [pid]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        try:
            total += sum(_fields(process)) / _TICK
        except OSError:
            continue
    return total


def peak_memory(pid: int) -> float:
    """The most memory a living process ever had resident, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Stopwatch:
    """Wall and CPU time since it was made: ``seconds`` and ``cpu()`` of process trees."""

    def __init__(self, *trees: int) -> None:
        """trees are process ids, see ``of_tree``."""
        self._trees = trees
        self._before = sum(of_tree(pid) for pid in trees)
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Wall time so far."""
        return time.perf_counter() - self._started

    def cpu(self) -> float:
        """CPU time of all the trees so far."""
        return sum(of_tree(pid) for pid in self._trees) - self._before


def _fields(pid: int) -> tuple[int, int, int, int]:
    """utime, stime, cutime and cstime of a process, in ticks."""
    text = Path(f"/proc/{pid}/stat").read_text()
    parts = text[text.rindex(")") + 2 :].split()
    return int(parts[11]), int(parts[12]), int(parts[13]), int(parts[14])


def _parent(pid: int) -> int:
    text = Path(f"/proc/{pid}/stat").read_text()
    return int(text[text.rindex(")") + 2 :].split()[1])
