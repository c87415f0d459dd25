"""kill -9 of a consumer between every two steps: each contract keeps its guarantee.

The consumer is killed once, starts again and takes what is left.  Then effects are counted: rows
that were written through the session of the contract, and lines of a file, which stand for
whatever no transaction takes back.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import londiste
import londiste.db.connection
from londiste import Consumer, Delivery
from londiste.pgq import dead_letters, queues
from tests.fixtures.cascade import Nodes
from tests.fixtures.cluster import Database
from tests.support.programs.consumer_program import consumer
from tests.support.scenarios.processes import Processes

HERE = Path(__file__).parent
QUEUE = "q"
ORDINARY = ("a", "b", "c", "d", "e")

#: Where each contract's process can be killed; ``:3`` is the third time.
BEGIN = ("consumer.before-batch", "consumer.after-next-batch")
END = ("consumer.before-finish", "consumer.mid-finish", "consumer.after-finish")
PLACES: dict[Delivery, tuple[str, ...]] = {
    Delivery.AT_MOST_ONCE: (*BEGIN, *END, "consumer.mid-batch:2"),
    Delivery.AT_LEAST_ONCE: (*BEGIN, "consumer.mid-batch:2", "consumer.processed", *END),
    Delivery.EXACTLY_ONCE_HERE: (
        *BEGIN,
        "consumer.mid-batch:2",
        "consumer.processed",
        "consumer.before-commit",
        "consumer.after-finish",
    ),
    Delivery.EXACTLY_ONCE_ELSEWHERE: (
        *BEGIN,
        "consumer.mid-batch:2",
        "consumer.processed",
        "consumer.before-commit",
        "consumer.after-commit",
        *END,
    ),
    Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH: (
        *BEGIN,
        "consumer.mid-batch:2",
        "consumer.processed",
        "consumer.before-commit",
        "consumer.after-commit",
        *END,
    ),
    Delivery.CASCADE_NODE: (
        *BEGIN,
        "consumer.mid-batch:2",
        "consumer.processed",
        "consumer.before-commit",
        "consumer.after-commit",
        *END,
    ),
    Delivery.ONCE_PER_EVENT: (
        *BEGIN,
        "consumer.after-effect:2",
        "consumer.after-mark:2",
        "consumer.mid-batch:2",
        "consumer.processed",
        *END,
    ),
    Delivery.LOCAL_FILE: (
        *BEGIN,
        "consumer.mid-batch:2",
        "consumer.processed",
        "consumer.after-commit",
        *END,
    ),
}
POINTS = {place.partition(":")[0] for places in PLACES.values() for place in places}
#: What a crash there must not repeat or lose, whatever the contract.
HARMLESS = {"consumer.before-batch", "consumer.after-next-batch"}
#: In the short run: where contracts differ.
CHEAP = {
    (Delivery.AT_MOST_ONCE, "consumer.mid-batch:2"),
    (Delivery.AT_LEAST_ONCE, "consumer.mid-finish"),
    (Delivery.EXACTLY_ONCE_HERE, "consumer.before-commit"),
    (Delivery.EXACTLY_ONCE_ELSEWHERE, "consumer.before-commit"),
    (Delivery.EXACTLY_ONCE_ELSEWHERE, "consumer.after-commit"),
    (Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH, "consumer.after-commit"),
    (Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH, "consumer.mid-finish"),
    (Delivery.CASCADE_NODE, "consumer.after-commit"),
    (Delivery.ONCE_PER_EVENT, "consumer.after-effect:2"),
    (Delivery.ONCE_PER_EVENT, "consumer.after-mark:2"),
    (Delivery.LOCAL_FILE, "consumer.after-commit"),
}
CASES = [
    pytest.param(
        delivery,
        place,
        marks=[] if (delivery, place) in CHEAP else [pytest.mark.slow],
        id=f"{delivery.name}-{place}",
    )
    for delivery, places in PLACES.items()
    for place in places
]


@dataclass
class Scene:
    """Databases and files of one case; ``target`` has the effects."""

    source: Database
    target: Database
    directory: Path
    delivery: Delivery

    @property
    def kind(self) -> type[Consumer]:
        return consumer(self.delivery, self.directory / "side_effects")

    @property
    def given(self) -> dict[str, str]:
        given = {"db": self.source.dsn}
        if self.target is not self.source:
            given["target_db"] = self.target.dsn
        if self.delivery is Delivery.LOCAL_FILE:
            given["local_tracking_file"] = str(self.directory / "position")
        return given

    def tick(self) -> None:
        with londiste.db.connection.session(self.source.dsn, autocommit=True) as conn:
            queues.force_tick(conn, QUEUE)
            assert queues.ticker(conn, QUEUE) is not None

    def take_all(self) -> None:
        """What a consumer that starts again does, with the repetitions that are due."""
        self.kind(**self.given).run_once()
        self.source.execute("select pgq.maint_retry_events()")
        self.tick()
        self.kind(**self.given).run_once()

    def rows(self) -> Counter[str]:
        return Counter(data for (data,) in self.target.execute("select data from effects"))

    def lines(self) -> Counter[str]:
        path = self.directory / "side_effects"
        text = path.read_text() if path.exists() else ""
        return Counter(line.split()[0] for line in text.splitlines())


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(tmp_path, {"PYTHONPATH": str(HERE.parents[2])})
    yield processes
    assert processes.close() == []


def scene(source: Database, target: Database | None, directory: Path, delivery: Delivery) -> Scene:
    """A registered consumer with two batches in front of it."""
    result = Scene(source, target or source, directory, delivery)
    conn = source.connect()
    queues.create_queue(conn, QUEUE)
    result.target.execute("create table effects (data text, attempt int)")
    assert result.kind(**result.given).register()
    with londiste.Producer(source.dsn, QUEUE) as producer:
        producer.send_many([("t", text) for text in ("a", "b", "again", "dead", "c")])
        result.tick()
        producer.send_many([("t", text) for text in ("d", "e")])
        result.tick()
    return result


@pytest.mark.parametrize(("delivery", "place"), CASES)
def test_a_consumer_killed(
    delivery: Delivery,
    place: str,
    pgq_db: Database,
    new_database: object,
    tmp_path: Path,
    processes: Processes,
    nodes_of: Nodes,
) -> None:
    if delivery is Delivery.CASCADE_NODE:
        pgq_db = nodes_of.root().db
    elsewhere = delivery.elsewhere or delivery is Delivery.ONCE_PER_EVENT
    target = new_database(pgq=True) if elsewhere else None  # type: ignore[operator]
    it = scene(pgq_db, target, tmp_path, delivery)
    argv = [sys.executable, "-m", "tests.support.programs.consumer_program", "--once"]
    for key, value in it.given.items():
        argv += ["--set", f"{key}={value}"]
    done = processes.run(
        argv,
        {
            "DELIVERY": delivery.name,
            "SIDE_EFFECTS": str(tmp_path / "side_effects"),
            "LONDISTE_CRASH": place,
        },
    )
    assert done.code == -signal.SIGKILL, done
    it.take_all()
    _check(it, place)


def _check(it: Scene, place: str) -> None:
    rows, lines = it.rows(), it.lines()
    delivery, point = it.delivery, place.partition(":")[0]
    again = "again" if delivery.may_retry else None
    dead = "dead" if delivery.may_bury else None
    if point in HARMLESS:
        repeated: set[str] = set()
    elif delivery is Delivery.AT_MOST_ONCE or point == "consumer.after-finish":
        repeated = set()
    elif delivery is Delivery.ONCE_PER_EVENT:
        # Only the event between side effect and mark; failed events have no mark.
        repeated = {"b"} if point == "consumer.after-effect" else set()
        repeated |= {"again", "dead"}
    else:
        repeated = set(rows) | set(lines)
    for text in ORDINARY:
        if delivery is Delivery.AT_MOST_ONCE and point not in HARMLESS:
            assert lines[text] <= 1 and rows[text] <= 1, text
        elif delivery.one_transaction or delivery is Delivery.ONCE_PER_EVENT:
            assert rows[text] == 1, text
        else:
            assert rows[text] >= 1, text
        if text not in repeated and delivery is not Delivery.AT_MOST_ONCE:
            assert lines[text] == 1 or delivery.one_transaction, text
    if delivery.one_transaction or delivery is Delivery.ONCE_PER_EVENT:
        # The attempts that failed have left nothing.
        assert rows["again"] == 1
        if dead:
            assert rows["dead"] == 0
    with londiste.db.connection.session(it.source.dsn, autocommit=True) as conn:
        letters = dead_letters.failed_event_list(conn, QUEUE, "killed")
        assert [letter.data for letter in letters] == ([dead] if dead else [])
        (info,) = queues.get_consumer_info(conn, QUEUE, "killed")
        (queue,) = queues.get_queue_info(conn, QUEUE)
    assert (info.current_batch, info.last_tick) == (None, queue.last_tick_id)
    if again:
        assert lines["again"] >= 2
    if place == "consumer.mid-batch:2" and delivery is Delivery.AT_MOST_ONCE:
        assert lines == Counter(["a", "b", "d", "e"])
