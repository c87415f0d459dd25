"""Measures one operation: time, processor time, memory of its program, WAL of the servers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.support import common, cpu
from londiste.embedded.postgres import Cluster


@dataclass(frozen=True)
class Cost:
    """An operation at one size; processor time in seconds, memory in MB, WAL in bytes."""

    operation: str
    seconds: float
    program: float
    server: float
    memory: float
    wal: int

    @property
    def processor(self) -> float:
        """Processor time of the program and the servers."""
        return self.program + self.server


class Meter:
    """Measures operations on these servers; daemons run in ``running`` blocks."""

    def __init__(self, servers: Sequence[Cluster], folder: Path) -> None:
        self.servers = servers
        self.folder = folder

    def command(self, operation: str, *argv: str) -> Cost:
        """Runs a command of ours to its end.  Raises AssertionError with its output."""
        with self._around() as around:
            log = self.folder / "command.log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [sys.executable, "-m", "londiste", *argv], stdout=output, stderr=output
                )
                _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise AssertionError(f"{' '.join(argv)}: {process.returncode}\n{log.read_text()}")
        return around.cost(operation, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)

    @contextlib.contextmanager
    def daemon(self, *argv: str) -> Iterator[int]:
        """Runs a daemon in the with block; its process id."""
        with (self.folder / f"{argv[-1]}.log").open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "londiste", *argv], stdout=output, stderr=output
            )
            try:
                yield process.pid
            finally:
                process.terminate()
                process.wait()

    @contextlib.contextmanager
    def watched(self, operation: str, *pids: int) -> Iterator[list[Cost]]:
        """Measures what happens in the with block; pids are the programs that do it.

        The list has the cost after the block.
        """
        found: list[Cost] = []
        before = sum(cpu.of_tree(pid) for pid in pids)
        with self._around() as around:
            yield found
        used = sum(cpu.of_tree(pid) for pid in pids) - before
        memory = max((cpu.peak_memory(pid) for pid in pids), default=0.0)
        found.append(around.cost(operation, used, memory))

    @contextlib.contextmanager
    def _around(self) -> Iterator[_Around]:
        around = _Around(self.servers)
        yield around
        around.end()


class _Around:
    """The servers before and after."""

    def __init__(self, servers: Sequence[Cluster]) -> None:
        self._servers = servers
        self._wal = self._written()
        self._watch = cpu.Stopwatch(*(_pid(one) for one in servers))

    def end(self) -> None:
        self.seconds, self.server = self._watch.seconds, self._watch.cpu()
        self._wal = self._written() - self._wal

    def cost(self, operation: str, program: float, memory: float) -> Cost:
        return Cost(operation, self.seconds, program, self.server, memory, self._wal)

    def _written(self) -> int:
        return sum(_wal(one) for one in self._servers)


def _wal(cluster: Cluster) -> int:
    with common.connect(cluster) as conn:
        row = conn.execute("select pg_current_wal_insert_lsn() - '0/0'::pg_lsn").fetchone()
    assert row is not None
    return int(row[0])


def _pid(cluster: Cluster) -> int:
    assert cluster.pid is not None
    return cluster.pid


def settings(folder: Path, name: str, section: str, values: Mapping[str, str]) -> str:
    """Writes a settings file; its path for ``-c``."""
    file = folder / f"{name}.toml"
    lines = "\n".join(f'{key} = "{value}"' for key, value in values.items())
    file.write_text(f"[{section}]\n{lines}\n")
    file.chmod(0o600)
    return str(file)


def wait(check: str, cluster: Cluster, database: str) -> None:
    """Waits until an SQL expression is true."""
    with common.connect(cluster, database) as conn:
        while True:
            row = conn.execute(check.encode()).fetchone()
            if row is not None and row[0]:
                return
            # Rarely enough to be no part of the server's processor time.
            time.sleep(0.02)
