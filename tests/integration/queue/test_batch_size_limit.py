"""The largest number of events of a batch, with those of transactions open at its first tick."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from londiste.db.connection import Connection
from londiste.pgq import batches, queues
from londiste.pgq.types import Batch
from londiste.replication.parallel.size_limit import Horizon, SizeLimits, may_reach
from tests.fixtures.cluster import Database
from tests.support.queue_steps import value

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def a_batch(first: int, seqs: tuple[int, int]) -> Batch:
    return Batch(1, "q", "c", first, first + 1, NOW, NOW, *seqs)


@pytest.mark.parametrize(
    ("threshold", "known", "expected"),
    [
        (0, None, False),
        (100, None, True),
        (100, Horizon(10, 401), False),
        (100, Horizon(10, 400), True),
        (101, Horizon(10, 400), False),
        (100, Horizon(11, 401), True),  # the position was moved back
        (20, Horizon(10, 490), True),  # by its ticks alone
    ],
)
def test_the_server_is_asked_for_a_batch_that_may_be_large(
    threshold: int, known: Horizon | None, expected: bool
) -> None:
    assert may_reach(a_batch(10, (480, 500)), threshold, known) is expected


def add(conn: Connection, count: int) -> None:
    conn.execute(
        "select pgq.insert_event('q', 't', 'd') from generate_series(1, %s::int4)", [count]
    )


def tick(conn: Connection) -> None:
    """Without the ids that a forced tick skips."""
    assert value(conn, "select pgq.ticker('q')") is not None


@pytest.fixture
def queue(pgq_db: Database) -> Connection:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    conn.execute(
        "select pgq.set_queue_config('q', 'ticker_max_lag', '0'),"
        " pgq.set_queue_config('q', 'ticker_max_count', '1')"
    )
    batches.register_consumer(conn, "q", "c")
    return conn


def steps(conn: Connection) -> list[tuple[Batch, int]]:
    """All batches that are waiting, and their numbers of events."""
    found = []
    while (batch := batches.next_batch(conn, "q", "c")) is not None:
        found.append((batch, sum(map(len, batches.stream(conn, batch)))))
        batches.finish_batch(conn, batch.id)
    return found


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside others"])
def test_the_events_of_a_transaction_that_is_open_at_a_tick_count(
    beside: bool, pgq_db: Database, queue: Connection
) -> None:
    large = pgq_db.connect(autocommit=False)
    for _ in range(4):
        add(queue, 5)
        tick(queue)
    add(large, 50)
    # Alone, its id is that of the next transaction, and the snapshot of the tick does not list it.
    for others in (3, 3, 3) if beside else (0,):
        add(queue, others)
        tick(queue)
    large.commit()
    add(queue, 2)
    tick(queue)
    batch, count = steps(queue)[-1]
    assert count == 52
    assert batch.size_estimate < 10
    # With the events of others, since the tick before the one that it began after.
    assert 52 <= SizeLimits().ask(queue, batch) <= 52 + 5 + (9 if beside else 0)


def test_the_server_is_asked_once_for_many_small_batches(queue: Connection) -> None:
    for _ in range(20):
        add(queue, 1)
        tick(queue)
    limits, asked = SizeLimits(), 0
    for batch, _ in steps(queue):
        if limits.may_reach(batch, 15):
            limits.ask(queue, batch)
            asked += 1
    assert asked == 2


def test_no_large_batch_is_taken_for_a_small_one(pgq_db: Database, queue: Connection) -> None:
    dice, threshold = random.Random(4), 60
    writers = [pgq_db.connect(autocommit=False) for _ in range(3)]
    for _ in range(150):
        for writer in writers:
            if dice.random() < 0.7:
                add(writer, dice.choice((1, 2, 12)))
            if dice.random() < 0.4:
                writer.commit()
        if dice.random() < 0.7:
            add(queue, 1)
            tick(queue)
    for writer in writers:
        writer.commit()
    add(queue, 1)
    tick(queue)
    limits, large = SizeLimits(), 0
    for batch, count in steps(queue):
        limit = batch.size_estimate
        if limits.may_reach(batch, threshold):
            limit = limits.ask(queue, batch)
            assert count <= limit
        large += count >= threshold > batch.size_estimate
        assert limit >= threshold or count < threshold
    assert large > 0
