"""What is noted of a consumer: that it is paused, and its kind."""

from __future__ import annotations

import psycopg
import pytest

from londiste.errors import UnknownConsumer
from londiste.pgq import batches, consumers, queues
from londiste.pgq.consumers import ConsumerKind
from tests.fixtures.cluster import Database


def test_a_pause_is_seen_by_everybody_until_it_is_over(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    for name in ("c", "d"):
        batches.register_consumer(conn, "q", name)
    assert consumers.pause_consumer(conn, "q", "c", "repairs")
    assert not consumers.pause_consumer(conn, "q", "c", "again")
    assert consumers.pause_consumer(conn, "q", "d")
    (found,) = consumers.get_paused_consumers(conn, "q", "c")
    assert (found.queue, found.consumer, found.reason) == ("q", "c", "repairs")
    assert [p.consumer for p in consumers.get_paused_consumers(conn)] == ["c", "d"]
    assert consumers.resume_consumer(conn, "q", "c")
    assert not consumers.resume_consumer(conn, "q", "c")
    assert [p.consumer for p in consumers.get_paused_consumers(conn)] == ["d"]


def test_a_pause_ends_with_the_registration_and_with_the_queue(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    for queue in ("q", "r"):
        queues.create_queue(conn, queue)
        batches.register_consumer(conn, queue, "c")
        consumers.pause_consumer(conn, queue, "c")
    batches.unregister_consumer(conn, "q", "c")
    batches.register_consumer(conn, "q", "c")
    assert [p.queue for p in consumers.get_paused_consumers(conn)] == ["r"]
    queues.drop_queue(conn, "r", True)
    assert consumers.get_paused_consumers(conn) == []


def test_only_what_is_there_can_be_paused(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    for queue, name in (("q", "c"), ("nope", "c"), (None, None)):
        with pytest.raises(UnknownConsumer, match="Not subscriber to queue"):
            consumers.pause_consumer(conn, queue, name)  # type: ignore[arg-type]
        assert not consumers.resume_consumer(conn, queue, name)  # type: ignore[arg-type]


def test_the_reason_of_a_pause_is_bounded(pgq_db: Database) -> None:
    pgq_db.execute("select pgq.create_queue('q'); select pgq.register_consumer('q', 'c')")
    assert pgq_db.value("select pgq.pause_consumer('q', 'c', repeat('x', 20000000))") is True
    length = "select length(reason) from pgq.get_paused_consumers('q', 'c')"
    assert pgq_db.value(length) == 1000
    assert pgq_db.value("select max(length(pc_reason)) from pgq.paused_consumer") == 1000
    # One that an earlier version has stored.
    pgq_db.execute("update pgq.paused_consumer set pc_reason = repeat('x', 20000000)")
    assert pgq_db.value(length) == 1000


def test_names_are_bounded(pgq_db: Database) -> None:
    pgq_db.execute("select pgq.create_queue('q')")
    for call, what in (
        ("pgq.create_queue(repeat('n', 1001))", "queue"),
        ("pgq.register_consumer('q', repeat('n', 1001))", "consumer"),
        ("pgq_coop.register_subconsumer('q', 'm', repeat('n', 1000))", "consumer"),
    ):
        with pytest.raises(psycopg.errors.Error, match=f"name of a {what} .* characters") as caught:
            pgq_db.execute(f"select {call}")
        assert caught.value.sqlstate == "LD005" and caught.value.diag.message_hint
    assert pgq_db.value("select pgq_coop.register_subconsumer('q', 'm', repeat('n', 998))") == 1
    assert pgq_db.value("select pgq.register_consumer('q', repeat('n', 1000))") == 1


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
