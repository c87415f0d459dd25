"""Three processes share a consumer; one of them dies or hangs during a batch.

The others take its batch over.  One that stood still wakes up behind that and goes on where it was:
it may repeat side effects then, but what it writes together with the batch's end comes to nothing.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from pathlib import Path

import pytest

import londiste
from londiste import Delivery
from londiste.db.connection import session
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.scenarios.queue.test_consumer_processes import Ticker, effects, register
from tests.support.scenarios.processes import Process, Processes
from tests.support.waiting import wait_for

QUEUE = "q"
NAMES = ("one", "two", "three")
EVENTS = [f"e{n}" for n in range(60)]
#: Longer than a batch takes on a busy machine, or living ones would be taken for dead.
TIMEOUT = "3 seconds"

BEGIN = ("consumer.before-batch", "consumer.after-next-batch", "consumer.mid-batch:2")
PLACES: dict[Delivery, tuple[str, ...]] = {
    Delivery.AT_LEAST_ONCE: (
        *BEGIN,
        "consumer.processed",
        "consumer.before-finish",
        "consumer.mid-finish",
        "consumer.after-finish",
    ),
    Delivery.EXACTLY_ONCE_HERE: (
        *BEGIN,
        "consumer.processed",
        "consumer.before-commit",
        "consumer.after-finish",
    ),
    Delivery.ONCE_PER_EVENT: (
        *BEGIN,
        "consumer.after-effect:2",
        "consumer.after-mark:2",
        "consumer.processed",
        "consumer.before-finish",
        "consumer.mid-finish",
        "consumer.after-finish",
    ),
}
#: In the short run: one of each kind.
CHEAP = {
    (Delivery.EXACTLY_ONCE_HERE, "consumer.mid-batch:2", "STOP"),
    (Delivery.AT_LEAST_ONCE, "consumer.processed", "KILL"),
}
CASES = [
    pytest.param(
        delivery,
        place,
        how,
        marks=[] if (delivery, place, how) in CHEAP else [pytest.mark.slow],
        id=f"{delivery.name}-{place}-{how}",
    )
    for delivery, places in PLACES.items()
    for place in places
    for how in ("KILL", "STOP")
]


@pytest.fixture
def db(pgq_db: Database) -> Database:
    conn = pgq_db.connect()
    queues.create_queue(conn, QUEUE)
    queues.set_queue_config(conn, QUEUE, "ticker_max_lag", "0")
    queues.set_queue_config(conn, QUEUE, "ticker_idle_period", "0")
    pgq_db.execute("create table effects (data text, attempt int)")
    register(pgq_db)
    return pgq_db


class Crowd:
    """The processes, and what they have left in the database and in their files."""

    def __init__(self, processes: Processes, db: Database, delivery: Delivery, path: Path) -> None:
        self.processes = processes
        self.db = db
        self.delivery = delivery
        self.path = path

    def start(self, name: str, place: str = "", how: str = "") -> Process:
        keys = {"poll_interval": "0.1", "subconsumer_name": name}
        if self.delivery is Delivery.ONCE_PER_EVENT:
            # Its marks are its own: nobody takes its batch over.
            keys["target_db"] = self.db.dsn
        else:
            keys["subconsumer_timeout"] = TIMEOUT
        argv = [
            sys.executable,
            "-m",
            "tests.support.programs.consumer_program",
            "--db",
            self.db.dsn,
        ]
        for key, value in keys.items():
            argv += ["--set", f"{key}={value}"]
        environment = {
            "DELIVERY": self.delivery.name,
            "SIDE_EFFECTS": str(self.path / f"{name}.effects"),
        }
        if place:
            environment |= {
                "LONDISTE_CRASH": place,
                "LONDISTE_CRASH_MARK": str(self.mark),
                "LONDISTE_CRASH_SIGNAL": how,
            }
        return self.processes.start(name, argv, environment)

    @property
    def mark(self) -> Path:
        return self.path / "crashed"

    def lines(self, name: str) -> list[str]:
        """The side effects of one process, in their order."""
        path = self.path / f"{name}.effects"
        return [line.split()[0] for line in path.read_text().splitlines()] if path.exists() else []

    def all_lines(self) -> Counter[str]:
        return Counter(line for name in NAMES for line in self.lines(name))

    def open_batches(self) -> int:
        ((count,),) = self.db.execute(
            "select count(*) from pgq.subscription where sub_batch is not null"
        )
        return int(count)

    def has_begun(self, name: str) -> bool:
        """Whether the process has asked for work, so that it obeys signals."""
        return bool(
            self.db.execute(
                "select 1 from pgq.subscription join pgq.consumer on co_id = sub_consumer"
                " where co_name = %s",
                f"killed.{name}",
            )
        )

    def is_done(self) -> bool:
        """Every event has its effect and every batch is finished."""
        return set(EVENTS) <= set(effects(self.db)) and self.open_batches() == 0


def produce(db: Database, events: list[str]) -> None:
    """Batches of five events."""
    with londiste.Producer(db.dsn, QUEUE) as producer, session(db.dsn, autocommit=True) as conn:
        for first in range(0, len(events), 5):
            producer.send_many([("t", text) for text in events[first : first + 5]])
            queues.force_tick(conn, QUEUE)
            queues.ticker(conn, QUEUE)


@pytest.mark.parametrize(("delivery", "place", "how"), CASES)
def test_one_of_three_dies_or_stands_still(
    db: Database, processes: Processes, tmp_path: Path, delivery: Delivery, place: str, how: str
) -> None:
    crowd = Crowd(processes, db, delivery, tmp_path)
    produce(db, EVENTS[:20])
    victim = crowd.start("one", place, how)
    wait_for(crowd.mark.exists, what=f"{place}")
    if how == "KILL":
        assert victim.wait() == -signal.SIGKILL
    before = len(crowd.lines("one"))
    others = [crowd.start(name) for name in NAMES[1:]]
    produce(db, EVENTS[20:])
    with Ticker(db, QUEUE):
        if delivery is Delivery.ONCE_PER_EVENT:
            _once_per_event(crowd, victim, place, how)
        elif how == "KILL" or not _in_transaction(delivery, place):
            wait_for(crowd.is_done, timeout=60, what="every event's effect by the others")
            if how == "STOP":
                _wake_behind_the_others(crowd, victim, place, before)
        else:
            # It holds the lock of its batch, so it is not taken for dead; it wakes up and goes on.
            victim.go_on()
            wait_for(crowd.is_done, timeout=60, what="every event's effect")
        wait_for(crowd.is_done, timeout=60, what="every batch's end")
    counts = Counter(effects(db))
    assert set(counts) == set(EVENTS)
    if delivery is not Delivery.AT_LEAST_ONCE:
        assert set(counts.values()) == {1}, "effects that were committed twice"
    else:
        # Only what the victim had in its hands comes twice.
        again = {text for text, count in counts.items() if count > 1}
        assert len(again) <= 5 and max(counts.values()) <= 2, again
        assert again <= set(crowd.lines("one"))
    wait_for(lambda: crowd.has_begun("two") and crowd.has_begun("three"), what="the others")
    for process in others:
        assert process.stop() == 0
    # No batch was shared: what two of the living did is nothing.
    assert not set(crowd.lines("two")) & set(crowd.lines("three"))


def _in_transaction(delivery: Delivery, place: str) -> bool:
    """Whether the process has locked its batch there: it is finished, not committed."""
    if delivery is Delivery.EXACTLY_ONCE_HERE:
        return place == "consumer.before-commit"
    return place == "consumer.mid-finish"


def _wake_behind_the_others(crowd: Crowd, victim: Process, place: str, before: int) -> None:
    """Their work is done; what the one that stood still does now must not count."""
    done = Counter(effects(crowd.db))
    victim.go_on()
    if place in {"consumer.before-batch", "consumer.after-finish"}:
        # It had no batch in its hands: it begins anew.
        assert victim.stop() == 0
    elif place == "consumer.after-next-batch":
        # It has done nothing yet, notices that its batch is gone, and goes on with the next.
        wait_for(lambda: "there is no open batch" in victim.said(), what="the zombie's look")
        assert victim.stop() == 0
    else:
        assert victim.wait() != 0
        assert "another process finished it" in victim.said()
    now = Counter(effects(crowd.db))
    if crowd.delivery is Delivery.EXACTLY_ONCE_HERE:
        assert now == done, "the zombie has committed"
    else:
        assert set((now - done).values()) <= {1} and len(now - done) <= 5


def _once_per_event(crowd: Crowd, victim: Process, place: str, how: str) -> None:
    """Nobody takes its batch over; it gets it back, and repeats one event at most."""
    mine = 0 if place in {"consumer.before-batch", "consumer.after-finish"} else 5
    wait_for(
        lambda: len(set(effects(crowd.db)) | set(crowd.lines("one"))) >= len(EVENTS) - mine,
        timeout=60,
        what="the others' events",
    )
    if how == "KILL":
        crowd.start("one")
    else:
        victim.go_on()
    wait_for(crowd.is_done, timeout=60, what="every event's effect")
    again = {text: count for text, count in crowd.all_lines().items() if count > 1}
    assert len(again) <= (1 if place.startswith("consumer.after-effect") and how == "KILL" else 0)
