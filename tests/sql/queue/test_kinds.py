"""note_consumer_kind, get_consumer_kinds."""

from __future__ import annotations

import pytest

from londiste.errors import UnknownConsumer
from londiste.pgq import batches, consumers, queues
from londiste.pgq.consumers import ConsumerKind
from tests.fixtures.cluster import Database


def test_a_kind_is_known_as_long_as_the_registration_and_the_last_one_counts(
    pgq_db: Database,
) -> None:
    conn = pgq_db.connect()
    for queue in ("q", "r"):
        queues.create_queue(conn, queue)
        batches.register_consumer(conn, queue, "c")
        consumers.note_consumer_kind(conn, queue, "c", ConsumerKind.STREAM)
    consumers.note_consumer_kind(conn, "q", "c", ConsumerKind.LAKE)
    assert consumers.get_consumer_kinds(conn) == {("q", "c"): "lake", ("r", "c"): "stream"}
    assert consumers.get_consumer_kinds(conn, "r") == {("r", "c"): "stream"}
    batches.unregister_consumer(conn, "q", "c")
    batches.register_consumer(conn, "q", "c")
    assert consumers.get_consumer_kinds(conn) == {("r", "c"): "stream"}
    queues.drop_queue(conn, "r", True)
    assert consumers.get_consumer_kinds(conn) == {}
    with pytest.raises(UnknownConsumer):
        consumers.note_consumer_kind(conn, "q", "d", ConsumerKind.LAKE)


def test_schemas_that_do_not_know_kinds_keep_nobody_from_work(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    conn.execute("drop function pgq.note_consumer_kind(text, text, text)")
    conn.execute("drop function pgq.get_consumer_kinds(text)")
    consumers.note_consumer_kind(conn, "q", "c", ConsumerKind.LAKE)
    assert consumers.get_consumer_kinds(conn) == {}
