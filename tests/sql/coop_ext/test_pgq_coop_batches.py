"""Workers share one position: each batch goes to one of them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from londiste.pgq import batches as pgq_batches
from londiste.pgq import coop
from londiste.pgq.types import Batch
from tests.fixtures.cluster import Database
from tests.support.coop_steps import (
    Warnings,
    batches,
    finish,
    must_take,
    silent_since,
    subscription,
    take,
    workers,
)
from tests.support.queue_steps import (
    column,
    data_of,
    insert,
    queue_with_consumer,
    refused,
    rotate,
    tick,
    value,
)


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


class TestNextBatch:
    def test_each_worker_gets_a_batch_of_its_own_in_order(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a", "b", "c")
        taken = [must_take(conn, worker) for worker in ("1", "2", "3")]
        assert [data_of(conn, batch) for batch in taken] == [["a"], ["b"], ["c"]]
        assert take(conn, "4") is None

    def test_it_registers_main_consumer_and_worker(self, pgq_db: Database) -> None:
        conn = pgq_db.connect()
        conn.execute("select pgq.create_queue('q')")
        assert take(conn, "1") is None
        batches(conn, "a")
        assert data_of(conn, must_take(conn, "2")) == ["a"]
        names = "select co_name from pgq.consumer order by 1"
        assert column(conn, names) == ["c", "c.1", "c.2"]

    def test_the_position_goes_on_and_the_batch_is_the_workers(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a")
        batch = must_take(conn, "1")
        assert subscription(conn, "c") == (2, None, None)
        assert subscription(conn, "c.1") == (1, batch, 2)

    def test_an_open_batch_is_answered_again_and_is_a_sign_of_life(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a", "b")
        batch = must_take(conn, "1")
        silent_since(conn, "1", "1 hour")
        assert must_take(conn, "1") == batch
        assert data_of(conn, must_take(conn, "2", "1 minute")) == ["b"]

    def test_it_may_be_empty(self, queue: Database) -> None:
        conn = queue.connect()
        tick(conn)
        batch = must_take(conn, "1")
        assert data_of(conn, batch) == []
        assert finish(conn, batch) == 1

    def test_a_worker_without_work_writes_only_now_and_then(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "1")
        seen = "select sub_active from pgq.subscription where sub_last_tick is null"
        before = value(conn, seen)
        assert take(conn, "1") is None
        assert value(conn, seen) == before
        silent_since(conn, "1", "1 minute")
        assert take(conn, "1") is None
        assert value(conn, seen) > before

    def test_a_batch_that_the_main_consumer_has_open_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a", "b")
        main = value(conn, "select pgq.next_batch('q', 'c')")
        with refused("LD108", "main consumer has batch open?"):
            take(conn, "1")
        conn.execute("select pgq.finish_batch(%s)", [main])
        assert data_of(conn, must_take(conn, "1")) == ["b"]

    def test_unknown_and_null_names_are_refused(self, queue: Database) -> None:
        conn = queue.connect()
        for name in ("nope", None):
            with refused("LD001", "Event queue not created yet"):
                conn.execute("select pgq_coop.next_batch(%s, 'c', '1')", [name])
        with refused("LD005", "Invalid NULL value"):
            conn.execute("select pgq_coop.next_batch('q', null, '1')")
        with refused("LD005", "Invalid NULL value"):
            conn.execute("select pgq_coop.next_batch('q', 'c', null)")
        workers(conn, "1")
        with refused("LD002", "main consumer not found"):
            conn.execute("select pgq_coop.next_batch('q', 'c.1', 'x')")

    def test_a_lost_position_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        tick(conn)
        conn.execute("update pgq.subscription set sub_last_tick = 99")
        text = "PgQ corruption: consumer c on queue q does not see tick 99"
        with refused("LD107", text):
            take(conn, "1")

    def test_the_number_and_the_age_of_events_make_a_batch(self, queue: Database) -> None:
        conn = queue.connect()
        ask = "select pgq_coop.next_batch_custom('q', 'c', '1', %s, %s, %s)"
        batches(conn, "a", "b")
        assert value(conn, ask, None, 5000, None) is None
        assert value(conn, ask, None, None, "1 hour") is None
        assert value(conn, ask, "1 hour", None, None) is None
        batches(conn, "c")
        # The tests tick with force_tick, which leaves out 2000 ids.
        batch = value(conn, ask, None, 5000, None)
        assert data_of(conn, batch) == ["a", "b", "c"]

    def test_all_arguments_null_is_the_plain_next_batch(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a")
        ask = "select pgq_coop.next_batch_custom('q', 'c', '1', null, null, null, null)"
        assert data_of(conn, value(conn, ask)) == ["a"]


class TestFinishing:
    def test_batches_are_finished_in_any_order(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a", "b", "c")
        first, second, third = (must_take(conn, worker) for worker in "123")
        assert [finish(conn, batch) for batch in (third, first, second)] == [1, 1, 1]
        assert {subscription(conn, f"c.{worker}") for worker in "123"} == {(None, None, None)}
        assert subscription(conn, "c") == (4, None, None)

    def test_a_batch_that_is_not_open_is_a_warning_and_0(self, queue: Database) -> None:
        conn = queue.connect()
        warned = Warnings(conn)
        batches(conn, "a")
        batch = must_take(conn, "1")
        assert [finish(conn, batch), finish(conn, batch)] == [1, 0]
        assert value(conn, "select pgq_coop.finish_batch(null)") == 0
        texts = [f"coop_finish_batch: batch {batch} not found"]
        assert warned == [*texts, "coop_finish_batch: batch <NULL> not found"]

    def test_a_batch_of_an_ordinary_consumer_is_not_touched(self, queue: Database) -> None:
        conn = queue.connect()
        warned = Warnings(conn)
        batches(conn, "a")
        batch = value(conn, "select pgq.next_batch('q', 'c')")
        assert finish(conn, batch) == 0
        assert warned == [f"coop_finish_batch: batch {batch} not found"]
        assert subscription(conn, "c") == (1, batch, 2)

    def test_a_worker_whose_batch_pgq_finishes_gets_no_position(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a")
        conn.execute("select pgq.finish_batch(%s)", [must_take(conn, "1")])
        assert subscription(conn, "c.1") == (None, None, None)

    def test_a_worker_that_was_given_a_position_gives_it_up(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a")
        assert finish(conn, must_take(conn, "1")) == 1
        conn.execute(
            "update pgq.subscription s set sub_last_tick = 2 from pgq.consumer c"
            " where c.co_id = s.sub_consumer and c.co_name = 'c.1'"
        )
        assert subscription(conn, "c.1") == (2, None, None)
        assert take(conn, "1") is None
        assert subscription(conn, "c.1") == (None, None, None)

    def test_retried_events_come_to_any_worker(self, queue: Database) -> None:
        conn = queue.connect()
        event = insert(conn, "again")
        tick(conn)
        batch = must_take(conn, "1")
        assert value(conn, "select pgq.event_retry(%s, %s, 0)", batch, event) == 1
        finish(conn, batch)
        assert value(conn, "select pgq.maint_retry_events()") == 1
        tick(conn)
        assert data_of(conn, must_take(conn, "2")) == ["again"]


class TestRotation:
    def test_events_stay_until_the_last_worker_has_finished_with_them(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        batches(conn, "a")
        slow = must_take(conn, "slow")
        for number in range(8):
            batches(conn, f"later {number}")
            finish(conn, must_take(conn, "quick"))
            rotate(conn)
        assert not rotate(conn)
        assert data_of(conn, slow) == ["a"]
        finish(conn, slow)
        switches = 0
        for _ in range(4):
            tick(conn)
            finish(conn, must_take(conn, "quick"))
            switches += rotate(conn)
        assert switches >= 3
        assert value(conn, "select count(*) from pgq.event_template where ev_data = 'a'") == 0

    def test_ticks_of_an_open_batch_stay(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a")
        slow = must_take(conn, "slow")
        for _ in range(8):
            tick(conn)
            finish(conn, must_take(conn, "quick"))
            rotate(conn)
        info = pgq_batches.get_batch_info(conn, slow)
        assert info is not None
        assert (info.prev_tick_id, info.tick_id) == (1, 2)


class TestTakeover:
    def test_the_batch_of_a_dead_worker_goes_to_another(self, queue: Database) -> None:
        conn = queue.connect()
        warned = Warnings(conn)
        batches(conn, "a", "b")
        old = must_take(conn, "dead")
        silent_since(conn, "dead", "2 minutes")
        new = must_take(conn, "alive", "1 minute")
        assert data_of(conn, new) == ["a"]
        assert subscription(conn, "c.alive") == (1, new, 2)
        assert subscription(conn, "c.dead") is None
        assert finish(conn, old) == 0, "the dead one lives after all"
        assert warned == [f"coop_finish_batch: batch {old} not found"]
        assert finish(conn, new) == 1
        assert data_of(conn, must_take(conn, "dead")) == ["b"]

    def test_nobody_is_dead_without_an_interval_or_before_its_end(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a")
        must_take(conn, "slow")
        silent_since(conn, "slow", "2 minutes")
        assert take(conn, "other") is None
        assert take(conn, "other", "3 minutes") is None
        assert subscription(conn, "c.slow") is not None

    def test_a_dead_worker_without_a_batch_is_removed_and_new_work_taken(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        workers(conn, "dead")
        batches(conn, "a")
        silent_since(conn, "dead", "2 minutes")
        assert data_of(conn, must_take(conn, "alive", "1 minute")) == ["a"]
        assert column(conn, "select co_name from pgq.consumer order by 1") == ["c", "c.alive"]

    def test_a_paused_worker_that_is_taken_for_dead_stays_paused(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "resting")
        conn.execute("select pgq.pause_consumer('q', 'c.resting')")
        silent_since(conn, "resting", "2 minutes")
        assert take(conn, "alive", "1 minute") is None
        assert subscription(conn, "c.resting") is None
        paused = "select consumer_name from pgq.get_paused_consumers('q', null)"
        assert column(conn, paused) == ["c.resting"]
        workers(conn, "resting")
        assert value(conn, "select pgq_coop.unregister_subconsumer('q', 'c', 'resting', 0)") == 1
        assert column(conn, paused) == []
        assert column(conn, "select co_name from pgq.consumer order by 1") == ["c", "c.alive"]

    def test_one_batch_at_a_time_those_with_work_first(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a", "b")
        workers(conn, "idle")
        must_take(conn, "1")
        must_take(conn, "2")
        for worker, silence in (("idle", "4 hours"), ("1", "2 hours"), ("2", "3 hours")):
            silent_since(conn, worker, silence)
        batch = must_take(conn, "alive", "1 hour")
        assert data_of(conn, batch) == ["b"], "the longest silent one"
        assert must_take(conn, "alive", "1 hour") == batch, "one at a time"
        finish(conn, batch)
        assert data_of(conn, must_take(conn, "alive", "1 hour")) == ["a"]

    def test_own_silence_does_not_matter(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a")
        batch = must_take(conn, "1")
        silent_since(conn, "1", "1 year")
        assert must_take(conn, "1", "1 second") == batch

    def test_workers_of_other_consumers_are_left_alone(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a")
        assert value(conn, "select pgq_coop.next_batch('q', 'c', 'dead')")
        silent_since(conn, "dead", "1 hour")
        assert value(conn, "select pgq_coop.next_batch('q', 'd', '1', '1 minute')") is None
        assert subscription(conn, "c.dead") is not None

    def test_the_dead_workers_events_can_be_retried_by_the_new_one_only(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        event = insert(conn, "a")
        tick(conn)
        old = must_take(conn, "dead")
        silent_since(conn, "dead", "2 minutes")
        new = must_take(conn, "alive", "1 minute")
        retry = "select pgq.event_retry(%s, %s, 0)"
        with refused("LD106", "batch not found"):
            conn.execute(retry, [old, event])
        assert value(conn, retry, new, event) == 1


class TestPython:
    def test_every_function_has_its_wrapper(self, queue: Database) -> None:
        conn = queue.connect()
        assert coop.register_subconsumer(conn, "q", "c", "1") == 1
        assert coop.next_batch(conn, "q", "c", "1") is None
        batches(conn, "a", "b")
        batch = coop.next_batch(conn, "q", "c", "1")
        assert isinstance(batch, Batch)
        assert (batch.queue, batch.consumer) == ("q", "c.1")
        assert (batch.prev_tick_id, batch.tick_id) == (1, 2)
        read = [event.data for chunk in pgq_batches.events(conn, batch) for event in chunk]
        assert read == ["a"]
        silent_since(conn, "1", "1 hour")
        minute = timedelta(minutes=1)
        taken = coop.next_batch(conn, "q", "c", "2", dead_interval=minute)
        assert taken is not None
        assert (taken.prev_tick_id, taken.tick_id) == (1, 2)
        assert coop.finish_batch(conn, batch.id) == 0
        assert coop.finish_batch(conn, taken.id) == 1
        assert coop.next_batch(conn, "q", "c", "1", min_lag=timedelta(hours=1)) is None
        assert coop.next_batch(conn, "q", "c", "1", min_count=1, dead_interval=minute)
        assert coop.unregister_subconsumer(conn, "q", "c", "1", drop_batch=True) == 1
        assert value(conn, "select pgq_coop.version()") == "4.1.0"
