"""Workers of a consumer come and go; their main consumer stays."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Database
from tests.support.coop_steps import batches, must_take, subscription, workers
from tests.support.queue_steps import column, consume, queue_with_consumer, refused, tick, value

REGISTER = "select pgq_coop.register_subconsumer(%s, %s, %s)"
UNREGISTER = "select pgq_coop.unregister_subconsumer(%s, %s, %s, %s)"
NAMES = "select co_name from pgq.consumer order by 1"


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


class TestRegistering:
    def test_a_worker_registers_once_and_shares_the_number_of_its_main_consumer(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        assert value(conn, REGISTER, "q", "c", "1") == 1
        assert value(conn, REGISTER, "q", "c", "1") == 0
        assert value(conn, REGISTER, "q", "c", "2") == 1
        assert column(conn, NAMES) == ["c", "c.1", "c.2"]
        assert column(conn, "select distinct sub_id from pgq.subscription") == [1]

    def test_a_session_with_the_replica_role_registers(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("set session_replication_role = replica")
        assert value(conn, REGISTER, "q", "c", "1") == 1
        assert column(conn, NAMES) == ["c", "c.1"]
        conn.execute("set statement_timeout = '10s'")
        assert value(conn, "select pgq_coop.next_batch('q', 'c', '1')") is None

    def test_an_idle_worker_has_no_position(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "1")
        assert subscription(conn, "c.1") == (None, None, None)
        info = "select lag, last_tick, current_batch, next_tick, pending_events, last_seen is null"
        row = conn.execute(info + " from pgq.get_consumer_info('q', 'c.1')").fetchone()
        assert row == (None, None, None, None, None, False)

    def test_the_main_consumer_is_registered_at_the_end_of_the_queue(
        self, pgq_db: Database
    ) -> None:
        conn = pgq_db.connect()
        conn.execute("select pgq.create_queue('q')")
        newest = tick(conn)
        assert value(conn, REGISTER, "q", "new", "1") == 1
        assert subscription(conn, "new") == (newest, None, None)

    def test_a_position_that_is_there_stays(self, queue: Database) -> None:
        conn = queue.connect()
        before = subscription(conn, "c")
        tick(conn)
        workers(conn, "1")
        assert subscription(conn, "c") == before

    def test_the_same_worker_may_work_for_two_consumers_and_queues(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.create_queue('p')")
        for name, consumer in (("q", "c"), ("q", "d"), ("p", "c")):
            assert value(conn, REGISTER, name, consumer, "1") == 1
        assert value(conn, "select count(distinct sub_id) from pgq.subscription") == 3

    def test_a_worker_of_a_worker_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "1")
        with refused("LD002", "main consumer not found"):
            conn.execute(REGISTER, ["q", "c.1", "x"])
        batches(conn, "a")
        must_take(conn, "1")
        with refused("LD002", "main consumer not found"):
            conn.execute(REGISTER, ["q", "c.1", "x"])
        assert column(conn, NAMES) == ["c", "c.1"]

    def test_a_dot_in_the_name_of_a_main_consumer_does_not_make_it_a_worker(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        conn.execute("select pgq.register_consumer('q', 'c.own')")
        assert value(conn, REGISTER, "q", "c.own", "1") == 1
        assert value(conn, "select pgq_coop.next_batch('q', 'c.own', '1')") is None

    def test_the_name_of_an_ordinary_consumer_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.register_consumer('q', 'c.1')")
        with refused("LD100", "consumer c.1 is registered for itself"):
            conn.execute(REGISTER, ["q", "c", "1"])

    def test_an_unknown_queue_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        for name in ("nope", None):
            with refused("LD001", "Event queue not created yet"):
                conn.execute(REGISTER, [name, "c", "1"])

    def test_a_name_is_needed(self, queue: Database) -> None:
        conn = queue.connect()
        with refused("LD005", "Invalid NULL value"):
            conn.execute(REGISTER, ["q", None, "1"])
        with refused("LD005", "Invalid NULL value"):
            conn.execute(REGISTER, ["q", "new", None])
        assert column(conn, NAMES) == ["c"]

    def test_a_queue_without_ticks_is_refused(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.unregister_consumer('q', 'c')")
        conn.execute("delete from pgq.tick")
        with refused("LD105", "No ticks for this queue.  Please run ticker on database."):
            conn.execute(REGISTER, ["q", "c", "1"])


class TestUnregistering:
    def test_an_idle_worker_goes_alone_with_its_name(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "1", "2")
        assert value(conn, UNREGISTER, "q", "c", "1", 0) == 1
        assert column(conn, NAMES) == ["c", "c.2"]
        assert value(conn, UNREGISTER, "q", "c", "1", 0) == 0

    def test_a_name_that_another_queue_has_stays(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.create_queue('p'), pgq.register_consumer('p', 'c.1')")
        workers(conn, "1")
        assert value(conn, UNREGISTER, "q", "c", "1", 0) == 1
        assert column(conn, NAMES) == ["c", "c.1"]

    def test_who_is_unknown_or_null_is_0(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "1")
        conn.execute("select pgq.register_consumer('q', 'c.own')")
        for arguments in (
            ("nope", "c", "1"),
            ("q", "nope", "1"),
            ("q", "c", "nope"),
            ("q", "c", "own"),
            (None, "c", "1"),
            ("q", None, "1"),
            ("q", "c", None),
        ):
            assert value(conn, UNREGISTER, *arguments, 0) == 0

    def test_an_open_batch_is_refused_unless_it_is_given_up(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "lost", "kept")
        must_take(conn, "1")
        for handling in (0, None, 2):
            with refused("LD108", "subconsumer has active batch"):
                conn.execute(UNREGISTER, ["q", "c", "1", handling])
        assert value(conn, UNREGISTER, "q", "c", "1", 1) == 1
        assert column(conn, NAMES) == ["c"]
        assert consume(conn) == ["kept"], "the events of the batch do not come again"

    def test_the_main_consumer_goes_with_all_workers(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "1", "2")
        batches(conn, "a")
        must_take(conn, "1")
        assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 3
        assert column(conn, NAMES) == []

    def test_the_main_consumer_goes_with_all_workers_also_while_it_has_a_batch_open(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        workers(conn, "1")
        batches(conn, "a")
        conn.execute("select pgq.next_batch('q', 'c')")
        assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 2
        assert column(conn, NAMES) == []

    def test_pgq_unregisters_one_worker_alone(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "1", "2")
        batches(conn, "a")
        must_take(conn, "1")
        for name in ("c.1", "c.2"):
            assert value(conn, "select pgq.unregister_consumer('q', %s)", name) == 1
        assert column(conn, NAMES) == ["c"]

    def test_a_queue_is_dropped_with_its_workers(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "1")
        batches(conn, "a")
        must_take(conn, "1")
        with refused("LD104", "cannot drop queue, consumers still attached"):
            conn.execute("select pgq.drop_queue('q')")
        conn.execute("select pgq.drop_queue('q', true)")
        assert column(conn, NAMES) == []

    def test_a_main_consumer_with_a_batch_of_its_own_goes_with_all_workers(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        workers(conn, "1")
        batches(conn, "a")
        batch = value(conn, "select pgq.next_batch('q', 'c')")
        event = value(conn, "select ev_id from pgq.get_batch_events(%s)", batch)
        conn.execute("select pgq.event_retry(%s, %s, 60)", [batch, event])
        assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 2
        assert value(conn, "select count(*) from pgq.retry_queue") == 0

    def test_a_worker_whose_batch_an_ordinary_consumer_would_have_finished_goes_alone(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        workers(conn, "1", "2")
        batches(conn, "a", "b")
        assert value(conn, "select pgq.finish_batch(%s)", must_take(conn, "1")) == 1
        assert subscription(conn, "c.1") == (None, None, None), "idle, as pgq_coop leaves it"
        assert value(conn, "select pgq.unregister_consumer('q', 'c.1')") == 1
        assert column(conn, NAMES) == ["c", "c.2"]
        assert consume(conn) == ["b"]

    def test_a_worker_cannot_be_moved_like_an_ordinary_consumer(self, queue: Database) -> None:
        conn = queue.connect()
        workers(conn, "1")
        newest = tick(conn)
        with refused("LD100", "cannot reposition, c.1 is a cooperative worker"):
            conn.execute("select pgq.register_consumer_at('q', 'c.1', %s)", [newest])
        assert value(conn, "select pgq.register_consumer('q', 'c.1')") == 0
        assert subscription(conn, "c.1") == (None, None, None)
