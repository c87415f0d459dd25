"""kill -9 of whatever keeps a lake, between any two of its steps: nothing is lost, nothing twice.

The process is the command itself.  After each death it is started again, and the lake is held
against the table.
"""

from __future__ import annotations

import json
import random
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from londiste.changes.decode import decode_all
from londiste.changes.types import RowChange
from londiste.db.names import TableName
from londiste.engine.spark.lake.file_writer import Place
from londiste.lake.store import Store
from londiste.lake.versions import Version
from londiste.pgq import queues, ticks
from tests.fixtures.cluster import Database
from tests.fixtures.lake import COLUMNS, statements
from tests.fixtures.spark import end
from tests.fixtures.stream import Stream
from tests.support.scenarios.processes import Done, Process, Processes, is_stopped, stat
from tests.support.waiting import wait_for

#: Where the process kills itself.
POINTS = (
    "lake.snapshot-held",
    "lake.written",
    "lake.published",
    "lake.mid-vacuum",
)
#: Where it stands still until its JVM is killed.
STILL = ("lake.snapshot-held", "lake.written", "lake.published")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]


@dataclass
class Kept:
    """A table, and the command that keeps it in a lake.

    spark -- where it runs.
    """

    stream: Stream
    processes: Processes
    directory: Path
    mode: str
    spark: tuple[str, str] = ("spark.master", "local[2]")

    def argv(self, *words: str) -> list[str]:
        """The command."""
        settings = {
            "db": self.stream.database.dsn,
            "queue_name": "q",
            "lake_path": str(self.directory / "lake"),
            "lake_tables": "t",
            "lake_mode": self.mode,
            "lake_buckets": "3",
            "lake_retention": "0",
            # Two epochs and more in a run.
            "lake_epoch_events": "150",
        }
        settings |= dict([self.spark])
        given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        return [sys.executable, "-m", "londiste", *given, "lake", *words]

    def run(self, *words: str, crash: str = "") -> Done:
        """Runs it to its end."""
        return self.processes.run(self.argv(*words), self.env(crash), seconds=900)

    def start(self, crash: str, number: str = "STOP") -> Process:
        """Starts it; it stands still at a point."""
        # Once: the process goes on to its end.
        mark = self.directory / "stood"
        mark.unlink(missing_ok=True)
        env = {**self.env(crash), "LONDISTE_CRASH_SIGNAL": number, "LONDISTE_CRASH_MARK": str(mark)}
        return self.processes.start("lake", self.argv("once"), env)

    def env(self, crash: str) -> dict[str, str]:
        """Where it is to die."""
        return {"LONDISTE_CRASH": crash} if crash else {}

    @property
    def store(self) -> Store:
        """The directory of the table."""
        return Store(Place(str(self.directory / "lake" / "public.t")), TableName("public", "t"))

    def check(self) -> None:
        """The queue keeps what the lake has not, and the lake is the table."""
        done = self.run("compare", "--json")
        assert (done.code, json.loads(done.out)["equal"]) == (0, True), done
        version = self.store.newest()
        assert version is not None
        self.check_files(version)
        if self.mode == "append":
            self._every_event_once(self.store.paths(version.files))

    def check_position(self, tick: int) -> None:
        """The newest version is of that tick."""
        version = self.store.newest()
        assert version is not None and version.tick == tick

    def check_files(self, version: Version) -> None:
        """The queue knows the position, and vacuum leaves the files of the version alone."""
        (consumer,) = queues.get_consumer_info(self.stream.conn, "q", "lake.public.t")
        assert consumer.last_tick == version.tick
        done = self.run("vacuum")
        assert done.code == 0, done
        root = Path(self.store.place.uri)
        there = {str(path.relative_to(root)) for path in (root / "data").rglob("*.*")}
        assert there == {file.path for file in version.files if file.path.startswith("data/")}

    def _every_event_once(self, paths: list[str]) -> None:
        import pyarrow.parquet

        found: list[tuple[int, int]] = []
        for path in paths:
            read = pyarrow.parquet.read_table(path, columns=["_event_id", "_row", "_change_type"])
            found += [
                (r["_event_id"], r["_row"])
                for r in read.to_pylist()
                if r["_event_id"] is not None and r["_change_type"] != "truncate"
            ]
        assert len(found) == len(set(found))
        first = next(self.first_tick())
        newest = ticks.newest(self.stream.conn, "q")
        assert newest is not None
        told = [
            (change.event_id, change.row)
            for events in ticks.tick_events(self.stream.conn, "q", first, newest.id)
            for event in events
            for change in decode_all(event)
            if isinstance(change, RowChange)
        ]
        assert sorted(found) == sorted(told)

    def first_tick(self) -> Iterator[int]:
        """The tick of the rows that came first."""
        import pyarrow.parquet

        version = self.store.newest()
        assert version is not None
        for path in self.store.paths(version.files):
            read = pyarrow.parquet.read_table(path, columns=["_event_id", "_commit_version"])
            yield from (r["_commit_version"] for r in read.to_pylist() if r["_event_id"] is None)


def kept(database: Database, processes: Processes, directory: Path, mode: str) -> Kept:
    """A table with rows."""
    stream = Stream(None, database, directory)
    stream.table(COLUMNS)
    stream.write(*statements(random.Random(mode), truncate=0))
    return Kept(stream, processes, directory, mode)


@pytest.mark.slow
def test_a_lake_that_is_killed_goes_on_where_it_was(
    pgq_db: Database, spark_processes: Processes, tmp_path: Path
) -> None:
    import pyarrow.parquet

    lake = kept(pgq_db, spark_processes, tmp_path, "state")
    assert lake.run("once", crash="lake.published").code == -signal.SIGKILL
    lake.stream.write("update t set v = 'b' where id % 2 = 0", "delete from t where id % 3 = 0")
    assert lake.run("once", crash="lake.written").code == -signal.SIGKILL
    version = lake.store.newest()
    assert version is not None and version.number == 0
    lake.stream.write("insert into t (id, v) values (9000, 'c')")
    done = lake.run("once")
    assert done.code == 0, done
    version = lake.store.newest()
    assert version is not None and version.number > 1
    lake.check_files(version)
    found = [
        (row["id"], row["v"])
        for path in lake.store.paths(version.files)
        for row in pyarrow.parquet.read_table(path, columns=["id", "v"]).to_pylist()
    ]
    with pgq_db.connect() as conn:
        assert sorted(found) == conn.execute("select id, v from public.t order by id").fetchall()


@pytest.mark.slow
def test_ctrl_c_during_a_job_is_one_warning(
    pgq_db: Database, spark_processes: Processes, tmp_path: Path
) -> None:
    lake = kept(pgq_db, spark_processes, tmp_path, "append")
    start = ("--set", "lake_start=latest")
    # The first version needs no Spark.
    done = spark_processes.run([*lake.argv("once")[:3], *start, *lake.argv("once")[3:]], {})
    assert done.code == 0, done
    lake.stream.write("update t set v = 'b'")
    with pgq_db.connect() as conn, pgq_db.connect() as other:
        conn.execute("begin; lock table pgq.event_1 in access exclusive mode")
        argv = [*lake.argv("run")[:3], *start, *lake.argv("run")[3:]]
        process = spark_processes.start("lake", argv, {})
        waits = "select 1 from pg_locks where not granted"
        wait_for(lambda: other.execute(waits).fetchone(), timeout=300, what="a task that reads")
        process.send(signal.SIGINT)
        assert process.wait(120) == 0, process.said()
    said = process.said()
    assert "Traceback" not in said and "KeyboardInterrupt" not in said, said
    assert len([line for line in said.splitlines() if " WARNING " in line]) == 1, said


@pytest.mark.slow
def test_first_rows_that_were_never_published_are_read_again(
    pgq_db: Database, spark_processes: Processes, tmp_path: Path
) -> None:
    lake = kept(pgq_db, spark_processes, tmp_path, "append")
    assert lake.run("once", crash="lake.snapshot-held").code == -signal.SIGKILL
    (consumer,) = queues.get_consumer_info(lake.stream.conn, "q", "lake.public.t")
    lake.stream.write("update t set v = 'b' where id % 2 = 0")
    assert lake.store.newest() is None and consumer.last_tick is not None
    done = lake.run("once")
    assert done.code == 0, done
    lake.check()
    # Without the directory, the consumer stays where it is.
    version = lake.store.newest()
    assert version is not None
    lake.stream.write("update t set v = 'c' where id % 2 = 0")
    there = Path(lake.store.place.uri)
    there.rename(tmp_path / "unmounted")
    assert lake.run("once").code == 3
    (consumer,) = queues.get_consumer_info(lake.stream.conn, "q", "lake.public.t")
    assert consumer.last_tick == version.tick
    (tmp_path / "unmounted").rename(there)
    assert lake.run("once").code == 0
    lake.check()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "history"])
def test_a_command_that_joins_files_is_killed(
    pgq_db: Database, spark_processes: Processes, tmp_path: Path, mode: str
) -> None:
    lake = kept(pgq_db, spark_processes, tmp_path, mode)
    for value in "abc":
        assert lake.run("once").code == 0
        lake.stream.write(f"update t set v = '{value}' where id % 2 = 0")
    assert lake.run("once").code == 0
    before = lake.store.newest()
    assert before is not None
    _kill_compact(lake)
    lake.check_position(before.tick)
    assert lake.run("compact").code == 0
    # Their documents have the types of docs/reference/json.md.
    for words in (["compact"], ["status"], ["status", "--versions"], ["vacuum"], ["files", "t"]):
        done = lake.run(*words, "--json")
        assert (done.code, json.loads(done.out)["version"]) == (0, 1), done
    version = lake.store.newest()
    assert version is not None and version.tick == before.tick and version.rows == before.rows
    assert len(version.files) < len(before.files)
    lake.check()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["append", "state", "history"])
@pytest.mark.parametrize("seed", range(7))
def test_whoever_is_killed_whenever_nothing_is_lost_or_twice(
    pgq_db: Database, spark_processes: Processes, tmp_path: Path, mode: str, seed: int
) -> None:
    chance = random.Random(f"{mode} {seed}")
    lake = kept(pgq_db, spark_processes, tmp_path, mode)
    moments = [(victim, point) for victim in ("driver",) for point in POINTS]
    moments += [("jvm", point) for point in STILL] + [("worker", "")] * 2
    moments += [("driver", "lake.written"), ("driver", "lake.published")]
    chance.shuffle(moments)
    # With its seven seeds each mode is killed 56 times.
    for victim, point in moments[:8]:
        for _ in range(2):
            lake.stream.write(*statements(chance, truncate=0.15))
        if victim == "driver":
            again = chance.choice(("", ":2"))
            words = ("vacuum",) if point == "lake.mid-vacuum" else ("once",)
            lake.run(*words, crash=point + again)
        elif victim == "jvm":
            _kill_jvm(lake, point)
        else:
            _kill_worker(lake)
        if chance.random() < 0.3:
            assert lake.run("once").code == 0
            lake.check()
    done = lake.run("once")
    assert done.code == 0, done
    # What a command that died has left goes with the next that works.
    lake.check()


def _kill_compact(lake: Kept) -> None:
    """Kills the command when it has written its first file."""
    before = set(Path(lake.store.place.uri).rglob("*.parquet"))
    process = lake.processes.start("lake", lake.argv("compact"), {})
    while process.running():
        if set(Path(lake.store.place.uri).rglob("*.parquet")) - before:
            end(process.pid)
            break
    process.wait(60)


def _kill_jvm(lake: Kept, point: str) -> None:
    process = lake.start(point)
    wait_for(
        lambda: not process.running() or is_stopped(process.pid),
        timeout=600,
        what=f"{point} in {process.said()[-500:]}",
    )
    for pid in lake.processes.find("org.apache.spark.deploy.SparkSubmit"):
        end(pid)
    if process.running():
        process.go_on()
        process.wait(600)


def _kill_worker(lake: Kept) -> None:
    process = lake.processes.start("lake", lake.argv("once"), {})
    killed: set[int] = set()
    while process.running():
        daemons = set(lake.processes.find("pyspark.daemon"))
        for pid in daemons:
            if int(stat(pid)[1]) in daemons and not killed:
                end(pid)
                killed.add(pid)
    assert process.exit_code() in (0, 6), process.said()[-2000:]


@pytest.mark.slow
def test_a_process_that_stood_still_publishes_nothing_that_was_swept(
    pgq_db: Database, spark_processes: Processes, tmp_path: Path
) -> None:
    lake = kept(pgq_db, spark_processes, tmp_path, "state")
    assert lake.run("once").code == 0
    lake.stream.write("update t set v = 'b' where id % 2 = 0")
    first = lake.start("lake.written")
    wait_for(lambda: is_stopped(first.pid), timeout=600, what="lake.written")
    # Its machine is taken for dead, and its session is ended.
    pgq_db.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name like 'londiste-spark lake%'"
    )
    # It has nothing to read, and deletes the files that are about to be published.
    done = lake.run("vacuum")
    assert done.code == 0, done
    first.go_on()
    assert first.wait(600) == 3, first.said()[-2000:]
    assert "another process published" in first.said()
    lake.check()
