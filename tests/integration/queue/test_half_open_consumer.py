"""Consumers whose connections fall silent: they continue, and do nothing twice."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psycopg
import pytest

from londiste import Context, Delivery, Event, Producer
from londiste.consumer import source
from londiste.errors import NodeUnreachable
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.support.consumer_steps import QUEUE, Storing, effects, send
from tests.support.lines import Line
from tests.support.suite.slow import first


@pytest.fixture
def db(pgq_db: Database) -> Database:
    pgq_db.execute("create table effects (ev_id int8, data text)")
    queues.create_queue(pgq_db.connect(), QUEUE)
    return pgq_db


@pytest.fixture
def line(db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    monkeypatch.setattr(source, "ANSWER_SECONDS", 0.5)
    with Line(db.dsn) as made:
        yield made


class Here(Storing):
    delivery = Delivery.EXACTLY_ONCE_HERE


class Elsewhere(Storing):
    delivery = Delivery.EXACTLY_ONCE_ELSEWHERE


class Slow(Here):
    def process_event(self, event: Event, ctx: Context) -> None:
        ctx.db.execute("select pg_sleep(2.5)")
        super().process_event(event, ctx)


@pytest.mark.parametrize("silent", first(["here", "effects", "queue"], 2))
def test_a_consumer_on_a_silent_connection_continues_on_a_new_one(
    db: Database, line: Line, silent: str
) -> None:
    kind = Here if silent == "here" else Elsewhere
    consumer = kind(
        db.dsn if silent == "effects" else line.dsn,
        target_db=None if silent == "here" else db.dsn if silent == "queue" else line.dsn,
        lock_timeout=0.5,
    )
    consumer.register()
    send(db, "a")
    assert consumer.work()
    line.stall()
    send(db, "b")
    began = time.monotonic()
    with pytest.raises((NodeUnreachable, psycopg.Error), match="not responded for 1 s"):
        consumer.work()
    assert time.monotonic() - began < 20
    assert consumer.work()
    assert effects(db) == ["a", "b"]
    consumer.close()


def test_a_long_statement_of_the_function_is_waited_for(db: Database, line: Line) -> None:
    consumer = Slow(line.dsn, lock_timeout=0.5)
    consumer.register()
    send(db, "a")
    assert consumer.work()
    assert effects(db) == ["a"]
    consumer.close()


def test_a_producer_on_a_silent_connection_gives_up_and_sends_on_a_new_one(
    db: Database, line: Line
) -> None:
    with Producer(line.dsn, QUEUE, answer_seconds=1.0) as events:
        events.send("t", "a")
        line.stall()
        with pytest.raises(NodeUnreachable, match="not responded for 1 s"):
            events.send("t", "b", key="b")
        sent = events.send("t", "b", key="b")
        assert events.send("t", "b", key="b") == sent
    assert queues.event_count(db.connect(), QUEUE) == 2
