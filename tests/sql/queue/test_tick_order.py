"""Ticks of concurrent sessions: one order, durable, at an exported snapshot if one is given."""

from __future__ import annotations

from threading import Thread

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.sql.queue.test_ticking import TICKS, history
from tests.support.queue_steps import (
    column,
    consume,
    insert,
    queue_with_consumer,
    refused,
    tick,
    value,
)


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


class TestDurable:
    @pytest.mark.parametrize(
        ("setting", "inside"),
        [("off", "on"), ("local", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
    )
    def test_a_transaction_with_a_tick_waits_for_the_disk(
        self, queue: Database, setting: str, inside: str
    ) -> None:
        conn = queue.connect(autocommit=False)
        conn.execute(f"set synchronous_commit = {setting}")
        conn.commit()
        tick(conn)
        assert value(conn, "show synchronous_commit") == inside
        conn.commit()
        assert value(conn, "show synchronous_commit") == setting
        conn.execute("select pgq.set_queue_config('q', 'external_ticker', 't')")
        conn.execute("select pgq.ticker('q', 99, now(), 1)")
        assert value(conn, "show synchronous_commit") == inside

    def test_a_look_in_vain_leaves_the_setting(self, queue: Database) -> None:
        history(queue, "10 s", "0 s")
        conn = queue.connect(autocommit=False)
        conn.execute("set synchronous_commit = off")
        conn.execute("select pgq.ticker()")
        assert value(conn, "show synchronous_commit") == "off"


class TestOrder:
    def test_ticks_of_two_sessions_follow_each_other(self, queue: Database) -> None:
        """The second waits for the first and takes its snapshot after it."""
        first, second = queue.connect(autocommit=False), queue.connect()
        conn = queue.connect()
        conn.execute("select pgq.force_tick('q')")
        tick(first)
        insert(conn, "between")
        conn.execute("select pgq.force_tick('q')")
        made: list[int | None] = []
        thread = Thread(target=lambda: made.append(value(second, "select pgq.ticker('q')")))
        thread.start()
        thread.join(0.05)
        assert not made, "the second waits"
        insert(conn, "while waiting")
        first.commit()
        thread.join(60)
        assert made == [3]
        assert column(conn, TICKS) == [1, 2, 3]
        assert [consume(conn), consume(conn)] == [[], ["between", "while waiting"]]

    def test_a_second_ticker_finds_nothing_left_to_do(self, queue: Database) -> None:
        first, second = queue.connect(autocommit=False), queue.connect()
        tick(first)
        made: list[int | None] = []
        thread = Thread(target=lambda: made.append(value(second, "select pgq.ticker('q')")))
        thread.start()
        first.commit()
        thread.join(60)
        assert made == [None]


class TestAtSnapshot:
    def exported(self, conn: psycopg.Connection) -> str:
        conn.execute("set transaction isolation level repeatable read")
        return str(conn.execute("select txid_current_snapshot()").fetchone()[0])  # type: ignore[index]

    def test_the_tick_sees_what_the_reader_sees(self, queue: Database) -> None:
        conn = queue.connect()
        locker, reader = queue.connect(autocommit=False), queue.connect(autocommit=False)
        slow = queue.connect(autocommit=False)
        insert(slow, "slow")
        insert(conn, "before")
        assert value(locker, "select pgq.lock_ticks('q')") == 1
        insert(conn, "after the lock")
        snapshot = self.exported(reader)
        insert(conn, "after the snapshot")
        slow.commit()
        made = value(locker, "select pgq.tick_at_snapshot('q', %s)", snapshot)
        locker.commit()
        seen = column(reader, "select ev_data from pgq.event_template order by ev_id")
        assert value(conn, "select tick_snapshot::text from pgq.tick order by tick_id desc") == (
            snapshot
        )
        tick(conn)
        assert made == 2
        assert consume(conn) == seen == ["before", "after the lock"]
        assert consume(conn) == ["slow", "after the snapshot"]

    def test_nobody_else_ticks_while_locked(self, queue: Database) -> None:
        locker, other = queue.connect(autocommit=False), queue.connect(lock_timeout_ms=50)
        assert value(locker, "select pgq.lock_ticks('q')") == 1
        other.execute("select pgq.force_tick('q')")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("select pgq.ticker('q')")
        assert insert(other, "writers do not wait") > 0

    def test_a_snapshot_before_the_newest_tick_is_refused(self, queue: Database) -> None:
        conn, reader = queue.connect(), queue.connect(autocommit=False)
        snapshot = self.exported(reader)
        insert(conn, "1")
        tick(conn)
        with refused("LD103", "the snapshot is older than the newest tick"):
            conn.execute("select pgq.tick_at_snapshot('q', %s)", [snapshot])

    def test_a_snapshot_of_the_future_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        with refused("LD005", "the snapshot sees transactions that are not finished"):
            conn.execute("select pgq.tick_at_snapshot('q', '9000000000:9000000000:')")

    @pytest.mark.parametrize("text", ["", "rubbish", "5:1:", None])
    def test_rubbish_is_refused(self, queue: Database, text: str | None) -> None:
        conn = queue.connect()
        with refused("LD005", f"not a snapshot: {'NULL' if text is None else text}"):
            conn.execute("select pgq.tick_at_snapshot('q', %s)", [text])

    def test_a_queue_that_does_not_tick_here_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        for function in ("lock_ticks('nope')", "tick_at_snapshot('nope', '1:1:')"):
            with refused("LD001", "no such queue"):
                conn.execute(f"select pgq.{function}")
        conn.execute("select pgq.set_queue_config('q', 'ticker_paused', 't')")
        for function in ("lock_ticks('q')", "tick_at_snapshot('q', '1:1:')"):
            with refused("LD103", "Ticker has been paused for this queue"):
                conn.execute(f"select pgq.{function}")
        conn.execute("select pgq.set_queue_config('q', 'external_ticker', 't')")
        for function in ("lock_ticks('q')", "tick_at_snapshot('q', '1:1:')"):
            with refused("LD103", "This queue has external tick source."):
                conn.execute(f"select pgq.{function}")
