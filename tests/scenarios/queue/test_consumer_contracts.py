"""kill -9 of a consumer between every two steps: each contract keeps its guarantee.

The consumer is killed once, starts again and takes what is left.  Then effects are counted: rows
that were written through the session of the contract, and lines of a file, which stand for
whatever no transaction takes back.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

import londiste
import londiste.db.connection
from londiste import Delivery
from londiste.pgq import dead_letters, queues
from tests.fixtures.cascade import Nodes
from tests.fixtures.cluster import Database
from tests.support.programs.consumer_scene import ORDINARY, QUEUE, Scene, scene
from tests.support.scenarios.processes import Processes

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
#: In the short run: one of each contract, where it differs from the others.
CHEAP = {
    (Delivery.AT_MOST_ONCE, "consumer.mid-batch:2"),
    (Delivery.AT_LEAST_ONCE, "consumer.mid-finish"),
    (Delivery.EXACTLY_ONCE_HERE, "consumer.before-commit"),
    (Delivery.EXACTLY_ONCE_ELSEWHERE, "consumer.after-commit"),
    (Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH, "consumer.after-commit"),
    (Delivery.CASCADE_NODE, "consumer.after-commit"),
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
    done = processes.run(*it.program(place))
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
