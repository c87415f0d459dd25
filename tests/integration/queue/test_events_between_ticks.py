"""Events between two ticks through the Python interface."""

from __future__ import annotations

import pytest

from londiste.errors import PositionLost, StateError
from londiste.pgq import batches, producer, queues, ticks
from tests.fixtures.cluster import Database


def test_a_stretch_of_the_queue_is_read_in_lists_and_again(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    producer.insert_events(conn, "q", [("t", str(n)) for n in range(25)])
    queues.force_tick(conn, "q")
    last = queues.ticker(conn, "q")
    assert last is not None
    with conn.transaction():
        for _ in range(2):
            chunks = list(ticks.tick_events(conn, "q", 1, last, chunk=10))
            assert [len(chunk) for chunk in chunks] == [10, 10, 5]
    (odd,) = ticks.tick_events(conn, "q", 1, last, where="ev_data::int4 % 2 = 1")
    assert [event.data for event in odd] == [str(n) for n in range(1, 25, 2)]
    assert list(ticks.tick_events(conn, "q", last, last)) == []
    assert len(conn.execute(ticks.tick_event_sql(conn, "q", 1, last).encode()).fetchall()) == 25
    with pytest.raises(StateError, match="no tick 99 yet"):
        list(ticks.tick_events(conn, "q", 1, 99))
    pgq_db.execute("delete from pgq.tick where tick_id = 1")
    with pytest.raises(PositionLost, match="queue q has no tick 1"):
        list(ticks.tick_events(conn, "q", 1, last))
