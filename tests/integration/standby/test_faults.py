"""A standby that is paused, killed and started at random, under writes: the rows stay the same."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

import pytest

from tests.integration.standby.conftest import Pair
from tests.integration.standby.test_compare import ticking, writers
from tests.support.waiting import wait_for

Make = Callable[..., Pair]
_ROTATION = """
update pgq.queue set queue_rotation_period = '0', queue_switch_time = now() - interval '1 hour'
"""
#: Batches that the standby has answered for, as status shows it.
_READ = "select dm_worked from pgq.daemon where dm_kind = 'standby'"


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_rows_stay_the_same_whatever_the_standby_does(pair: Make, seed: int) -> None:
    chance = random.Random(seed)
    found = pair(
        {"read_from_wait": 0.1},
        max_standby_streaming_delay="50ms",
        hot_standby_feedback=chance.choice(["on", "off"]),
    )
    root = found.root.database
    found.write(0, 3000)
    root.execute(_ROTATION)
    worker = found.started()
    paused = killed = False
    with writers(found, 2), ticking(found):
        for _ in range(14):
            match chance.choice(["pause", "kill", "rotate", "vacuum", "wait"]):
                case "pause" if not killed and not paused:
                    found.standby.pause()
                    paused = True
                case "pause" if not killed:
                    found.standby.resume()
                    paused = False
                case "kill" if not killed:
                    found.standby.kill()
                    killed, paused = True, False
                case "kill":
                    found.standby.start()
                    killed = False
                case "rotate":
                    root.execute("select pgq.maint_rotate_tables_step1('line')")
                    root.execute("select pgq.maint_rotate_tables_step2()")
                case "vacuum":
                    root.execute("vacuum t")
                    root.execute("vacuum pgq.tick")
            # Something is read in between.
            position = found.line.position(found.leaf)
            found.line.wait_position(found.leaf, position + chance.randrange(1, 8))
        if killed:
            found.standby.start()
        elif paused:
            found.standby.resume()
        before = found.leaf.database.value(_READ)
        wait_for(
            lambda: found.leaf.database.value(_READ) not in (None, before),
            what="a batch from the standby",
        )
    found.line.wait_position(found.leaf, found.line.tick())
    assert found.same()
    assert worker.running()
    assert "ERROR" not in worker.said(), worker.said()


@pytest.mark.slow
def test_a_silent_standby_delays_one_batch_and_none_of_those_behind_it(pair: Make) -> None:
    found = pair()
    # Two seconds are the least that libpq waits for a session.
    silent = f"{found.standby.dsn(found.root.database.name)} connect_timeout=2"
    found.configure(silent, read_from_wait=1.0, max_retry_delay=1.0)
    worker = found.started()
    found.line.wait_position(found.leaf, found.write(0, 10))
    found.line.wait(lambda: found.leaf.database.value(_READ), "a batch from the standby")
    found.standby.signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        found.line.wait_position(found.leaf, found.write(100, 1))
        first = time.monotonic() - began
        # Several attempts to open a session lie in this time; each fails after two seconds.
        slowest, number = 0.0, 200
        while time.monotonic() - began < first + 7:
            number += 1
            sent = time.monotonic()
            found.line.wait_position(found.leaf, found.write(number, 1))
            slowest = max(slowest, time.monotonic() - sent)
        assert first < 15 and slowest < 1.5, (first, slowest, worker.said())
    finally:
        found.standby.signal(signal.SIGCONT)
    before = found.leaf.database.value(_READ)
    while found.leaf.database.value(_READ) == before:
        number += 1
        found.line.wait_position(found.leaf, found.write(number, 1))
    assert found.same()
    assert "Traceback" not in worker.said()
