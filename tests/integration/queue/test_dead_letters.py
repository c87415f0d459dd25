"""Dead letters through the Python interface."""

from __future__ import annotations

import pytest

from londiste.cli import cli
from londiste.cli.errors import run
from londiste.db.connection import Connection
from londiste.errors import StateError, UnknownConsumer
from londiste.pgq import batches, dead_letters, producer, queues
from londiste.pgq.types import Batch
from tests.fixtures.cluster import Database


@pytest.fixture
def conn(pgq_db: Database) -> Connection:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    return conn


def batch_of(conn: Connection) -> Batch:
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")
    batch = batches.next_batch(conn, "q", "c")
    assert batch is not None
    return batch


def test_events_fail_are_listed_come_back_and_go(
    conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dead_letters, "PAGE", 2)
    events = [producer.insert_event(conn, "q", "t", str(n)) for n in range(5)]
    batch = batch_of(conn)
    assert dead_letters.event_failed(conn, batch.id, events[0], "no such address") == 1
    assert dead_letters.event_failed(conn, batch.id, events[0], "again") == 0
    for event in events[1:4]:
        fate = dead_letters.event_retry_or_fail(
            conn, batch.id, event, 60, max_attempts=1, reason=f"reason {event}"
        )
        assert fate == "failed"
    fate = dead_letters.event_retry_or_fail(
        conn, batch.id, events[4], 60, max_attempts=None, reason=None
    )
    assert fate == "retry"
    batches.finish_batch(conn, batch.id)

    listed = list(dead_letters.failed_events(conn, "q", "c"))
    assert [event.id for event in listed] == events[:4]
    assert listed[0].failed_reason == "no such address"
    assert listed[0][6:] == (None, "t", "0", None, None, None, None)
    assert listed[0].failed_time > listed[0].time
    assert dead_letters.failed_event_list(conn, "q", "c", count=1, offset=2) == listed[2:3]
    (waiting,) = dead_letters.get_waiting_info(conn, "q")
    assert (waiting.dead, waiting.retries) == (4, 1)
    assert waiting.next_retry is not None and waiting.last == listed[3].failed_time

    assert dead_letters.failed_event_retry(conn, "q", "c", events[0]) == events[0]
    dead_letters.failed_event_delete(conn, "q", "c", events[1])
    assert dead_letters.failed_event_count(conn, "q", "c") == 2
    assert dead_letters.failed_event_retry_all(conn, "q", "c") == 2
    batch = batch_of(conn)
    back = [event for chunk in batches.events(conn, batch) for event in chunk]
    assert [(event.id, event.retry) for event in back] == [(events[n], 0) for n in (0, 2, 3)]
    for event in back:
        dead_letters.event_failed(conn, batch.id, event.id, None)
    assert dead_letters.failed_event_delete_all(conn, "q", "c") == 3


def test_errors_are_ours(conn: Connection) -> None:
    with pytest.raises(UnknownConsumer, match="Not subscriber to queue: q/d"):
        dead_letters.failed_event_count(conn, "q", "d")
    with pytest.raises(StateError, match="no failed event 5"):
        dead_letters.failed_event_delete(conn, "q", "c", 5)
    with pytest.raises(StateError, match="batch not found"):
        dead_letters.event_failed(conn, 99, 1, "x")


def test_unregistering_deletes_dead_letters_only_if_that_is_confirmed(
    pgq_db: Database, conn: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    batches.register_consumer(conn, "q", "d")
    event = producer.insert_event(conn, "q", "t", "x")
    batch = batch_of(conn)
    batches.event_retry(conn, batch.id, event, 60)
    batches.finish_batch(conn, batch.id)
    unregister = ["--set", f"db={pgq_db.dsn}", "queue", "unregister", "q", "d", "c"]
    assert run(cli, unregister) == 3
    refused = capsys.readouterr().err
    assert "hint: londiste queue retry list q --consumer c; or lose them:" in refused
    conn.execute("delete from pgq.retry_queue")
    event = producer.insert_event(conn, "q", "t", "x")
    batch = batch_of(conn)
    dead_letters.event_failed(conn, batch.id, event, "no")
    batches.finish_batch(conn, batch.id)
    assert run(cli, [*unregister, "--dry-run"]) == 0
    assert "lost with it: 1 dead letter" in capsys.readouterr().out
    assert run(cli, unregister) == 3
    refused = capsys.readouterr().err
    assert "consumer c of queue q, 1 dead letter" in refused
    assert "hint: londiste queue dead list q c; or lose them:" in refused
    assert "londiste queue unregister q d c --close-batch" in refused
    assert len(queues.get_consumer_info(conn, "q")) == 2
    assert run(cli, [*unregister, "--close-batch"]) == 0
    assert queues.get_consumer_info(conn, "q") == []
