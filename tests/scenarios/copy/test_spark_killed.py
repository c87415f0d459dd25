"""kill -9 of whatever takes part in a copy by Spark, at every state of the copy, under key moves.

One copy passes all states.  In each of them the process that has come there stands still, rows
move, somebody is killed, and what stood still goes on: an orphan, if its process is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psycopg
import pytest

from londiste.daemon.waiting import wait_until
from londiste.embedded.postgres import Cluster
from tests.fixtures.spark import DRIVER, EXECUTOR, SparkCluster, ancestors, send, stopped
from tests.support.scenarios import oracles, writers
from tests.support.scenarios.harness import Cascade, Node, quoted
from tests.support.scenarios.processes import command_line
from tests.support.scenarios.writers import TokenWriter

#: In the order of a copy; the first is before anything is prepared.
STATES = (
    "copy.registered",
    "copy.mid-chunk",
    "copy.after-chunk",
    "copy.all-chunks",
    "copy.catching-up",
    "copy.wanna-sync",
    "copy.before-ok",
)
VICTIMS = (
    "copy process",
    "jvm",
    "executor",
    "worker",
    "source backend",
    "target backend",
    "source server",
    "target server",
)
#: What Spark's and Python's traces look like.
TRACES = ("Traceback", "\tat org.apache", "\tat java.", "Py4JJavaError")
DURABLE = {"fsync": "on", "full_page_writes": "on"}
TABLES = (*writers.KEYED, *writers.KEYLESS, "scenario.bulk")


class Killing:
    """Source and target on servers of their own, and a copy by Spark of the big table."""

    def __init__(
        self,
        cascade: Cascade,
        new_cluster: Callable[..., Cluster],
        way: str,
        master: str = "local[2]",
    ) -> None:
        self.cascade = cascade
        self.servers = {
            "source": new_cluster("source", version=16, settings=DURABLE),
            "target": new_cluster("target", version=18, settings=DURABLE),
        }
        cascade.engine = "spark"
        cascade.settings |= {
            "copy_chunk_bytes": str(512 * 1024),
            "resumable_copy_min_bytes": "0" if way == "resumable" else str(1 << 40),
            '"spark.master"': quoted(master),
            '"spark.executor.memory"': quoted("512m"),
        }
        self.root = cascade.root(
            on=self.servers["source"],
            schema=writers.SCHEMA + writers.DATA + writers.BULK + writers.BULK_ROWS,
        )
        self.leaf = cascade.leaf(
            provider=self.root,
            on=self.servers["target"],
            schema=writers.SCHEMA + writers.DATA + writers.BULK,
        )
        self.mark = cascade.directory / "state"
        self.environment: dict[str, str] = {}
        self._moves = 0
        self._seen: set[str] = set()

    def begin(self, states: tuple[str, ...]) -> None:
        """The small tables are replicated already, without a copy; nobody writes yet.

        states -- where the copy of the big one stands still, once in each.
        """
        cascade = self.cascade
        cascade.start_ticker()
        for node, options in ((self.root, ()), (self.leaf, ("--expect-sync",))):
            cascade.londiste(node, "add-table", *writers.KEYED, *options)
            cascade.londiste(node, "add-table", *writers.KEYLESS, "--insert-only", *options)
        # One more than there are: each has a file of its own also when only one state is wanted.
        self.environment = {
            "LONDISTE_CRASH": ",".join((*states, "ticker.mid-rotation")),
            "LONDISTE_CRASH_MARK": str(self.mark),
            "LONDISTE_CRASH_SIGNAL": "STOP",
        }
        self.start_worker()

    def start_worker(self) -> None:
        """Its children stand still at the states."""
        self.leaf.worker = self.cascade.processes.start(
            "leaf_worker",
            self.cascade.command(self.leaf.config, "worker"),
            self.environment,
        )

    def wait_state(self, state: str, *, may_end: bool = False) -> list[int]:
        """Waits until the copy stands still there; which processes do.

        may_end -- one that came there after its executor was killed may have ended with it.
        """
        mark = Path(f"{self.mark}.{state}")
        self.cascade.wait(mark.exists, f"the copy at {state}", 900)
        found: list[int] = []

        def stands() -> bool:
            # Where two tasks stood still at a time, both were sent on.
            found[:] = stopped(self.cascade.processes)
            return bool(found) or state in self._seen

        if may_end:
            wait_until(stands, 10)
        else:
            self.cascade.wait(stands, f"who stands still at {state}", 60)
        self._seen = {path.suffixes[-2][1:] + path.suffix for path in self._marks()}
        self.move_rows()
        return found

    def _marks(self) -> list[Path]:
        return list(self.mark.parent.glob(f"{self.mark.name}.*"))

    def move_rows(self) -> None:
        """Rows of all ranges get other keys, among them such as others had before."""
        n = self._moves = self._moves + 1
        self.root.database.execute(
            f"update scenario.bulk set id = id + 1000000 * {n} where id % 97 = {n};"
            f" update scenario.bulk set id = -id, filler = 'front' where id % 89 = {n};"
            f" delete from scenario.bulk where id % 101 = {n};"
            f" insert into scenario.bulk select id - 1000000 * {n}, 'again' from scenario.bulk"
            f"  where id / 1000000 = {n} and id % 3 = 0;"
            f" delete from scenario.bulk where id % 89 = -{n} and id % 2 = 0;"
            f" update scenario.bulk set filler = 'n{n}' where id % 103 = {n}"
        )

    def kill(self, victim: str) -> None:
        """kill -9, or a crash of a server and its start; nothing when there is no such process."""
        processes = self.cascade.processes
        if victim == "worker":
            assert self.leaf.worker is not None
            self.leaf.worker.kill()
            self.start_worker()
        elif victim == "copy process":
            self._end([p for p in processes.living() if command_line(p).endswith(" copy")])
        elif victim == "jvm":
            self._end(processes.find(DRIVER))
        elif victim == "executor":
            self._end(processes.find(EXECUTOR)[:1])
        else:
            side, _, what = victim.partition(" ")
            if what == "server":
                self.servers[side].restart("immediate")
            else:
                self._end_backend({"source": self.root, "target": self.leaf}[side])

    def _end_backend(self, node: Node) -> None:
        """One of the copy's sessions, a task's first: the server recovers as from a crash."""
        found = node.database.value(
            "select pid from pg_stat_activity where application_name like 'londiste copy%'"
            " and datname = current_database()"
            " order by application_name like 'londiste copy%' || 'bulk%' desc,"
            " application_name like 'londiste copy task%' desc limit 1"
        )
        if found is not None:
            os.kill(int(found), signal.SIGKILL)

            def back() -> bool:
                try:
                    return bool(node.database.value("select true"))
                except psycopg.OperationalError:
                    return False

            self.cascade.wait(back, f"the recovery of {node.name}", 120)

    def _end(self, pids: list[int]) -> None:
        for pid in pids:
            send(pid, signal.SIGKILL)

    def go_on(self, pids: list[int]) -> None:
        """What stood still goes on, if it is still there."""
        for pid in pids:
            send(pid, signal.SIGCONT)

    @contextlib.contextmanager
    def writing(self) -> Iterator[tuple[TokenWriter, TokenWriter]]:
        """Short transactions and long ones; a prepared one would be left when the server dies."""
        with (
            TokenWriter(self.root.database, pause=0.05) as quick,
            TokenWriter(self.root.database, number=2, hold=0.25) as slow,
        ):
            yield quick, slow

    def run(self, plan: Mapping[str, str]) -> None:
        """Kills at each state whom the plan names, and looks at what comes of it."""
        self.begin(tuple(plan))
        with self.writing() as (writer, slow):
            self.cascade.add_tables("scenario.bulk")
            for state, victim in plan.items():
                standing = self.wait_state(state)
                self.kill(victim)
                self.go_on(standing)
            self.cascade.wait_sync(self.leaf, 600)
            writer.wait(30, 120)
            writer.stop()
            slow.stop()
        self.is_right()

    def is_right(self) -> None:
        """Each row once, nothing left over, nothing said in two hundred lines."""
        cascade, root, leaf = self.cascade, self.root, self.leaf
        cascade.wait_root(leaf)
        assert cascade.states(leaf) == dict.fromkeys(TABLES, "ok")
        answer = cascade.compare(leaf, "--engine", "local")
        assert answer["equal"], answer
        oracles.assert_same_rows(root.database, leaf.database, TABLES)
        assert oracles.applied_twice(leaf.database) == []
        cascade.wait(lambda: self._consumers() == 0, "the end of the copy's consumer")
        cascade.assert_spark_copied()
        cascade.stop(leaf.worker)
        said = cascade.processes.everything_said()
        assert [word for word in TRACES if word in said] == []

    def _consumers(self) -> int:
        found = self.root.database.value(
            "select count(*) from pgq.consumer where co_name like '%.copy.%'"
        )
        return int(found)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_copy_by_spark_gets_there_whoever_is_killed_on_its_way(
    cascade: Cascade, new_cluster: Callable[..., Cluster]
) -> None:
    Killing(cascade, new_cluster, "resumable").run({"copy.mid-chunk": "jvm"})


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", ["snapshot", "resumable"])
@pytest.mark.parametrize("victim", VICTIMS)
def test_a_copy_by_spark_gets_there_though_in_every_state_one_kills_the(
    victim: str, way: str, cascade: Cascade, new_cluster: Callable[..., Cluster]
) -> None:
    master = "local-cluster[2,1,1024]" if victim == "executor" else "local[2]"
    Killing(cascade, new_cluster, way, master).run(dict.fromkeys(STATES, victim))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", ["snapshot", "resumable"])
def test_a_copy_on_a_cluster_gets_there_though_executors_are_killed_and_their_tasks_live_on(
    way: str, cascade: Cascade, new_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    killing = Killing(cascade, new_cluster, way)
    states = ("copy.mid-chunk", "copy.after-chunk")
    cluster = SparkCluster.start(
        cascade.processes,
        tmp_path,
        {
            "LONDISTE_CRASH": ",".join(states),
            "LONDISTE_CRASH_MARK": str(killing.mark),
            "LONDISTE_CRASH_SIGNAL": "STOP",
        },
    )
    cascade.settings['"spark.master"'] = quoted(cluster.master)
    cascade.write_settings(killing.leaf, killing.leaf.database.dsn)
    killing.begin(())
    with killing.writing() as (writer, slow):
        cascade.add_tables("scenario.bulk")
        killed = 0
        for state in states:
            tasks = killing.wait_state(state, may_end=killed > 0)
            killed += len(tasks)
            # Two may stand still below one executor, and one that lived on has none any more.
            executors = set(cluster.executors())
            for executor in {e for task in tasks for e in executors & ancestors(task)}:
                send(executor, signal.SIGKILL)
            # Nobody waits for them any more, and they commit their chunks all the same.
            for task in tasks:
                send(task, signal.SIGCONT)
        cascade.wait_sync(killing.leaf, 600)
        writer.wait(30, 120)
        writer.stop()
        slow.stop()
    killing.is_right()
