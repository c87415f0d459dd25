"""A process that stands still while another one of the same consumer goes on changes nothing after."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from londiste import Delivery
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.scenarios.queue.test_consumer_contracts import ORDINARY, QUEUE, processes, scene
from tests.support.scenarios.processes import Processes, is_stopped
from tests.support.waiting import wait_for

__all__ = ["processes"]
PLACES = {Delivery.LOCAL_FILE: "consumer.processed"}


@pytest.mark.parametrize("delivery", PLACES, ids=[each.name for each in PLACES])
def test_a_paused_process_does_not_move_what_another_one_has_done(
    delivery: Delivery, pgq_db: Database, tmp_path: Path, processes: Processes
) -> None:
    it = scene(pgq_db, None, tmp_path, delivery)
    argv = [sys.executable, "-m", "tests.support.programs.consumer_program", "--once"]
    for key, value in it.given.items():
        argv += ["--set", f"{key}={value}"]
    first = processes.start(
        "first",
        argv,
        {
            "DELIVERY": delivery.name,
            "SIDE_EFFECTS": str(tmp_path / "side_effects"),
            "LONDISTE_CRASH": PLACES[delivery],
            "LONDISTE_CRASH_SIGNAL": "STOP",
        },
    )
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
    assert all(it.rows()[text] >= 1 for text in ORDINARY) and it.lines() == done
