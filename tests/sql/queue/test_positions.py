"""Positions of consumers move to another table and space comes back, whatever snapshot is held."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import psycopg
import pytest
from psycopg import errors

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.support.queue_steps import data_of, insert, queue_with_consumer, tick, value
from tests.support.waiting import wait_for

#: One maintenance after the other: switch, move and settle, empty.
STEPS = 3


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


@pytest.fixture
def holder(queue: Database) -> Iterator[psycopg.Connection]:
    """A session with a snapshot from before the test, which has not looked at positions."""
    conn = psycopg.connect(queue.dsn)
    conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    conn.execute("select count(*) from pgq.queue")
    with conn:
        yield conn


def make_large(conn: Connection) -> None:
    """The current table has as much in it as after many batches."""
    table = f"position_{value(conn, 'select ps_generation % 2 from pgq.position_state')}"
    conn.execute(
        f"insert into pgq.{table} (pos_key, pos_nr, pos_active)"
        " select -1, coalesce((select max(pos_nr) from pgq."
        + table
        + " where pos_key = -1), 0) + n,"
        " now() from generate_series(1, 100000) n"
    )


def maintain(conn: Connection) -> None:
    """One maintenance, when the minute of grace is over."""
    conn.execute("update pgq.position_state set ps_settled = ps_settled - interval '1 hour'")
    conn.execute("select pgq.maint_positions()")


def turn(conn: Connection) -> None:
    """All steps from a large table to an empty one."""
    generation = value(conn, "select ps_generation from pgq.position_state")
    make_large(conn)
    for _ in range(STEPS):
        maintain(conn)
    assert value(conn, "select ps_generation from pgq.position_state") == generation + 1
    assert value(conn, f"select pg_relation_size('pgq.position_{generation % 2}')") == 0


def positions(conn: Connection) -> list[tuple[object, ...]]:
    return conn.execute("select * from pgq.subscription order by 2, 3").fetchall()


def one(conn: psycopg.Connection, statement: str) -> object:
    row = conn.execute(statement).fetchone()
    return row[0] if row else None


class TestMovingToTheOtherTable:
    def test_changes_no_position(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.register_consumer('q', 'idle')")
        for number in range(5):
            insert(conn, f"event {number}")
            tick(conn)
            batch = value(conn, "select pgq.next_batch('q', 'c')")
            before = positions(conn)
            turn(conn)
            assert positions(conn) == before
            assert value(conn, "select pgq.next_batch('q', 'c')") == batch
            assert data_of(conn, batch) == [f"event {number}"]
            assert value(conn, "select consumer_name from pgq.get_batch_info(%s)", batch) == "c"
            assert value(conn, "select pgq.finish_batch(%s)", batch) == 1
            before = positions(conn)
            turn(conn)
            assert positions(conn) == before
            assert value(conn, "select pgq.finish_batch(%s)", batch) == 0

    def test_keeps_nobody_from_giving_a_batch_to_a_worker(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq_coop.register_subconsumer('q', 'c', 'w')")
        for _ in range(2):
            tick(conn)
            make_large(conn)
            maintain(conn)
            # Main consumer and worker both move with this call.
            batch = value(conn, "select pgq_coop.next_batch('q', 'c', 'w')")
            assert batch is not None
            for _ in range(STEPS):
                maintain(conn)
            assert value(conn, "select pgq_coop.next_batch('q', 'c', 'w')") == batch
            assert value(conn, "select pgq_coop.finish_batch(%s)", batch) == 1

    def test_happens_although_a_snapshot_is_held(
        self, queue: Database, holder: psycopg.Connection
    ) -> None:
        conn = queue.connect()
        for _ in range(4):
            turn(conn)
        assert value(conn, "select count(*) from pgq.registration") == 1

    def test_takes_no_step_before_the_table_is_large(self, queue: Database) -> None:
        conn = queue.connect()
        tick(conn)
        value(conn, "select pgq.next_batch('q', 'c')")
        for _ in range(STEPS):
            maintain(conn)
        assert value(conn, "select ps_generation from pgq.position_state") == 0

    def test_waits_a_minute_for_those_who_have_not_looked_yet(self, queue: Database) -> None:
        conn = queue.connect()
        make_large(conn)
        for _ in range(STEPS + 1):
            conn.execute("select pgq.maint_positions()")
        assert value(conn, "select ps_settled is not null from pgq.position_state")
        assert value(conn, "select pg_relation_size('pgq.position_0')") > 0

    def test_waits_for_nobody_and_keeps_the_table_of_one_who_is_at_work(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        tick(conn)
        with psycopg.connect(queue.dsn) as at_work:
            batch = one(at_work, "select pgq.next_batch('q', 'c')")
            make_large(conn)
            for _ in range(STEPS + 2):
                maintain(conn)
            assert value(conn, "select pg_relation_size('pgq.position_0')") > 0
        maintain(conn)
        maintain(conn)
        assert value(conn, "select pg_relation_size('pgq.position_0')") == 0
        assert value(conn, "select pgq.next_batch('q', 'c')") == batch

    def test_loses_no_position_of_a_consumer_that_could_not_be_moved(self, queue: Database) -> None:
        conn = queue.connect()
        tick(conn)
        value(conn, "select pgq.next_batch('q', 'c')")
        before = positions(conn)
        with psycopg.connect(queue.dsn) as locker:
            locker.execute("select 1 from pgq.registration for update")
            make_large(conn)
            for _ in range(STEPS + 2):
                maintain(conn)
            assert positions(conn) == before
        maintain(conn)
        maintain(conn)
        assert positions(conn) == before
        assert value(conn, "select pg_relation_size('pgq.position_0')") == 0

    def test_keeps_the_table_while_a_reader_is_there(self, queue: Database) -> None:
        conn = queue.connect()
        with psycopg.connect(queue.dsn) as reader:
            reader.execute("select * from pgq.subscription")
            make_large(conn)
            for _ in range(STEPS + 2):
                maintain(conn)
            assert value(conn, "select pg_relation_size('pgq.position_0')") > 0
        maintain(conn)
        assert value(conn, "select pg_relation_size('pgq.position_0')") == 0

    @pytest.mark.parametrize("broken", range(STEPS))
    def test_goes_on_after_a_crash_in_any_step(self, queue: Database, broken: int) -> None:
        conn = queue.connect()
        conn.execute("select pgq.register_consumer('q', 'idle')")
        make_large(conn)
        for step in range(STEPS):
            tick(conn)
            batch = value(conn, "select pgq.next_batch('q', 'c')")
            before = positions(conn)
            if step == broken:
                victim = psycopg.connect(queue.dsn)
                victim.execute(
                    "update pgq.position_state set ps_settled = ps_settled - interval '1 hour'"
                )
                victim.execute("select pgq.maint_positions()")
                pid = victim.info.backend_pid
                value(conn, "select pg_terminate_backend(%s, 30000)", pid)
                victim.close()
                assert positions(conn) == before
                assert value(conn, "select pgq.next_batch('q', 'c')") == batch
            maintain(conn)
            assert positions(conn) == before
            assert value(conn, "select pgq.finish_batch(%s)", batch) == 1
        # What a crash leaves in the other table is cleared away before the switch.
        for _ in range(STEPS):
            maintain(conn)
        assert value(conn, "select pg_relation_size('pgq.position_0')") == 0

    def test_leaves_nothing_behind_for_a_later_consumer_of_that_name(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.create_queue('other'); select pgq.ticker('other')")
        conn.execute("select pgq.register_consumer('other', 'c')")
        for _ in range(3):
            tick(conn)
            batch = value(conn, "select pgq.next_batch('q', 'c')")
            value(conn, "select pgq.finish_batch(%s)", batch)
        value(conn, "select pgq.next_batch('q', 'c')")
        assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 1
        newest = tick(conn)
        assert value(conn, "select pgq.register_consumer('q', 'c')") == 1
        found = conn.execute("select last_tick, current_batch from pgq.get_consumer_info('q', 'c')")
        assert found.fetchone() == (newest, None)

    def test_is_asked_of_the_ticker_when_there_is_something_to_do(self, queue: Database) -> None:
        conn = queue.connect()
        names = "select array_agg(func_name) from pgq.maint_operations()"
        assert "pgq.maint_positions" not in (value(conn, names) or [])
        make_large(conn)
        assert "pgq.maint_positions" in value(conn, names)


class TestOldSnapshots:
    def test_a_batch_that_moved_is_a_serialization_failure_and_not_finished(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        tick(conn)
        batch = value(conn, "select pgq.next_batch('q', 'c')")
        with psycopg.connect(queue.dsn) as old:
            old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            old.execute("select count(*) from pgq.queue")
            turn(conn)
            turn(conn)
            with pytest.raises(errors.SerializationFailure):
                old.execute("select pgq.finish_batch(%s)", [batch])
        assert value(conn, "select pgq.finish_batch(%s)", batch) == 1

    def test_a_consumer_that_moved_is_a_serialization_failure(
        self, queue: Database, holder: psycopg.Connection
    ) -> None:
        conn = queue.connect()
        turn(conn)
        with pytest.raises(errors.SerializationFailure):
            holder.execute("select pgq.next_batch('q', 'c')")

    def test_monitoring_answers_an_earlier_position_never_a_later_one(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        first = value(conn, "select sub_last_tick from pgq.subscription")
        tick(conn)
        batch = value(conn, "select pgq.next_batch('q', 'c')")
        value(conn, "select pgq.finish_batch(%s)", batch)
        with psycopg.connect(queue.dsn) as old:
            old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            old.execute("select count(*) from pgq.queue")
            turn(conn)
            assert one(old, "select sub_last_tick from pgq.subscription") == first
        assert value(conn, "select sub_last_tick from pgq.subscription") > first

    def test_the_second_to_finish_a_batch_fails_instead_of_overwriting(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        tick(conn)
        batch = value(conn, "select pgq.next_batch('q', 'c')")
        with psycopg.connect(queue.dsn) as second:
            second.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            assert one(second, "select sub_batch from pgq.subscription") == batch
            assert value(conn, "select pgq.finish_batch(%s)", batch) == 1
            tick(conn)
            again = value(conn, "select pgq.next_batch('q', 'c')")
            with pytest.raises(errors.SerializationFailure):
                second.execute("select pgq.finish_batch(%s)", [batch])
        assert value(conn, "select pgq.next_batch('q', 'c')") == again


class TestTheView:
    def test_is_written_like_the_table_that_it_was(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("insert into pgq.consumer (co_name) values ('worker')")
        row = conn.execute(
            "insert into pgq.subscription (sub_queue, sub_consumer, sub_last_tick)"
            " select queue_id, co_id, 1 from pgq.queue, pgq.consumer where co_name = 'worker'"
            " returning sub_id, sub_active is not null"
        ).fetchone()
        assert row == (2, True)
        worker = "sub_consumer = (select co_id from pgq.consumer where co_name = 'worker')"
        conn.execute(f"update pgq.subscription set sub_id = 1, sub_batch = 77 where {worker}")
        assert positions(conn)[1][0:6:5] == (1, 77)
        assert value(conn, "select consumer_name from pgq.get_batch_info(77)") is None
        conn.execute(f"update pgq.subscription set sub_next_tick = 1 where {worker}")
        assert value(conn, "select consumer_name from pgq.get_batch_info(77)") == "worker"
        conn.execute(f"delete from pgq.subscription where {worker}")
        assert len(positions(conn)) == 1

    def test_a_row_that_another_session_moved_meanwhile_is_not_overwritten(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        tick(conn)
        at_work = psycopg.connect(queue.dsn)
        batch = one(at_work, "select pgq.next_batch('q', 'c')")
        failed: list[BaseException] = []

        def overwrite() -> None:
            try:
                with psycopg.connect(queue.dsn) as second:
                    second.execute("update pgq.subscription set sub_batch = null")
            except errors.SerializationFailure as error:
                failed.append(error)

        thread = Thread(target=overwrite)
        thread.start()
        wait_for(
            lambda: value(conn, "select count(*) from pg_locks where not granted"),
            what="the second session to wait",
        )
        at_work.commit()
        at_work.close()
        thread.join()
        assert len(failed) == 1
        assert value(conn, "select sub_batch from pgq.subscription") == batch


@pytest.mark.slow
def test_consumers_lose_and_repeat_nothing_while_tables_turn_and_sessions_are_killed(
    queue: Database,
) -> None:
    conn = queue.connect()
    consumers = ["c", "d", "e"]
    conn.execute("select pgq.register_consumer('q', 'd'), pgq.register_consumer('q', 'e')")
    conn.execute(
        "create table public.done (consumer text, prev int8, cur int8, unique (consumer, prev))"
    )
    first = value(conn, "select max(tick_id) from pgq.tick")
    stop = Event()
    problems: list[BaseException] = []
    threads = [
        Thread(target=_consume, args=(queue, consumer, level, stop, problems))
        for consumer in consumers
        for level in (psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ)
    ]
    held = psycopg.connect(queue.dsn)
    held.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    held.execute("select count(*) from pgq.queue")
    for thread in threads:
        thread.start()
    try:
        turns = 0
        while turns < 6:
            for _ in range(5):
                conn.execute("select pgq.force_tick('q')")
                conn.execute("select pgq.ticker()")
            generation = value(conn, "select ps_generation from pgq.position_state")
            if value(conn, f"select pg_relation_size('pgq.position_{generation % 2}')") < 2**22:
                make_large(conn)
            maintain(conn)
            turns += int(value(conn, "select ps_generation from pgq.position_state")) - generation
            conn.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'victim' and datname = current_database()"
                " order by random() limit 1"
            )
        last = tick(conn)
        wait_for(
            lambda: (
                problems
                or conn.execute(
                    "select consumer from public.done where cur = %s", [last]
                ).fetchall()
                == [("c",), ("d",), ("e",)]
                or value(conn, "select min(sub_last_tick) from pgq.subscription") == last
            ),
            what="the consumers to come to the end",
        )
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        held.close()
    assert problems == []
    for consumer in consumers:
        rows = conn.execute(
            "select prev, cur from public.done where consumer = %s order by prev", [consumer]
        ).fetchall()
        assert [prev for prev, _ in rows] == [first, *(cur for _, cur in rows[:-1])]
        assert rows[-1][1] == last


def _consume(
    queue: Database,
    consumer: str,
    level: psycopg.IsolationLevel,
    stop: Event,
    problems: list[BaseException],
) -> None:
    """Takes batches, sometimes in one transaction and sometimes not; notes those it finished."""
    dice = random.Random(f"{consumer}{level}")
    conn: psycopg.Connection | None = None
    while not stop.is_set():
        try:
            if conn is None or conn.closed:
                conn = psycopg.connect(queue.dsn, application_name="victim")
                conn.isolation_level = level
            row = conn.execute(
                "select batch_id, prev_tick_id, cur_tick_id from pgq.next_batch_info('q', %s)",
                [consumer],
            ).fetchone()
            assert row is not None
            if row[0] is None or dice.random() < 0.5:
                conn.commit()
            if row[0] is None:
                continue
            finished = conn.execute("select pgq.finish_batch(%s)", [row[0]]).fetchone()
            if finished == (1,):
                conn.execute("insert into public.done values (%s, %s, %s)", [consumer, *row[1:]])
                conn.commit()
            else:
                conn.rollback()
        except errors.SerializationFailure:
            assert conn is not None
            # It may have been killed meanwhile.
            with suppress(psycopg.OperationalError):
                conn.rollback()
        except psycopg.OperationalError:
            if conn is not None:
                with suppress(psycopg.Error):
                    conn.close()
        except BaseException as error:
            problems.append(error)
            return
    if conn is not None:
        conn.close()
