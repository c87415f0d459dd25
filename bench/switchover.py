"""Duration without writes during a switchover, with four writers.

A root and a branch on two durable servers, with ticker and workers at default settings.  Each run
is the command ``londiste switchover`` as a user types it, there and back in turns.  A writer that
is refused goes to the other node at once.  The block lasts from the last commit that was confirmed
on the old root to the first on the new one.

Afterwards every row that was confirmed is looked for on both nodes, and every number that the
sequence gave out is counted.

    python -m bench.switchover [--runs 20] [--connections 4]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.support import common
from londiste.embedded.postgres import Cluster

QUEUE = "bench"
DDL = "create table written (id bigserial primary key, writer int not null, n bigint not null)"
INSERT = "insert into written (writer, n) values (%s, %s) returning id"
REFUSED = "LD102"
NAMES = ("n1", "n2")
#: Seconds before a writer that was refused tries the other node.
RETRY = 0.01
#: Seconds of writing before and after each switchover.
STEADY = 1.0


@dataclass
class Load:
    """Connections that write on whichever node takes it.

    commits -- (time, node, id, writer, n) of each confirmed row.
    unknown -- (writer, n) of those whose answer was lost.
    """

    dsns: dict[str, str]
    commits: list[tuple[float, str, int, int, int]] = field(default_factory=list)
    unknown: set[tuple[int, int]] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self, connections: int) -> None:
        """Begins to write."""
        for number in range(connections):
            self._threads.append(threading.Thread(target=self._write, args=(number,), daemon=True))
            self._threads[-1].start()

    def stop(self) -> None:
        """Ends it.  RuntimeError when a writer met an error that it should not have met."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self.failures:
            raise RuntimeError(f"writers have failed: {self.failures}")

    def block(self, since: float, old: str, new: str) -> float:
        """Seconds between the last commit on ``old`` and the first on ``new``, after ``since``."""
        seen = [c for c in self.commits if c[0] >= since]
        return min(c[0] for c in seen if c[1] == new) - max(c[0] for c in seen if c[1] == old)

    def _write(self, writer: int) -> None:
        conns: dict[str, psycopg.Connection] = {}
        place, n = 0, 0
        while not self._stop.is_set():
            node = NAMES[place % len(NAMES)]
            n += 1
            try:
                if node not in conns or conns[node].closed:
                    conns[node] = psycopg.connect(self.dsns[node], autocommit=True)
                row = conns[node].execute(INSERT, [writer, n], prepare=True).fetchone()
                assert row is not None
                self.commits.append((time.monotonic(), node, row[0], writer, n))
            except psycopg.Error as error:
                if error.sqlstate == REFUSED:
                    place += 1
                    time.sleep(RETRY)
                elif isinstance(error, psycopg.OperationalError):
                    self.unknown.add((writer, n))
                    place += 1
                else:
                    self.failures.append(repr(error))
                    return
        for conn in conns.values():
            conn.close()


def main() -> None:
    """Runs the benchmark and prints what was to be reached."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--verbose", action="store_true", help="print each run and its steps")
    parser.add_argument("--json", type=Path, metavar="FILE", help="put the figures there, too")
    args = parser.parse_args()
    with (
        common.servers(*NAMES) as servers,
        tempfile.TemporaryDirectory() as folder,
        running(dict(zip(NAMES, servers, strict=True)), Path(folder)) as files,
    ):
        dsns = {name: server.dsn("db") for name, server in zip(NAMES, servers, strict=True)}
        load = Load(dsns)
        load.start(args.connections)
        blocks = []
        old, new = NAMES
        for number in range(args.runs):
            time.sleep(STEADY)
            since = time.monotonic()
            told = londiste(files[new], "switchover")
            time.sleep(STEADY)
            blocks.append(load.block(since, old, new))
            if args.verbose:
                print(f"run {number + 1}: {old} -> {new}, {blocks[-1] * 1000:.0f} ms", flush=True)
                for seconds, line in told:
                    print(f"    {(seconds - since) * 1000:6.0f} ms  {line}", flush=True)
            old, new = new, old
        load.stop()
        londiste(files[new], "wait-root")
        lost, twice, repeated = check(load, dsns)
    report(blocks, len(load.commits), lost, twice, repeated, args.json)
    if lost or twice or repeated:
        sys.exit(1)


@contextlib.contextmanager
def running(servers: dict[str, Cluster], folder: Path) -> Iterator[dict[str, Path]]:
    """The two nodes, at work; the settings files by name."""
    files = {name: folder / f"{name}.toml" for name in servers}
    dsns = {}
    for name, server in servers.items():
        server.create_database("db")
        with common.connect(server, "db") as conn:
            conn.execute(DDL)
        dsns[name] = server.dsn("db")
        files[name].write_text(
            f'[londiste]\ndb = "{dsns[name]}"\nqueue_name = "{QUEUE}"\njob_name = "{name}"\n'
        )
        londiste(files[name], "install")
    ticker = folder / "ticker.toml"
    ticker.write_text(f"[ticker]\ndatabases = {json.dumps(list(dsns.values()))}\n")
    n1, n2 = NAMES
    londiste(files[n1], "create-root", n1, dsns[n1])
    londiste(files[n2], "create-branch", n2, dsns[n2], "--provider", dsns[n1])
    for name in NAMES:
        londiste(files[name], "add-table", "written")
        londiste(files[name], "add-seq", "written_id_seq")
    processes = [
        subprocess.Popen([sys.executable, "-m", "londiste", "-q", "-c", str(file), command])
        for file, command in [(ticker, "ticker"), *((files[n], "worker") for n in NAMES)]
    ]
    try:
        londiste(files[n2], "wait-sync")
        yield files
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def londiste(file: Path, *args: str) -> list[tuple[float, str]]:
    """Runs a command of ours; what it said, and when."""
    with subprocess.Popen(
        [sys.executable, "-m", "londiste", "-c", str(file), *args],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        told = [(time.monotonic(), line.rstrip()) for line in process.stderr]
    if process.returncode != 0:
        raise RuntimeError("\n".join(line for _, line in told))
    return told


def check(load: Load, dsns: dict[str, str]) -> tuple[int, int, int]:
    """Rows lost and rows that came twice, on all nodes together; ids that were given out twice."""
    wanted = {(writer, n) for _, _, _, writer, n in load.commits}
    lost = twice = 0
    for dsn in dsns.values():
        with psycopg.connect(dsn) as conn:
            found = Counter(conn.execute("select writer, n from written").fetchall())
        lost += len(wanted - set(found))
        twice += sum(found.values()) - len(found)
        strange = set(found) - wanted - load.unknown
        if strange:
            raise AssertionError(f"rows that nobody has confirmed: {sorted(strange)[:5]}")
    ids = Counter(commit[2] for commit in load.commits)
    return lost, twice, sum(ids.values()) - len(ids)


def report(
    blocks: list[float], rows: int, lost: int, twice: int, repeated: int, file: Path | None
) -> None:
    """Prints the table of goals, and one line of JSON."""
    ordered = sorted(blocks)
    p50, p95 = (ordered[min(len(ordered) - 1, int(len(ordered) * p))] for p in (0.5, 0.95))
    print(f"\n## Write block of {len(blocks)} switchovers, {rows:,} rows\n\n{common.machine()}")
    common.goals(
        [
            common.Goal("write block p50, s", p50, 1.0, at_least=False),
            common.Goal("write block p95, s", p95, 3.0, at_least=False),
            common.Goal("rows lost", lost, 0.0, at_least=False),
            common.Goal("rows twice", twice, 0.0, at_least=False),
            common.Goal("numbers of the sequence twice", repeated, 0.0, at_least=False),
        ]
    )
    result = {
        "runs": len(blocks),
        "p50": round(p50, 3),
        "p95": round(p95, 3),
        "longest": round(ordered[-1], 3),
        "rows": rows,
        "lost": lost,
        "twice": twice,
        "repeated": repeated,
    }
    print("\n" + json.dumps(result))
    common.write_json(file, "switchover", result)


if __name__ == "__main__":
    main()
