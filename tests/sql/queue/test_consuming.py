"""Consumers register and open batches: the events between two ticks, ordered by event id."""

from __future__ import annotations

from threading import Thread

import pytest

from londiste.pgq import batches, queues
from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    column,
    consume,
    data_of,
    insert,
    open_batch,
    queue_with_consumer,
    refused,
    tick,
    value,
)

INFO_COLUMNS = [
    *("batch_id", "cur_tick_id", "prev_tick_id", "cur_tick_time", "prev_tick_time"),
    *("cur_tick_event_seq", "prev_tick_event_seq"),
]


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


class TestRegistration:
    def test_a_consumer_registers_once(self, queue: Database) -> None:
        conn = queue.connect()
        assert value(conn, "select pgq.register_consumer('q', 'd')") == 1
        assert value(conn, "select pgq.register_consumer('q', 'd')") == 0
        assert column(conn, "select co_name from pgq.consumer order by 1") == ["c", "d"]

    def test_it_starts_behind_the_newest_tick(self, queue: Database) -> None:
        conn = queue.connect()
        insert(conn, "before")
        newest = tick(conn)
        conn.execute("select pgq.register_consumer('q', 'd')")
        insert(conn, "after")
        tick(conn)
        info = conn.execute("select last_tick from pgq.get_consumer_info('q', 'd')").fetchone()
        assert info == (newest,)
        assert consume(conn, consumer="d") == ["after"]

    def test_an_unknown_queue_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        with refused("LD001", "Event queue not created yet"):
            conn.execute("select pgq.register_consumer('nope', 'c')")
        with refused("LD001", "Event queue not created yet"):
            conn.execute("select pgq.register_consumer_at('nope', 'c', 1)")

    def test_a_queue_without_ticks_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.unregister_consumer('q', 'c')")
        conn.execute("delete from pgq.tick")
        with refused("LD105", "No ticks for this queue.  Please run ticker on database."):
            conn.execute("select pgq.register_consumer('q', 'c')")

    def test_a_consumer_starts_at_a_given_tick(self, queue: Database) -> None:
        conn = queue.connect()
        insert(conn, "1")
        first = tick(conn)
        insert(conn, "2")
        tick(conn)
        register = "select pgq.register_consumer_at('q', 'd', %s)"
        assert value(conn, register, first) == 1
        assert consume(conn, consumer="d") == ["2"]

    def test_a_tick_that_is_not_there_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        with refused("LD105", "cannot reposition, tick not found: 99"):
            conn.execute("select pgq.register_consumer_at('q', 'd', 99)")
        assert column(conn, "select co_name from pgq.consumer") == ["c"]

    def test_a_registered_consumer_moves_back_and_drops_its_batch(self, queue: Database) -> None:
        conn = queue.connect()
        insert(conn, "1")
        tick(conn)
        assert consume(conn) == ["1"]
        insert(conn, "2")
        tick(conn)
        open_batch(conn)
        assert value(conn, "select pgq.register_consumer_at('q', 'c', 1)") == 0
        position = "select sub_last_tick, sub_batch, sub_next_tick from pgq.subscription"
        assert conn.execute(position).fetchone() == (1, None, None)
        assert consume(conn) == ["1"]

    def test_tables_that_were_restored_without_their_rows_are_no_registration(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        conn.execute("delete from pgq.position_state")
        with refused("LD200", "pgq.position_state is empty"):
            conn.execute("select pgq.register_consumer('q', 'new')")

    def test_a_registered_consumer_with_a_null_tick_stays(self, queue: Database) -> None:
        conn = queue.connect()
        tick(conn)
        open_batch(conn)
        before = conn.execute("select * from pgq.subscription").fetchall()
        assert value(conn, "select pgq.register_consumer_at('q', 'c', null)") == 0
        assert conn.execute("select * from pgq.subscription").fetchall() == before

    def test_unregistering_forgets_position_and_name(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.create_queue('p'), pgq.register_consumer('p', 'c')")
        assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 1
        assert column(conn, "select co_name from pgq.consumer") == ["c"], "p still has it"
        assert value(conn, "select pgq.unregister_consumer('p', 'c')") == 1
        assert column(conn, "select co_name from pgq.consumer") == []
        assert value(conn, "select pgq.unregister_consumer('p', 'c')") == 0
        assert value(conn, "select pgq.unregister_consumer('nope', 'c')") == 0

    @pytest.mark.parametrize("gone", ["c", "c.1"])
    def test_unregistering_waits_for_nobody_who_registers_the_name(
        self, queue: Database, gone: str
    ) -> None:
        """Who registers has the name first and then waits for the position: a deadlock."""
        first, second = queue.connect(), queue.connect()
        first.execute("select pgq_coop.register_subconsumer('q', 'c', '1')")
        first.execute("begin")
        first.execute("select from pgq.consumer where co_name = %s for key share", [gone])
        second.execute("set lock_timeout = '200ms'")
        removed = value(second, "select pgq.unregister_consumer('q', %s)", gone)
        assert removed == {"c": 2, "c.1": 1}[gone]
        assert value(first, "select pgq.register_consumer('q', %s)", gone) == 1
        first.execute("commit")
        assert gone in column(second, "select consumer_name from pgq.get_consumer_info('q')")

    def test_unregistering_takes_the_retried_events_along(self, queue: Database) -> None:
        conn = queue.connect()
        event = insert(conn, "1")
        tick(conn)
        conn.execute("select pgq.event_retry(%s, %s, 0)", [open_batch(conn), event])
        assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 1
        assert value(conn, "select count(*) from pgq.retry_queue") == 0

    def test_a_cooperative_consumer_goes_alone_and_its_main_with_all(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("insert into pgq.consumer (co_name) values ('c.1'), ('c.2')")
        conn.execute(
            "insert into pgq.subscription (sub_id, sub_queue, sub_consumer)"
            " select s.sub_id, s.sub_queue, c.co_id from pgq.subscription s, pgq.consumer c"
            " where c.co_name in ('c.1', 'c.2')"
        )
        assert value(conn, "select pgq.unregister_consumer('q', 'c.1')") == 1
        assert column(conn, "select co_name from pgq.consumer order by 1") == ["c", "c.2"]
        assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 2
        assert column(conn, "select co_name from pgq.consumer") == []


class TestOpening:
    def test_there_is_no_batch_without_a_new_tick(self, queue: Database) -> None:
        conn = queue.connect()
        assert value(conn, "select pgq.next_batch('q', 'c')") is None
        cursor = conn.execute("select * from pgq.next_batch_info('q', 'c')")
        assert [c.name for c in cursor.description or ()] == INFO_COLUMNS
        assert cursor.fetchone() == (None,) * 7

    def test_looking_in_vain_writes_nothing(self, queue: Database) -> None:
        conn = queue.connect(autocommit=False)
        conn.execute("select pgq.next_batch('q', 'c')")
        assert value(conn, "select txid_current_if_assigned()") is None

    def test_a_batch_reaches_to_the_next_tick(self, queue: Database) -> None:
        conn = queue.connect()
        insert(conn, "1")
        first = tick(conn)
        insert(conn, "2")
        tick(conn)
        cursor = conn.execute(
            "select b.*, p.tick_time, t.tick_time, p.tick_event_seq, t.tick_event_seq"
            " from pgq.next_batch_info('q', 'c') b, pgq.tick p, pgq.tick t"
            " where p.tick_id = b.prev_tick_id and t.tick_id = b.cur_tick_id"
        )
        row = cursor.fetchone()
        assert row is not None
        assert row[1:3] == (first, 1)
        assert row[3:7] == (row[8], row[7], row[10], row[9])
        assert data_of(conn, row[0]) == ["1"]

    def test_an_open_batch_comes_again_unchanged(self, queue: Database) -> None:
        conn = queue.connect()
        insert(conn, "1")
        tick(conn)
        look = "select *, (select sub_active from pgq.subscription) from {}"
        first = conn.execute(look.format("pgq.next_batch_info('q', 'c')")).fetchone()
        tick(conn)
        again = conn.execute(look.format("pgq.next_batch_info('q', 'c')")).fetchone()
        huge = "pgq.next_batch_custom('q', 'c', '1 year', 1000000, '1 year')"
        custom = conn.execute(look.format(huge)).fetchone()
        assert first is not None and first[:7] == (again or ())[:7] == (custom or ())[:7]
        active = value(conn, "select sub_active from pgq.subscription")
        assert (again or ())[7] == (custom or ())[7] == active
        assert value(conn, "select pgq.next_batch('q', 'c')") == first[0]

    def test_two_sessions_open_one_batch(self, queue: Database) -> None:
        first, second = queue.connect(autocommit=False), queue.connect(autocommit=False)
        tick(queue.connect())
        batch = open_batch(first)
        answers: list[int] = []
        thread = Thread(target=lambda: answers.append(open_batch(second)))
        thread.start()
        thread.join(0.05)
        assert not answers, "the second waits for the first"
        first.commit()
        thread.join(60)
        assert answers == [batch]

    def test_an_empty_batch_is_a_batch(self, queue: Database) -> None:
        conn = queue.connect()
        tick(conn)
        assert consume(conn) == []

    def test_batch_ids_are_shared_by_all_queues(self, queue: Database) -> None:
        conn = queue.connect()
        queue_with_consumer(conn, "p")
        tick(conn)
        tick(conn, "p")
        assert open_batch(conn, "p") + 1 == open_batch(conn)

    @pytest.mark.parametrize(("name", "consumer"), [("q", "d"), ("nope", "c"), ("nope", "d")])
    def test_a_stranger_is_refused(self, queue: Database, name: str, consumer: str) -> None:
        conn = queue.connect()
        for call in ("next_batch(%s, %s)", "next_batch_info(%s, %s)"):
            with refused("LD002", f"Not subscriber to queue: {name}/{consumer}"):
                conn.execute(f"select pgq.{call}", [name, consumer])
        with refused("LD002", f"Not subscriber to queue: {name}/{consumer}"):
            conn.execute("select pgq.next_batch_custom(%s, %s, null, null, null)", [name, consumer])

    def test_a_position_without_a_tick_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        tick(conn)
        conn.execute("delete from pgq.tick where tick_id = 1")
        with refused("LD107", "PgQ corruption: consumer c on queue q does not see tick 1"):
            conn.execute("select pgq.next_batch('q', 'c')")


class TestCustom:
    CUSTOM = "select cur_tick_id from pgq.next_batch_custom('q', 'c', %s, %s, %s)"

    def ticks(self, queue: Database, *counts: int) -> None:
        """Ticks 2, 3, … with so many events before each, a minute apart, up to now."""
        conn = queue.connect()
        conn.execute(
            "update pgq.tick set tick_time = now() - make_interval(mins => %s)", [len(counts)]
        )
        total = 0
        for nr, count in enumerate(counts, start=2):
            total += count
            conn.execute(
                "insert into pgq.tick (tick_queue, tick_id, tick_time, tick_event_seq)"
                " select queue_id, %s, now() - make_interval(mins => %s), %s from pgq.queue",
                [nr, len(counts) + 1 - nr, total],
            )

    def test_nulls_mean_the_next_tick(self, queue: Database) -> None:
        self.ticks(queue, 10, 10, 10)
        assert queue.value(self.CUSTOM, None, None, None) == 2

    def test_a_count_puts_ticks_together(self, queue: Database) -> None:
        self.ticks(queue, 10, 10, 10)
        assert queue.value(self.CUSTOM, None, 20, None) == 4, "the newest: 30 is not over 40"

    def test_a_count_far_exceeded_takes_the_first_tick_that_is_enough(
        self, queue: Database
    ) -> None:
        self.ticks(queue, 10, 10, 10, 10, 10)
        assert queue.value(self.CUSTOM, None, 20, None) == 3

    def test_a_count_not_reached_waits(self, queue: Database) -> None:
        self.ticks(queue, 10, 10)
        assert queue.value(self.CUSTOM, None, 21, None) is None
        assert queue.value(self.CUSTOM, None, 20, None) == 3

    def test_an_interval_puts_ticks_together(self, queue: Database) -> None:
        self.ticks(queue, 0, 0, 0)
        assert queue.value(self.CUSTOM, None, None, "2 minutes") == 4

    def test_an_interval_far_exceeded_takes_the_first_tick_that_is_enough(
        self, queue: Database
    ) -> None:
        self.ticks(queue, 0, 0, 0, 0, 0)
        assert queue.value(self.CUSTOM, None, None, "2 minutes") == 3

    def test_an_interval_not_reached_waits(self, queue: Database) -> None:
        self.ticks(queue, 0, 0)
        assert queue.value(self.CUSTOM, None, None, "3 minutes") is None

    def test_either_of_count_and_interval_will_do(self, queue: Database) -> None:
        self.ticks(queue, 10, 10)
        assert queue.value(self.CUSTOM, None, 10000, "61 seconds") == 3
        queue.execute("select pgq.register_consumer_at('q', 'c', 1)")
        assert queue.value(self.CUSTOM, None, 15, "1 year") == 3

    def test_a_lag_keeps_away_from_now(self, queue: Database) -> None:
        self.ticks(queue, 10, 10)
        assert queue.value(self.CUSTOM, "90 seconds", None, None) is None
        assert queue.value(self.CUSTOM, "50 seconds", None, None) == 2

    def test_a_lag_counts_from_the_chosen_tick(self, queue: Database) -> None:
        self.ticks(queue, 10, 10, 10)
        assert queue.value(self.CUSTOM, "90 seconds", 20, None) is None, "tick 4 is too young"

    def test_the_helper_answers_by_itself(self, queue: Database) -> None:
        self.ticks(queue, 10, 10)
        row = queue.execute(
            "select h.* from pgq.tick t, pgq.find_tick_helper("
            " tick_queue, tick_id, tick_time, tick_event_seq, 20, null) h where tick_id = 1"
        )
        newest = queue.execute(
            "select tick_id, tick_time, tick_event_seq from pgq.tick where tick_id = 3"
        )
        assert row == newest


def test_ticks_that_piled_up_become_one_batch_of_a_size(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_count', '1')")
    for size in (2, 3, 4, 50, 0, 0):
        for number in range(size):
            insert(conn, f"{size} {number}")
        conn.execute("select pgq.set_queue_config('q', 'ticker_max_lag', '0')")
        queues.ticker(conn, "q")
    at = value(conn, "select last_tick from pgq.get_consumer_info('q', 'c')")

    sizes = []
    while True:
        opened = batches.finish_and_next(conn, "q", "c", from_tick=at, max_count=9, durable=False)
        if opened is None:
            break
        assert opened.batch.prev_tick_id == at
        sizes.append(sum(map(len, batches.stream(conn, opened.batch))))
        at = opened.batch.tick_id
        batches.finish_batch(conn, opened.batch.id)
    assert sizes[:2] == [9, 50]
    assert not any(sizes[2:])


def test_ticks_that_piled_up_are_joined_up_to_a_tick_and_not_across_it(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_count', '1')")
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_lag', '0')")
    start = at = value(conn, "select last_tick from pgq.get_consumer_info('q', 'c')")
    ticks = []
    for number in range(9):
        insert(conn, str(number))
        ticks.append(queues.ticker(conn, "q"))
    limit, ends = ticks[5], []
    while at != ticks[-1]:
        ahead = batches.coming(conn, "q", "c", at, max_count=100, max_tick=limit)
        opened = batches.finish_and_next(
            conn, "q", "c", from_tick=at, max_count=100, max_tick=limit
        )
        assert opened is not None and ahead is not None
        assert ahead.is_now(opened.batch)
        at = opened.batch.tick_id
        ends.append(at)
        batches.finish_batch(conn, opened.batch.id)
        assert start < at
    assert ends == ticks[5:], "joined up to the limit, one by one behind it"


def test_a_batch_says_whether_a_tick_follows_it(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    for _ in range(2):
        conn.execute("select pgq.force_tick('q')")
        queues.ticker(conn, "q")
    first = batches.finish_and_next(conn, "q", "c")
    assert first is not None and first.followed
    second = batches.finish_and_next(conn, "q", "c", first.batch.id)
    assert second is not None and not second.followed


def test_many_small_ticks_that_piled_up_become_one_batch(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_count', '1')")
    conn.execute("select pgq.set_queue_config('q', 'ticker_max_lag', '0')")
    at = value(conn, "select last_tick from pgq.get_consumer_info('q', 'c')")
    for number in range(250):
        insert(conn, str(number))
        queues.ticker(conn, "q")
    opened = batches.finish_and_next(conn, "q", "c", from_tick=at, max_count=40_000)
    assert opened is not None
    assert sum(map(len, batches.stream(conn, opened.batch))) == 250
