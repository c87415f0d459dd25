"""What a ticker asks a database in which nothing happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from londiste.pgq import batches, producer, queues
from londiste.ticker import database as ticker
from londiste.ticker import maintenance
from londiste.ticker.database import DatabaseTicker
from londiste.ticker.housekeeping import Housekeeping
from londiste.ticker.rounds import Periods
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

#: No task of housekeeping is due for the second time while a test runs.
REST = Periods(tick=0.02, retry=3600, maintenance=3600)


def count(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Notes each call of a query of ``queues`` in the list."""
    ask: Callable[..., Any] = getattr(queues, name)
    calls: list[str] = []

    def noted(*args: Any) -> Any:
        calls.append(name)
        return ask(*args)

    monkeypatch.setattr(queues, name, noted)
    return calls


@pytest.fixture
def running(pgq_db: Database) -> Iterator[DatabaseTicker]:
    one = DatabaseTicker(pgq_db.dsn, REST)
    one.start()
    yield one
    one.stop()
    assert one.join(time.monotonic() + 30)


def test_the_lag_of_quiet_queues_is_rarely_asked_and_at_once_after_a_tick(
    pgq_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pgq_db.connect() as conn:
        queues.create_queue(conn, "q")
        queues.ticker(conn)
        calls = count(monkeypatch, "shortest_tick_lag")
        monkeypatch.setattr(ticker, "LAG_PERIOD", 0.0)
        monkeypatch.setattr(ticker, "QUIET_LAG_PERIOD", 3600.0)
        one = ticker._Ticks(pgq_db.dsn, REST, lambda done: None)
        for _ in range(5):
            one.work()
        assert len(calls) == 1
        queues.set_queue_config(conn, "q", "ticker_max_lag", "0.25 seconds")
        queues.set_queue_config(conn, "q", "ticker_max_count", "1")
        producer.insert_event(conn, "q", "t", "x")
        one.work()
        one.disconnect()
    assert one.lag == 0.25


def test_housekeeping_sleeps_while_the_ticks_ask_what_is_due(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    rounds, alone = count(monkeypatch, "ticker_and_due"), count(monkeypatch, "seconds_until_due")
    request.getfixturevalue("running")
    wait_for(lambda: len(rounds) > 5, what="rounds of ticks")
    asked = len(alone)
    wait_for(lambda: len(rounds) > 40, what="more of them")
    # One that has begun before the ticks said the first word.
    assert len(alone) <= asked + 1


def test_an_event_that_becomes_due_wakes_housekeeping_which_sleeps_again(
    pgq_db: Database, monkeypatch: pytest.MonkeyPatch, running: DatabaseTicker
) -> None:
    with pgq_db.connect() as conn:
        queues.create_queue(conn, "q")
        queues.set_queue_config(conn, "q", "ticker_max_count", "1")
        batches.register_consumer(conn, "q", "c")
        housekeeping = running._rounds[1]
        assert isinstance(housekeeping, Housekeeping)
        wait_for(lambda: housekeeping.planned > time.monotonic() + 1000, what="a long pause")
        conn.execute("select pgq.insert_event_at('q', now() + '0.3 seconds'::interval, 't', 'x')")
        left = "select count(*) from pgq.delayed_event"
        wait_for(lambda: pgq_db.value(left) == 0, what="the event in its queue", timeout=20)
        wait_for(lambda: housekeeping.planned > time.monotonic() + 1000, what="a long pause again")


def test_a_pause_of_housekeeping_ends_when_its_session_is_lost(
    pgq_db: Database, running: DatabaseTicker
) -> None:
    own = (
        "select pid from pg_stat_activity where application_name = 'londiste ticker: housekeeping'"
        " and datname = current_database()"
    )
    housekeeping = running._rounds[1]
    assert isinstance(housekeeping, Housekeeping)
    wait_for(lambda: housekeeping.planned > time.monotonic() + 1000, what="a long pause")
    before = pgq_db.value(own)
    pgq_db.value(f"select pg_terminate_backend({before})")
    wait_for(lambda: pgq_db.value(own) not in (None, before), what="another session", timeout=20)


def test_what_is_due_and_does_not_move_wakes_nobody(
    pgq_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Housekeeping(pgq_db.dsn, Periods(tick=5, retry=3600, maintenance=3600), lambda done: None)
    woken: list[int] = []
    monkeypatch.setattr(one.signals, "wake", lambda: woken.append(1))
    one.work()
    for seconds in (None, 20.0, 1.0):
        one.tell_due(seconds)
    assert len(woken) == 1
    with pgq_db.connect() as conn:
        queues.create_queue(conn, "q")
        batches.register_consumer(conn, "q", "c")
        conn.execute("select pgq.insert_event_at('q', now() + '1 ms'::interval, 't', 'x')")
    monkeypatch.setattr(maintenance, "move_due_events", lambda conn, stopping: 0)
    wait_for(lambda: one.until_due() == 0, what="the event to be due")
    one.work()
    assert one.loop.delay == 5
    one.tell_due(0.0)
    assert len(woken) == 1
    one.disconnect()
