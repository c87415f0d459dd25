"""A process that stands still while another one of the same consumer continues changes nothing."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from londiste import Delivery
from londiste.errors import PositionLost
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.support.programs.consumer_scene import ORDINARY, QUEUE, scene
from tests.support.scenarios.processes import Processes, is_stopped
from tests.support.suite.slow import first
from tests.support.waiting import wait_for

PLACES = {
    Delivery.LOCAL_FILE: "consumer.processed",
    Delivery.ONCE_PER_EVENT: "consumer.after-mark:2",
}


@pytest.mark.parametrize("delivery", first(PLACES), ids=[each.name for each in PLACES])
def test_a_paused_process_does_not_move_what_another_one_has_done(
    delivery: Delivery,
    pgq_db: Database,
    new_database: Callable[..., Database],
    tmp_path: Path,
    processes: Processes,
) -> None:
    target = new_database(pgq=True) if delivery is Delivery.ONCE_PER_EVENT else None
    it = scene(pgq_db, target, tmp_path, delivery)
    first = processes.start("first", *it.program(PLACES[delivery], "STOP"))
    wait_for(lambda: is_stopped(first.pid), what="the process that stands still")
    # As after a restart of the server of the queue: nobody holds the consumer.
    it.source.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )
    it.take_all()
    done = it.lines()
    first.go_on()
    assert first.wait() != 0, first.said()
    with it.source.connect() as conn:
        (info,) = queues.get_consumer_info(conn, QUEUE, "killed")
    if delivery is Delivery.LOCAL_FILE:
        assert json.loads((tmp_path / "position").read_text())["tick"] == info.last_tick
    it.take_all()
    assert all(it.rows()[text] >= 1 for text in ORDINARY)
    if delivery is Delivery.ONCE_PER_EVENT:
        assert all(it.rows()[text] == 1 for text in ORDINARY)
    assert it.lines() == done


@pytest.mark.parametrize(
    "delivery", first([Delivery.ONCE_PER_EVENT, Delivery.EXACTLY_ONCE_ELSEWHERE_BY_BATCH])
)
def test_numbers_of_a_queue_that_was_created_again_are_not_taken_for_the_old_ones(
    delivery: Delivery,
    new_database: Callable[..., Database],
    tmp_path: Path,
    processes: Processes,
) -> None:
    target = new_database(pgq=True)
    first = scene(new_database(pgq=True), target, tmp_path, delivery)
    # The first batch is done, and the new queue has another one of the same number.
    done = processes.run(*first.program("consumer.after-finish"))
    assert done.code == -signal.SIGKILL, done
    target.execute("alter table effects rename to kept")
    again = scene(new_database(pgq=True), target, tmp_path, delivery)
    with pytest.raises(PositionLost, match="does not belong to queue"):
        again.kind(**again.given).run_once()
    assert again.rows() == Counter()
    again.kind(**again.given).reset()
    again.take_all()
    assert all(again.rows()[text] == 1 for text in ORDINARY)
