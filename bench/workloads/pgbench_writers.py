"""Writers for benchmarks: pgbench updates a table and counts its transactions."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import TracebackType

from londiste.embedded.postgres import Cluster

CLIENTS = 2
SCRIPT = r"""
\set aid random(1, {rows})
\set delta random(-5000, 5000)
update pgbench_accounts set abalance = abalance + :delta where aid = :aid;
"""


class Writers:
    """Two clients that write as fast as they can, from entering to leaving."""

    def __init__(
        self, pgbench: Path, source: Cluster, database: str, rows: int, folder: Path
    ) -> None:
        """rows -- keys are from 1 to this."""
        self._script = folder / "writers.sql"
        self._script.write_text(SCRIPT.format(rows=rows))
        self._logs = folder / f"writers-{time.monotonic_ns()}"
        self._argv = [
            *(str(pgbench), "-n", "-M", "prepared", "-c", str(CLIENTS), "-T", "36000"),
            *("-f", str(self._script), "-l", "--log-prefix", str(self._logs)),
            source.dsn(database),
        ]
        self._env = source.environment()
        self._ends: list[float] = []

    def __enter__(self) -> Writers:
        self._process = subprocess.Popen(
            self._argv, env=self._env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def warm(self, seconds: float) -> None:
        """Lets them write alone for a while."""
        time.sleep(seconds)
        if self._process.poll() is not None:
            raise AssertionError("pgbench has ended")

    def finish(self) -> None:
        """Ends them.  Their logs are written in blocks: the last ones are waited for."""
        time.sleep(0.5)
        if self._process.poll() is not None:
            raise AssertionError("pgbench has ended")
        self._process.terminate()
        self._process.wait()
        for file in self._logs.parent.glob(f"{self._logs.name}*"):
            for line in file.read_text().splitlines():
                fields = line.split()
                # client, number, microseconds, script, seconds, microseconds of its end
                if len(fields) >= 6:
                    self._ends.append(int(fields[4]) + int(fields[5]) / 1e6)

    def rate(self, start: float, end: float) -> float:
        """Transactions a second that ended in this span of the system's clock."""
        return sum(start <= when < end for when in self._ends) / max(end - start, 0.001)
