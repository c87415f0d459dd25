"""The worker reads batches from a standby of its provider, and from the provider where it must."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

import psycopg
import pytest

from tests.integration.standby.conftest import Pair
from tests.support.waiting import wait_for

Make = Callable[..., Pair]


def test_batches_come_from_the_standby(pair: Make) -> None:
    found = pair()
    before = found.events_read()
    worker = found.started()
    for number in range(5):
        found.line.wait_position(found.leaf, found.write(number * 1000, 1000))
    assert found.same()
    assert worker.running()
    assert "batches are read from its standby" in worker.said()
    assert "WARNING" not in worker.said()
    assert found.events_read() - before < 1000


def test_a_standby_that_lags_is_not_waited_for_with_each_batch(pair: Make) -> None:
    found = pair({"read_from_wait": 0.2})
    found.standby.pause()
    worker = found.started()
    for number in range(3):
        found.line.wait_position(found.leaf, found.write(number * 10, 10))
    said = worker.said()
    assert said.count("in 0.2 s; reading from node root") == 1, said
    assert found.same()
    found.standby.resume()
    found.standby.caught_up()
    keys = itertools.count(100, 1000)

    def read_again() -> bool:
        # A busy machine may take longer than that to replay a batch.
        found.line.wait_position(found.leaf, found.write(next(keys), 1000))
        return "read again after" in worker.said()

    wait_for(read_again, what="a standby that is read again")
    assert found.same()


def test_a_standby_that_is_down_or_killed_costs_no_row(pair: Make) -> None:
    found = pair()
    worker = found.started()
    found.line.wait_position(found.leaf, found.write(0, 10))
    found.standby.kill()
    found.line.wait_position(found.leaf, found.write(10, 10))
    assert found.same()
    assert worker.said().count("reading from node root: ") == 1
    assert worker.said().count("; reading from node root") >= 1
    found.standby.start()
    wait_for(lambda: "read again after" in worker.said(), what="a standby that is read again")
    found.line.wait_position(found.leaf, found.write(100, 1000))
    assert found.same()


@pytest.mark.slow
def test_a_standby_killed_in_the_middle_of_a_batch(pair: Make) -> None:
    found = pair()
    worker = found.started()
    tick = found.reads_slowly(worker, 0)
    found.standby.kill()
    worker.go_on()
    found.line.wait_position(found.leaf, tick)
    assert found.same()
    assert "; reading from node root" in worker.said()


def test_a_promoted_standby_is_not_read(pair: Make) -> None:
    found = pair()
    worker = found.started()
    found.line.wait_position(found.leaf, found.write(0, 10))
    found.standby.promote()
    # A row that only the other branch of history has.
    other = found.standby.dsn(found.root.database.name)
    with psycopg.connect(other, autocommit=True) as conn:
        conn.execute("insert into t values (999, 'diverged')")
        conn.execute("select pgq.force_tick('line'), pgq.ticker('line')")
    found.line.wait_position(found.leaf, found.write(10, 10))
    assert found.same()
    assert "it accepts writes, so its data may differ; reading from node root" in worker.said()
    # A new session finds the same.
    assert worker.stop() == 0
    tick = found.write(20, 10)
    worker = found.line.start(found.leaf)
    found.line.wait_position(found.leaf, tick)
    assert "it is no standby (any more)" in worker.said()
    assert "hint: correct read_from" in worker.said()
    assert found.same()


def test_another_server_another_database_and_one_that_does_not_answer_are_refused(
    pair: Make,
) -> None:
    found = pair()
    others = {
        found.leaf.database.dsn: "it is not a standby of the provider: its data are those of"
        " another server",
        found.standby.dsn("postgres"): "it is not the database of the provider, but another one of"
        " that server",
        "host=127.0.0.1 port=1 dbname=x password=hush4711": "authentication failed"
        "|Connection refused|connection failed",
    }
    for number, (dsn, reason) in enumerate(others.items()):
        found.configure(dsn)
        tick = found.write(number * 10, 10)
        done = found.line.run(found.leaf, "worker", "--once")
        assert done.code == 0 and found.line.position(found.leaf) == tick, str(done)
        assert re.search(reason, done.err), done.err
        assert "; reading from node root" in done.err
        assert "hush4711" not in done.err
        assert found.same()


def test_a_recovery_conflict_costs_no_row(pair: Make) -> None:
    found = pair(max_standby_streaming_delay="0")
    root = found.root.database
    root.execute("create table junk as select g from generate_series(1, 1000) g")
    worker = found.started()
    tick = found.reads_slowly(worker, 0)
    # What it removes, the snapshot of the read still sees.
    root.execute("delete from junk")
    root.execute("vacuum junk")
    found.standby.received_all()
    worker.go_on()
    found.line.wait_position(found.leaf, tick)
    assert found.same()
    assert "conflict with recovery; reading from node root" in worker.said()


def test_a_promotion_in_the_middle_of_a_batch(pair: Make) -> None:
    found = pair()
    worker = found.started()
    tick = found.reads_slowly(worker, 0)
    found.standby.promote()
    worker.go_on()
    found.line.wait_position(found.leaf, tick)
    assert found.same()
    assert "it was promoted" in worker.said()


def test_a_large_batch_is_staged_from_the_standby(pair: Make) -> None:
    found = pair({"parallel_apply_min_events": 1000})
    before = found.events_read()
    worker = found.started()
    found.line.wait_position(found.leaf, found.write(0, 5000))
    said = worker.said()
    assert "staged by" in said
    assert "WARNING" not in said, said
    assert found.events_read() - before < 1000
    assert found.same()


def test_the_standby_is_not_needed_at_the_start(pair: Make) -> None:
    found = pair()
    found.standby.stop()
    found.line.once(found.leaf)
    tick = found.write(0, 10)
    found.line.once(found.leaf)
    assert found.line.position(found.leaf) == tick
    assert found.same()
