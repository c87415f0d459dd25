"""Methods of replaying a backlog in bench.replay: Londiste's worker, native, Londiste 3.

Each way has a source server of its own, so that none has to read past what another wrote there;
the target databases share a server, and only one of them is written to at a time.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench.support import common, cpu
from bench.workloads import replay_changes
from londiste.embedded.postgres import Cluster

QUEUE = "bench"


@dataclass(frozen=True)
class Run:
    """A backlog caught up: wall and CPU seconds, and the program's memory in MB.

    cpu -- of all processes: the program, the source's server, the target's server.
    program -- the program's part of it; native has none.
    """

    seconds: float
    cpu: float
    program: float = 0.0
    source: float = 0.0
    target: float = 0.0
    memory: float = 0.0


class Way:
    """One way of replaying, with its two databases of the same name."""

    name: str
    key: str

    def __init__(self, source: Cluster, target: Cluster, folder: Path, workload: str) -> None:
        self.source = source
        self.target = target
        self.folder = folder
        self.workload = workload

    def prepare(self, rows: int) -> None:
        """Both databases with equal tables, and replication between them."""
        for cluster in (self.source, self.target):
            cluster.create_database(self.key)
            with common.connect(cluster, self.key) as conn:
                replay_changes.create(conn, self.workload, rows)
        self.replicate()

    def replicate(self) -> None:
        """Sets replication up; the tables are equal already."""
        raise NotImplementedError

    def tick(self, conn: psycopg.Connection) -> None:
        """Ends a batch on the source, for those that have batches."""

    def catch_up(self) -> Run:
        """Starts to apply, and returns when all of the backlog is there."""
        raise NotImplementedError

    def change(self, seed: float, events: int, batch: int) -> int:
        """Makes the changes of a round, a tick after each batch; how many rows were changed."""
        with common.connect(self.source, self.key) as conn:
            # Only replay is measured: the disk need not be waited for here.
            conn.execute("set synchronous_commit = off")
            self.tick(conn)
            for number in range(max(1, events // batch)):
                replay_changes.change(conn, (seed + number / 1000) % 1, batch)
                self.tick(conn)
            conn.execute("vacuum")
            conn.execute("checkpoint")
        with common.connect(self.target, self.key) as conn:
            conn.execute("vacuum")
            conn.execute("checkpoint")
        return max(1, events // batch) * batch

    def contents(self, cluster: Cluster) -> list[tuple[object, ...]]:
        """Counts and hashes of the tables."""
        with common.connect(cluster, self.key) as conn:
            return replay_changes.contents(conn, self.workload)

    def end(self) -> None:
        """Leaves nothing running."""

    def _trees(self) -> tuple[int, int]:
        assert self.source.pid is not None and self.target.pid is not None
        return self.source.pid, self.target.pid


class Native(Way):
    """A subscription that is enabled for the backlog."""

    name = "native subscription"
    key = "native"

    def __init__(
        self, source: Cluster, target: Cluster, folder: Path, workload: str, *, binary: bool = False
    ) -> None:
        super().__init__(source, target, folder, workload)
        self.binary = binary

    def replicate(self) -> None:
        names = ", ".join(replay_changes.tables(self.workload))
        with common.connect(self.source, self.key) as conn:
            conn.execute(f"create publication p for table {names}")
            conn.execute("select pg_create_logical_replication_slot('s', 'pgoutput')")
        with common.connect(self.target, self.key) as conn:
            conn.execute(
                f"create subscription s connection '{self.source.dsn(self.key)}' publication p"
                " with (create_slot = false, slot_name = 's', copy_data = false, enabled = false,"
                f" binary = {self.binary})"
            )

    def catch_up(self) -> Run:
        with (
            common.connect(self.source, self.key) as src,
            common.connect(self.target, self.key) as dst,
        ):
            row = src.execute("select pg_current_wal_insert_lsn()::text").fetchone()
            assert row is not None
            used = [cpu.of_tree(pid) for pid in self._trees()]
            started = time.perf_counter()
            dst.execute("alter subscription s enable")
            common.wait_until(
                "select coalesce(bool_and(replay_lsn >= "
                f"'{row[0]}'::pg_lsn), false) from pg_stat_replication"
                " where application_name = 's'",
                src,
            )
            seconds = time.perf_counter() - started
            source, target = (
                cpu.of_tree(pid) - had for pid, had in zip(self._trees(), used, strict=True)
            )
            dst.execute("alter subscription s disable")
            common.wait_until(
                "select not active from pg_replication_slots where slot_name = 's'", src
            )
            return Run(seconds, source + target, 0.0, source, target)

    def end(self) -> None:
        with common.connect(self.target, self.key) as conn:
            conn.execute("drop subscription s")


class Program(Way):
    """A way whose work is done by a program of its own.

    Time and CPU count from its first session on the source, as the subscription's from its start,
    until the source knows that the last tick is done: a worker is started once and runs for months.
    """

    consumer: str

    def catch_up(self) -> Run:
        with common.connect(self.source, self.key) as src:
            used = [cpu.of_tree(pid) for pid in self._trees()]
            row = src.execute(
                "select max(tick_id) from pgq.tick join pgq.queue on queue_id = tick_queue"
                " where queue_name = %s",
                [QUEUE],
            ).fetchone()
            assert row is not None
            running = self.start()
            common.wait_until(
                "select count(*) > 1 from pg_stat_activity where datname = current_database()"
                " and backend_type = 'client backend'",
                src,
            )
            started, before = time.perf_counter(), cpu.of_tree(running.pid)
            memory, after = 0.0, before
            while not self.finished(running, src, row[0]):
                # Of a program that has ended nobody can ask it any more.
                with contextlib.suppress(OSError, ProcessLookupError):
                    memory, after = (
                        cpu.peak_memory(running.pid) or memory,
                        max(after, cpu.of_tree(running.pid)),
                    )
                time.sleep(0.01)
            seconds = time.perf_counter() - started
            self.stop(running)
            source, target = (
                cpu.of_tree(pid) - had for pid, had in zip(self._trees(), used, strict=True)
            )
            program = after - before
            return Run(seconds, program + source + target, program, source, target, memory)

    def start(self) -> subprocess.Popen[bytes]:
        """Starts the program on the backlog."""
        raise NotImplementedError

    def finished(
        self, running: subprocess.Popen[bytes], src: psycopg.Connection, last_tick: int
    ) -> bool:
        """Whether the backlog is applied, up to this tick."""
        if running.poll() not in (None, 0):
            raise AssertionError(f"the worker ended with {running.returncode}")
        row = src.execute(
            "select bool_and(last_tick >= %s) from pgq.get_consumer_info(%s, %s)",
            [last_tick, QUEUE, self.consumer],
        ).fetchone()
        return row == (True,)

    def stop(self, running: subprocess.Popen[bytes]) -> None:
        """Ends the program if it is still there."""

    def tick(self, conn: psycopg.Connection) -> None:
        conn.execute("select pgq.force_tick(%s)", [QUEUE])
        conn.execute("select pgq.ticker(%s)", [QUEUE])


class Ours(Program):
    """Our worker, with the engine that needs no Spark session."""

    name = "londiste worker"
    key = "ours"
    consumer = "leaf"
    form: str | None = None

    def replicate(self) -> None:
        for name, cluster in (("root", self.source), ("leaf", self.target)):
            (self.folder / f"{name}.toml").write_text(
                f'[londiste]\ndb = "{cluster.dsn(self.key)}"\nqueue_name = "{QUEUE}"\n'
                f'job_name = "{name}"\nengine = "local"\nloop_delay = 0.05\n'
            )
            self.run(name, "install")
        names = replay_changes.tables(self.workload)
        form = [] if self.form is None else ["--form", self.form]
        self.run("root", "create-root", "root", self.source.dsn(self.key))
        self.run(
            *("leaf", "create-leaf", "leaf", self.target.dsn(self.key)),
            *("--provider", self.source.dsn(self.key)),
        )
        self.run("root", "add-table", *names, *form)
        self.run("leaf", "add-table", *names, "--expect-sync")

    def run(self, node: str, *args: str) -> None:
        """Runs a command of ours on one of the nodes."""
        done = subprocess.run(self.command(node, *args), capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"londiste {' '.join(args)}: {done.stderr}")

    def command(self, node: str, *args: str) -> list[str]:
        file = str(self.folder / f"{node}.toml")
        return [sys.executable, "-m", "londiste", "-q", "-c", file, *args]

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command("leaf", "worker", "--once"))

    def stop(self, running: subprocess.Popen[bytes]) -> None:
        if running.wait() != 0:
            raise AssertionError(f"the worker ended with {running.returncode}")


class Londiste3(Program):
    """The worker of the original as it comes."""

    name = "Londiste 3"
    key = "original"
    consumer = "leaf3"
    program: Path

    def replicate(self) -> None:
        for cluster in (self.source, self.target):
            with common.connect(cluster, self.key) as conn:
                for extension in ("pgq", "pgq_node", "londiste"):
                    conn.execute(f"create extension {extension}")
        for name, cluster in (("root3", self.source), ("leaf3", self.target)):
            (self.folder / f"{name}.ini").write_text(
                f"[londiste]\njob_name = {name}\ndb = {cluster.dsn(self.key)}\n"
                f"queue_name = {QUEUE}\nloop_delay = 0.05\n"
                f"logfile = {self.folder}/{name}.log\npidfile = {self.folder}/{name}.pid\n"
            )
        names = replay_changes.tables(self.workload)
        self.run("root3", "create-root", "root3", self.source.dsn(self.key))
        self.run(
            *("leaf3", "create-leaf", "leaf3", self.target.dsn(self.key)),
            f"--provider={self.source.dsn(self.key)}",
        )
        self.run("root3", "add-table", *names)
        self.run("leaf3", "add-table", *names, "--expect-sync")

    def run(self, node: str, *args: str) -> None:
        """Runs a command of the original on one of the nodes."""
        done = subprocess.run(
            [self.program, "-q", self.folder / f"{node}.ini", *args], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise AssertionError(f"{self.program} {' '.join(args)}: {done.stdout}{done.stderr}")

    def start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen([self.program, "-q", self.folder / "leaf3.ini", "worker"])

    def stop(self, running: subprocess.Popen[bytes]) -> None:
        running.send_signal(signal.SIGTERM)
        running.wait()
