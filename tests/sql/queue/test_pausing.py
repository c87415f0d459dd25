"""pause_consumer, resume_consumer, get_paused_consumers."""

from __future__ import annotations

import pytest

from londiste.errors import UnknownConsumer
from londiste.pgq import batches, pause, queues
from tests.fixtures.cluster import Database


def test_a_pause_is_seen_by_everybody_until_it_is_over(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    for name in ("c", "d"):
        batches.register_consumer(conn, "q", name)
    assert pause.pause_consumer(conn, "q", "c", "repairs")
    assert not pause.pause_consumer(conn, "q", "c", "again")
    assert pause.pause_consumer(conn, "q", "d")
    (found,) = pause.get_paused_consumers(conn, "q", "c")
    assert (found.queue, found.consumer, found.reason) == ("q", "c", "repairs")
    assert [p.consumer for p in pause.get_paused_consumers(conn)] == ["c", "d"]
    assert pause.resume_consumer(conn, "q", "c")
    assert not pause.resume_consumer(conn, "q", "c")
    assert [p.consumer for p in pause.get_paused_consumers(conn)] == ["d"]


def test_a_pause_ends_with_the_registration_and_with_the_queue(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    for queue in ("q", "r"):
        queues.create_queue(conn, queue)
        batches.register_consumer(conn, queue, "c")
        pause.pause_consumer(conn, queue, "c")
    batches.unregister_consumer(conn, "q", "c")
    batches.register_consumer(conn, "q", "c")
    assert [p.queue for p in pause.get_paused_consumers(conn)] == ["r"]
    queues.drop_queue(conn, "r", True)
    assert pause.get_paused_consumers(conn) == []


def test_only_what_is_there_can_be_paused(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    for queue, name in (("q", "c"), ("nope", "c"), (None, None)):
        with pytest.raises(UnknownConsumer, match="Not subscriber to queue"):
            pause.pause_consumer(conn, queue, name)  # type: ignore[arg-type]
        assert not pause.resume_consumer(conn, queue, name)  # type: ignore[arg-type]
