"""Ticks are created when due; forced and external ticks; notifications."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    insert,
    queue_with_consumer,
    refused,
    refused_like,
    tick,
    value,
)
from tests.support.waiting import wait_for

TICKS = "select tick_id from pgq.tick order by 1"


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def history(queue: Database, *ages: str, event_seq: int = 0) -> None:
    """Makes the queue's ticks 1, 2, … ones of these ages."""
    conn = queue.connect()
    conn.execute("delete from pgq.tick")
    for nr, age in enumerate(ages, start=1):
        conn.execute(
            "insert into pgq.tick (tick_queue, tick_id, tick_time, tick_event_seq)"
            " select queue_id, %s, now() - %s::interval, %s from pgq.queue",
            [nr, age, event_seq],
        )
    conn.execute("select setval(queue_tick_seq, %s) from pgq.queue", [max(len(ages), 1)])


def due(queue: Database) -> bool:
    return queue.value("select pgq.ticker('q')") is not None


def test_a_session_that_saw_few_ticks_does_not_read_all_of_them_later(queue: Database) -> None:
    conn = queue.connect()
    history(queue, "2 s", "1 s", event_seq=1)
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_lag', '1 day')")
    insert(conn, "a")
    conn.execute("analyze pgq.tick")
    for _ in range(20):
        assert value(conn, "select pgq.ticker('q')") is None
    conn.execute(
        "insert into pgq.tick (tick_queue, tick_id, tick_event_seq)"
        " select queue_id, n, 1 from pgq.queue, generate_series(3, 5000) n"
    )
    read = (
        "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables"
        " where relid = 'pgq.tick'::regclass"
    )
    with conn.transaction():
        before = value(conn, read)
        assert value(conn, "select pgq.ticker('q')") is None
        assert 1 <= value(conn, read) - before <= 10


class TestWhenDue:
    def test_a_queue_without_ticks_gets_one(self, queue: Database) -> None:
        history(queue)
        assert due(queue)

    def test_a_second_tick_follows_at_once(self, queue: Database) -> None:
        history(queue, "0 s")
        assert due(queue)
        assert queue.execute(TICKS) == [(1,), (2,)]

    def test_the_first_event_of_a_queue_is_a_new_one(self, queue: Database) -> None:
        conn = queue.connect()
        new = "select ev_new from pgq.get_queue_info('q')"
        conn.execute("select pgq.set_queue_config('q', 'ticker_max_count', '1')")
        assert due(queue)
        assert value(conn, "select max(tick_event_seq) from pgq.tick") == 0
        assert value(conn, new) == 0
        insert(conn, "a")
        assert value(conn, new) == 1
        assert due(queue)
        assert value(conn, "select max(tick_event_seq) from pgq.tick") == 1
        assert value(conn, new) == 0

    def test_many_new_events_are_due_at_once(self, queue: Database) -> None:
        history(queue, "10 s", "0 s")
        conn = queue.connect()
        conn.execute("select pgq.set_queue_config('q', 'ticker_max_count', '5')")
        for n in range(4):
            insert(conn, str(n))
        assert not due(queue)
        insert(conn, "6")
        assert due(queue)

    def test_few_new_events_are_due_after_the_lag(self, queue: Database) -> None:
        history(queue, "10 s", "2 s")
        insert(queue.connect(), "1")
        insert(queue.connect(), "2")
        assert not due(queue)
        history(queue, "10 s", "3.1 s")
        assert due(queue)

    def test_a_clock_that_was_set_back_holds_up_no_tick(self, queue: Database) -> None:
        history(queue, "-50 min", "-1 h")
        assert due(queue), "the last tick is an hour in the future"
        history(queue, "-1 s", "-2 s")
        assert not due(queue)
        insert(queue.connect(), "1")
        insert(queue.connect(), "2")
        assert not due(queue)
        history(queue, "-3 s", "-4 s")
        assert due(queue)

    def test_idle_ticks_have_doubling_intervals(self, queue: Database) -> None:
        history(queue, "15 s", "5 s")
        assert not due(queue), "5 s after a gap of 10 s"
        history(queue, "29 s", "19 s")
        assert not due(queue), "19 s after a gap of 10 s"
        history(queue, "31 s", "21 s")
        assert due(queue), "21 s after a gap of 10 s"

    def test_periods_of_nothing_do_not_fill_an_idle_queue_with_ticks(self, queue: Database) -> None:
        conn = queue.connect()
        history(queue, "1 hour", "0")
        for name in ("ticker_max_lag", "ticker_idle_period"):
            conn.execute("select pgq.set_queue_config('q', %s, '0')", [name])
        move = "update pgq.tick set tick_time = now() - %s::interval where tick_id = 2"
        for age, is_due in (("90 ms", False), ("100 ms", True)):
            # In one transaction no time passes.
            with conn.transaction():
                conn.execute(move, [age])
                assert (value(conn, "select pgq.ticker('q')") is not None) is is_due, age

    def test_idle_ticks_are_created_once_per_idle_period(self, queue: Database) -> None:
        history(queue, "10 min", "61 s")
        assert due(queue)
        history(queue, "10 min", "59 s")
        assert not due(queue)

    def test_idle_ticks_are_at_least_half_the_lag_apart(self, queue: Database) -> None:
        history(queue, "1.41 s", "1.4 s")
        assert not due(queue)
        history(queue, "1.61 s", "1.6 s")
        assert due(queue)

    def test_call_without_due_tick_writes_nothing(self, queue: Database) -> None:
        history(queue, "10 s", "0 s")
        conn = queue.connect(autocommit=False)
        assert value(conn, "select pgq.ticker()") == 0
        assert value(conn, "select pgq.ticker('q')") is None
        assert value(conn, "select txid_current_if_assigned()") is None

    def test_the_tick_notes_sequence_time_and_snapshot(self, queue: Database) -> None:
        conn = queue.connect(autocommit=False)
        insert(conn, "1")
        insert(conn, "2")
        conn.commit()
        conn.execute("update pgq.tick set tick_time = now() - interval '1 h'")
        made = value(conn, "select pgq.ticker('q')")
        row = conn.execute(
            "select tick_event_seq, tick_time = now(),"
            " tick_snapshot::text = txid_current_snapshot()::text"
            " from pgq.tick where tick_id = %s",
            [made],
        ).fetchone()
        assert row == (2, True, True)


class TestRefused:
    def test_an_unknown_queue(self, queue: Database) -> None:
        with refused("LD001", "no such queue"):
            queue.execute("select pgq.ticker('nope')")

    def test_a_queue_with_external_ticker(self, queue: Database) -> None:
        queue.execute("select pgq.set_queue_config('q', 'external_ticker', 't')")
        with refused("LD103", "This queue has external tick source."):
            queue.execute("select pgq.ticker('q')")
        assert queue.value("select pgq.ticker()") == 0

    def test_a_paused_queue(self, queue: Database) -> None:
        queue.execute("select pgq.set_queue_config('q', 'ticker_paused', 't')")
        with refused("LD103", "Ticker has been paused for this queue"):
            queue.execute("select pgq.ticker('q')")
        assert queue.value("select pgq.ticker()") == 0

    @pytest.mark.parametrize("level", ["repeatable read", "serializable"])
    @pytest.mark.parametrize("call", ["ticker()", "ticker('q')", "tick_at_snapshot('q', '1:1:')"])
    def test_a_transaction_with_an_old_snapshot(
        self, queue: Database, level: str, call: str
    ) -> None:
        conn = queue.connect(autocommit=False)
        conn.execute(f"set transaction isolation level {level}")
        with refused(
            "LD100", "ticks and rotation need a transaction in isolation level read committed"
        ):
            conn.execute(f"select pgq.{call}")

    def test_a_restored_database(self, queue: Database) -> None:
        queue.execute("update pgq.tick set tick_snapshot = '9000000000:9000000001:'")
        with refused_like("LD201", r"Invalid PgQ state: old xmin=9000000000, cur txid=\d+"):
            queue.execute("select pgq.ticker('q')")
        with refused_like("LD201", r"Invalid PgQ state: old xmin=9000000000, cur txid=\d+"):
            queue.execute("select pgq.ticker()")

    def test_concurrent_tick_is_not_taken_for_a_future_one(self, queue: Database) -> None:
        one, other = queue.connect(), queue.connect(autocommit=False)
        look = "select pgq._tick_due(q) is not null from pgq.queue q"
        # Once before, so that the session knows the table and stops at nothing but its rows.
        assert value(one, look) is True
        other.execute("lock table pgq.tick in access exclusive mode")
        with ThreadPoolExecutor() as pool:
            looks = pool.submit(value, one, look)
            wait_for(
                lambda: queue.value("select count(*) from pg_locks where not granted"),
                what="the look at the last tick",
            )
            for _ in range(3):
                queue.execute("select txid_current()")
            other.execute(
                "insert into pgq.tick (tick_queue, tick_id, tick_event_seq, tick_snapshot)"
                " select queue_id, 1000, 1, format('%1$s:%1$s:', txid_snapshot_xmax("
                "txid_current_snapshot()))::txid_snapshot from pgq.queue"
            )
            other.commit()
            assert looks.result(30) is True

    def test_doubts_are_warnings(self, queue: Database) -> None:
        conn = queue.connect()
        notices: list[str] = []
        conn.add_notice_handler(
            lambda diag: notices.append(f"{diag.severity} {diag.message_primary}")
        )
        conn.execute("update pgq.tick set tick_snapshot = '10:9000000001:', tick_event_seq = 50")
        conn.execute("select pgq.ticker('q')")
        assert any(n.startswith("WARNING Dubious PgQ state: old xmax=9000000001") for n in notices)
        assert any(n.startswith("WARNING Negative number of new events") for n in notices)


class TestAllQueues:
    def test_all_due_queues_tick_and_are_counted(self, queue: Database) -> None:
        conn = queue.connect()
        for name in ("p", "r"):
            queue_with_consumer(conn, name)
        for name in ("q", "p", "r"):
            conn.execute("select pgq.force_tick(%s)", [name])
        conn.execute("select pgq.set_queue_config('r', 'ticker_paused', 't')")
        assert value(conn, "select pgq.ticker()") == 2
        assert value(conn, "select pgq.ticker()") == 0

    def test_a_queue_that_is_held_up_stops_no_other(self, queue: Database) -> None:
        conn, holder = queue.connect(), queue.connect(autocommit=False)
        queue_with_consumer(conn, "p")
        for name in ("q", "p"):
            conn.execute("select pgq.force_tick(%s)", [name])
        holder.execute("select pgq.lock_ticks('p')")
        assert value(conn, "select pgq.ticker()") == 1
        holder.rollback()
        assert value(conn, "select pgq.ticker()") == 1

    def test_concurrently_dropped_queue_stops_no_other(self, queue: Database) -> None:
        conn, ticker = queue.connect(), queue.connect()
        queue_with_consumer(conn, "p")
        conn.execute("select pgq.force_tick('q')")
        with ThreadPoolExecutor(1) as pool:
            with conn.transaction():
                conn.execute("select pgq.drop_queue('p', true)")
                ticked = pool.submit(value, ticker, "select pgq.ticker()")
                look = "select wait_event_type = 'Lock' from pg_stat_activity where pid = %s"
                wait_for(
                    lambda: queue.value(look, ticker.info.backend_pid), what="the ticker waiting"
                )
            assert ticked.result() == 1

    def test_a_queue_without_its_sequence_is_not_passed_over(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("drop sequence pgq.event_1_id_seq cascade")
        with pytest.raises(psycopg.errors.UndefinedTable):
            conn.execute("select pgq.ticker()")

    def test_open_retries_and_registrations_hold_up_no_tick(self, queue: Database) -> None:
        conn, consumer = queue.connect(lock_timeout_ms=100), queue.connect(autocommit=False)
        event = insert(conn, "1")
        tick(conn)
        consumer.execute("select pgq.register_consumer('q', 'new')")
        consumer.execute("select pgq.event_retry(pgq.next_batch('q', 'c'), %s, 0)", [event])
        assert tick(conn) == 3


class TestForce:
    def test_force_tick_consumes_ids_so_that_the_next_run_ticks(self, queue: Database) -> None:
        conn = queue.connect()
        assert value(conn, "select pgq.force_tick('q')") == 1
        assert value(conn, "select pgq.seq_getval(queue_event_seq) from pgq.queue") == 2001
        assert insert(conn, "1") == 2002
        assert value(conn, "select pgq.force_tick('q')") == 1
        assert insert(conn, "2") == 4004
        assert value(conn, "select pgq.ticker('q')") == 2
        assert value(conn, "select pgq.force_tick('q')") == 2

    def test_the_number_of_ids_depends_on_max_count(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.set_queue_config('q', 'ticker_max_count', '10')")
        conn.execute("select pgq.force_tick('q')")
        assert insert(conn, "1") == 1022

    @pytest.mark.parametrize("parameter", ["ticker_paused", "external_ticker"])
    def test_force_tick_has_no_effect_without_ticker(self, queue: Database, parameter: str) -> None:
        conn = queue.connect()
        conn.execute("select pgq.set_queue_config('q', %s, 't')", [parameter])
        assert value(conn, "select pgq.force_tick('q')") == 1
        assert insert(conn, "1") == 1

    def test_force_tick_returns_null_without_ticks(self, queue: Database) -> None:
        queue.execute("delete from pgq.tick")
        assert queue.value("select pgq.force_tick('q')") is None

    def test_an_unknown_queue_is_refused(self, queue: Database) -> None:
        with refused("LD001", "No such queue"):
            queue.execute("select pgq.force_tick('nope')")


class TestExternal:
    TICKER = "select pgq.ticker('q', %s, %s, %s)"

    @pytest.fixture
    def branch(self, queue: Database) -> Database:
        queue.execute("select pgq.set_queue_config('q', 'external_ticker', 't')")
        return queue

    def test_external_tick_has_the_given_id_and_raises_sequences(self, branch: Database) -> None:
        conn = branch.connect()
        assert value(conn, self.TICKER, 10, "2020-01-01 00:00:00+00", 500) == 10
        row = conn.execute(
            "select tick_id, tick_time::text, tick_event_seq from pgq.tick order by 1 desc"
        ).fetchone()
        assert row == (10, "2020-01-01 00:00:00+00", 500)
        assert value(conn, "select nextval(queue_tick_seq) from pgq.queue") == 11
        assert value(conn, "select nextval(queue_event_seq) from pgq.queue") == 501

    def test_external_tick_never_lowers_a_sequence(self, branch: Database) -> None:
        conn = branch.connect()
        conn.execute("select setval(queue_event_seq, 900) from pgq.queue")
        value(conn, self.TICKER, 10, "2020-01-01", 500)
        assert value(conn, "select nextval(queue_event_seq) from pgq.queue") == 901

    def test_external_ticks_must_be_in_order(self, branch: Database) -> None:
        conn = branch.connect()
        value(conn, self.TICKER, 10, "2020-01-01", 500)
        with refused("LD103", "tick 9 is older than tick 10"):
            conn.execute(self.TICKER, [9, "2020-01-01", 400])
        with pytest.raises(psycopg.errors.UniqueViolation):
            conn.execute(self.TICKER, [10, "2020-01-01", 500])
        assert value(conn, self.TICKER, 12, "2020-01-01", 600) == 12

    @pytest.mark.parametrize("setting", ["external_ticker = false", "ticker_paused = true"])
    def test_external_tick_needs_an_external_queue(self, branch: Database, setting: str) -> None:
        branch.execute(f"update pgq.queue set queue_{setting}")
        with refused("LD103", "queue not found or ticker disabled: q"):
            branch.execute("select pgq.ticker('q', 10, now(), 500)")

    def test_an_unknown_queue_is_refused(self, branch: Database) -> None:
        with refused("LD103", "queue not found or ticker disabled: nope"):
            branch.execute("select pgq.ticker('nope', 10, now(), 500)")


class TestNotify:
    def test_tick_and_force_tick_send_notifications(self, queue: Database) -> None:
        conn, listener = queue.connect(), queue.connect()
        listener.execute("listen pgq_tick")
        listener.execute("listen pgq_force_tick")
        conn.execute("select pgq.force_tick('q')")
        conn.execute("select pgq.ticker()")
        conn.execute("select pgq.set_queue_config('q', 'external_ticker', 't')")
        conn.execute("select pgq.ticker('q', 99, now(), 1)")
        told = [(n.channel, n.payload) for n in listener.notifies(timeout=60, stop_after=3)]
        assert told == [("pgq_force_tick", "q"), ("pgq_tick", "q"), ("pgq_tick", "q")]

    def test_a_very_long_name_does_not_stop_ticks(self, pgq_db: Database) -> None:
        conn = pgq_db.connect()
        name = "ü" * 1000
        conn.execute("select pgq.create_queue(%s)", [name])
        assert tick(conn, name) == 2
