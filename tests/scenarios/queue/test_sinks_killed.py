"""kill -9 of the JVM of a driver and of executors, in the middle of three sinks at a time.

The queue, the merged table and the table that is added to have each row of the stream once,
however often, and whether or not a process of the killed query lives on.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.fixtures.sinks import SINK_POINTS, next_epoch
from tests.fixtures.spark import DRIVER, EXECUTOR, ancestors, end, send, stopped
from tests.support.scenarios.processes import Process, Processes
from tests.support.waiting import wait_for

PROGRAM = Path(__file__).parents[2] / "support" / "programs" / "sinks_program.py"
SINKS = ("queue", "merge", "append")
TASK = ("sink.mid-stage", "sink.staged")


@dataclass
class Sinks:
    """Files of changes, and the driver that streams them into three places."""

    target: Database
    processes: Processes
    directory: Path
    chance: random.Random
    master: str = "local[4]"
    round: int = 0
    event: int = 0
    firsts: list[int] = field(default_factory=list)
    state: dict[int, str] = field(default_factory=dict)
    told: list[tuple[int, str, int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        queues.create_queue(self.target.connect(), "target")
        # A second merge of an epoch would be seen by the number of its writes.
        self.target.execute(
            "create table merged (id int primary key, v text); create table writes (v text);"
            " create function noted() returns trigger language plpgsql as 'begin"
            " insert into writes values (new.v); return null; end';"
            " create trigger noted after insert or update on merged"
            " for each row execute function noted();"
            " create table appended (event bigint, kind text, id int, v text)"
        )
        for name in ("files", "rounds", "marks"):
            (self.directory / name).mkdir()

    def feed(self) -> None:
        """An epoch of all sinks, with more than a task hands to its driver."""
        first = self.event + 1
        self.firsts.append(first)
        lines = []
        for key in self.chance.sample(range(200), 100):
            self.event += 1
            kind = "update_postimage" if key in self.state else "insert"
            value = f"{self.event} {self.chance.random()}" + "x" * 400
            if key in self.state and self.chance.random() < 0.2:
                kind = "delete"
                del self.state[key]
            else:
                self.state[key] = value
            self.told.append((self.event, kind, key, value))
            names = ("_event_id", "_change_type", "id", "v")
            change: dict[str, Any] = dict(zip(names, self.told[-1], strict=True))
            lines.append(json.dumps(change | {"_commit_version": first}))
        half = self.directory / "half"
        half.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.utime(half, (1_700_000_000 + first, 1_700_000_000 + first))
        half.rename(self.directory / "files" / f"{first:09}.json")

    def start(self) -> Process:
        """The driver; it begins with the round that is next."""
        return self.processes.start(
            "driver",
            [sys.executable, str(PROGRAM)],
            {
                "TARGET": self.target.dsn,
                "DIRECTORY": str(self.directory),
                "MASTER": self.master,
                "ROUND": str(self.round),
                "LONDISTE_CRASH_SIGNAL": "STOP",
            },
        )

    def begin(self, points: dict[str, str], files: int = 1) -> list[Path]:
        """What the sinks do in the round, and what is there when those with a point are at it.

        files -- how many were fed; the point is in the epoch of one of them, or in an earlier one.
        """
        marks = {name: self.directory / "marks" / f"{name}.{self.round}" for name in points}
        self.tell(
            {
                name: {
                    "crash": point,
                    "mark": str(marks[name]),
                    "epoch": str(self.epoch(name) + self.chance.randrange(files)),
                }
                for name, point in points.items()
            }
        )
        return [mark for name, mark in marks.items() if points[name]]

    def tell(self, what: object) -> None:
        """Begins a round, or with None ends the driver."""
        half = self.directory / "half"
        half.write_text(json.dumps(what), encoding="utf-8")
        half.rename(self.directory / "rounds" / str(self.round))
        self.round += 1

    def epoch(self, name: str) -> int:
        """What a sink begins with."""
        return next_epoch(self.directory / "checkpoints" / name)

    def notes(self, name: str, kind: str) -> int:
        """How many Spark has made."""
        found = self.directory / "checkpoints" / name / kind
        return max((int(path.name) for path in found.glob("[0-9]*")), default=-1)

    def epochs(self, name: str) -> list[list[tuple[int, str, int, str]]]:
        """The changes of each epoch of a sink, as Spark has noted its files.

        An epoch has several files after a kill between the notes about a file and about its epoch.
        """
        checkpoint = self.directory / "checkpoints" / name
        files: dict[int, set[str]] = {}
        for path in (checkpoint / "sources" / "0").glob("[0-9]*"):
            for line in path.read_text(encoding="utf-8").splitlines()[1:]:
                note = json.loads(line)
                files.setdefault(note["batchId"], set()).add(Path(note["path"]).stem)
        told = {f"{first:09}": self.told[first - 1 : first + 99] for first in self.firsts}
        found, last = [], -1
        for number in range(self.notes(name, "offsets") + 1):
            text = (checkpoint / "offsets" / str(number)).read_text(encoding="utf-8")
            upto = json.loads(text.splitlines()[-1])["logOffset"]
            names = sorted(n for log in range(last + 1, upto + 1) for n in files.get(log, ()))
            found.append([change for n in names for change in told[n]])
            last = upto
        return found

    def wait(self, driver: Process, word: str) -> None:
        """Until it has said so."""

        def look() -> bool:
            said = driver.said()
            assert driver.running() or word in said, said[-5000:]
            return word in said

        wait_for(look, timeout=900, what=f"{word!r} of the driver")

    def kill(self, driver: Process) -> None:
        """Ends the queries; what stands still goes on, for nobody."""
        standing = stopped(self.processes)
        for pid in self.processes.find(DRIVER):
            end(pid)
        driver.wait(300)
        # It ends when its Python is gone, with what it has begun.
        wait_for(lambda: not self.processes.find(DRIVER), timeout=300, what="the end of the JVM")
        for pid in standing:
            send(pid, signal.SIGCONT)

    def is_whole(self) -> None:
        """A last run, and each row is everywhere once."""
        driver = self.start()
        self.begin(dict.fromkeys(SINKS, ""))
        self.tell(None)
        assert driver.wait(1200) == 0, driver.said()[-5000:]
        queued = self.target.execute(
            "select ev_type, ev_data from pgq.event_template order by ev_id"
        )
        assert len(queued) == len(self.told)
        at = 0
        for epoch in self.epochs("queue"):
            # The order of the files of one epoch is Spark's.
            assert sorted(queued[at : at + len(epoch)]) == sorted(
                (kind, f"{event} {value}") for event, kind, _, value in epoch
            )
            at += len(epoch)
        assert at == len(queued)
        assert self.target.execute("select * from appended order by event") == self.told
        assert dict(self.target.execute("select * from merged")) == self.state
        last = [{key: kind for _, kind, key, _ in epoch} for epoch in self.epochs("merge")]
        writes = sum(kind != "delete" for epoch in last for kind in epoch.values())
        assert self.target.value("select count(*) from writes") == writes
        staged = "select relname from pg_class where relname like 'staged%' and relkind = 'r'"
        assert self.target.execute(staged) == []


def kill_in_a_round(sinks: Sinks, points: dict[str, str], note: str) -> None:
    """One life of a driver; the last of the sinks has no point, and a note of it is waited for."""
    for _ in range(2):
        sinks.feed()
    *_, last = points
    wanted = sinks.notes(last, note) + sinks.chance.randint(1, 2)
    driver = sinks.start()
    marks = sinks.begin({**points, last: ""}, files=2)

    def noted() -> bool:
        assert driver.running(), driver.said()[-5000:]
        return sinks.notes(last, note) >= wanted

    wait_for(noted, timeout=900, what=f"{note} of {points}")
    sinks.kill(driver)
    assert all(mark.exists() for mark in marks), (points, marks)


@pytest.fixture
def sinks(pgq_db: Database, spark_processes: Processes, tmp_path: Path) -> Iterator[Sinks]:
    yield Sinks(pgq_db, spark_processes, tmp_path, random.Random(0))
    # None that stands still is left.
    for pid in stopped(spark_processes):
        end(pid)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_driver_whose_jvm_is_killed_goes_on_from_its_checkpoint(sinks: Sinks) -> None:
    points = {"queue": "sink.mid-commit", "merge": "sink.after-commit", "append": ""}
    kill_in_a_round(sinks, points, "offsets")
    sinks.is_whole()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(5))
def test_ten_jvms_are_killed_below_three_sinks(sinks: Sinks, seed: int) -> None:
    sinks.chance.seed(f"jvm {seed}")
    for _ in range(10):
        order = sinks.chance.sample(SINKS, 3)
        points = {name: sinks.chance.choice(SINK_POINTS) for name in order}
        kill_in_a_round(sinks, points, sinks.chance.choice(("offsets", "commits")))
    sinks.is_whole()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(5))
def test_ten_executors_are_killed_below_three_sinks(sinks: Sinks, seed: int) -> None:
    sinks.chance.seed(seed)
    sinks.master = "local-cluster[2,2,1024]"
    driver = sinks.start()
    killed = 0
    while killed < 10:
        files = sinks.chance.randint(1, 2)
        for _ in range(files):
            sinks.feed()
        number = sinks.round
        marks = sinks.begin({name: sinks.chance.choice(TASK) for name in SINKS}, files)

        def halted(marks: list[Path] = marks) -> bool:
            assert driver.running(), driver.said()[-5000:]
            return all(mark.exists() for mark in marks)

        wait_for(halted, timeout=900, what=f"tasks of round {number} at their points")
        tasks = wait_for(lambda: stopped(sinks.processes), what="a task that stands still")
        executors = set(sinks.processes.find(EXECUTOR))
        for executor in {e for task in tasks for e in executors & ancestors(task)}:
            end(executor)
            killed += 1
        # Nobody waits for it any more, and it goes on all the same.
        for task in tasks:
            send(task, signal.SIGCONT)
        sinks.wait(driver, f"done {number}\n")
    sinks.tell(None)
    assert driver.wait(300) == 0, driver.said()[-5000:]
    sinks.master = "local[4]"
    sinks.is_whole()
