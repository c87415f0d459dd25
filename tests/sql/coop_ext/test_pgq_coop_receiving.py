"""Cooperative workers receive and settle single events, also if workers die."""

from __future__ import annotations

from datetime import timedelta

import pytest

from londiste.db.connection import Connection
from londiste.pgq import coop
from londiste.pgq.types import Event
from tests.fixtures.cluster import Database
from tests.support import coop_steps
from tests.support.coop_steps import (
    ReceivedEvent,
    Warnings,
    batches,
    finish,
    must_take,
    silent_since,
    subscription,
    take,
)
from tests.support.queue_steps import (
    column,
    insert,
    queue_with_consumer,
    refused,
    rotate,
    tick,
    value,
)

MINUTE = timedelta(minutes=1)


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def one_batch(conn: Connection, *datas: str) -> None:
    """One batch of so many events."""
    for data in datas:
        insert(conn, data)
    tick(conn)


def receive(
    conn: Connection,
    worker: str = "1",
    most: int = 10,
    *,
    dead: timedelta | None = None,
    receiver: str | None = None,
) -> list[ReceivedEvent]:
    return coop_steps.receive(conn, "q", "c", worker, most, dead_interval=dead, receiver=receiver)


def datas(events: list[ReceivedEvent]) -> list[str | None]:
    return [event.data for event in events]


def kept(conn: Connection) -> tuple[int, int]:
    """Rows that are kept about batches and their events."""
    found = conn.execute(
        "select (select count(*) from pgq_coop.delivery),"
        " (select count(*) from pgq_coop.delivery_event)"
    ).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])


class TestHandingOut:
    def test_events_are_received_once_in_order(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a", "b", "c", "d", "e")
        assert [datas(receive(conn, most=2)) for _ in range(4)] == [
            ["a", "b"],
            ["c", "d"],
            ["e"],
            [],
        ]

    def test_nothing_new_is_nothing_and_the_worker_is_registered(self, queue: Database) -> None:
        conn = queue.connect()
        assert receive(conn) == []
        assert subscription(conn, "c.1") == (None, None, None)

    def test_all_fields_of_an_event_arrive(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.insert_event('q', 't', 'd', 'e1', 'e2', 'e3', 'e4')")
        tick(conn)
        stored = conn.execute(
            "select ev_id, ev_time, ev_txid, ev_retry, ev_type, ev_data, ev_extra1, ev_extra2,"
            " ev_extra3, ev_extra4 from pgq.event_template"
        ).fetchone()
        assert stored is not None
        (event,) = receive(conn)
        assert event.event == Event(*stored)
        assert event.batch_id == value(conn, "select max(sub_batch) from pgq.subscription")

    def test_next_batch_opens_after_all_events_are_settled(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a", "b")
        one_batch(conn, "c")
        first, second = receive(conn)
        assert receive(conn) == []
        assert coop_steps.ack(conn, second.batch_id, second.id) == 1
        assert receive(conn) == []
        assert coop_steps.ack(conn, first.batch_id, first.id) == 1
        assert subscription(conn, "c.1") == (None, None, None), "finished with its last event"
        (third,) = receive(conn)
        assert third.data == "c"
        assert third.batch_id != first.batch_id

    def test_empty_batches_are_finished_automatically(self, queue: Database) -> None:
        conn = queue.connect()
        for _ in range(5):
            tick(conn)
        one_batch(conn, "a")
        assert datas(receive(conn)) == ["a"]
        tick(conn)
        assert receive(conn, "2") == []
        assert subscription(conn, "c.2") == (None, None, None)

    def test_workers_get_batches_of_their_own(self, queue: Database) -> None:
        conn = queue.connect()
        batches(conn, "a", "b")
        assert datas(receive(conn, "1")) == ["a"]
        assert datas(receive(conn, "2")) == ["b"]
        assert receive(conn, "3") == []

    def test_open_batch_can_be_received_event_by_event(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a", "b")
        batch = must_take(conn, "1")
        assert [event.batch_id for event in receive(conn, most=1)] == [batch]
        assert take(conn, "1") == batch
        assert finish(conn, batch) == 1
        assert kept(conn) == (0, 0), "all of it is finished, then"

    def test_an_ordinary_consumer_of_that_name_keeps_its_batch(self, queue: Database) -> None:
        conn = queue.connect()
        conn.execute("select pgq.register_consumer('q', 'c.own')")
        batches(conn, "a")
        conn.execute("select pgq.next_batch('q', 'c.own')")
        with refused("LD100", "consumer c.own is registered for itself"):
            conn.execute("select * from pgq_coop.receive('q', 'c', 'own', 1)")

    @pytest.mark.parametrize(
        ("most", "message"),
        [(None, "Invalid NULL value"), (0, "bad number of events: 0")],
    )
    def test_number_of_events_is_required(
        self, queue: Database, most: int | None, message: str
    ) -> None:
        conn = queue.connect()
        with refused("LD005", message):
            conn.execute("select * from pgq_coop.receive('q', 'c', '1', %s)", [most])

    def test_names_are_needed(self, queue: Database) -> None:
        conn = queue.connect()
        ask = "select * from pgq_coop.receive(%s, %s, %s, 1)"
        with refused("LD001", "Event queue not created yet"):
            conn.execute(ask, [None, "c", "1"])
        for names in (["q", None, "1"], ["q", "c", None]):
            with refused("LD005", "Invalid NULL value"):
                conn.execute(ask, names)


class TestHandingOutAgain:
    def test_new_session_of_a_worker_gets_its_unsettled_events(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a", "b", "c")
        first, *_ = receive(conn, most=2)
        coop_steps.ack(conn, first.batch_id, first.id)
        reborn = queue.connect()
        assert datas(receive(reborn, most=1)) == ["b"]
        assert datas(receive(reborn)) == ["c"]

    def test_a_session_that_was_reset_for_another_client_is_a_new_one(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        one_batch(conn, "a")
        assert datas(receive(conn)) == ["a"]
        conn.execute("discard all")
        assert datas(receive(conn)) == ["a"]

    def test_named_receiver_keeps_its_events_in_any_session(self, queue: Database) -> None:
        conn, other = queue.connect(), queue.connect()
        one_batch(conn, "a", "b")
        assert datas(receive(conn, most=1, receiver="life 1")) == ["a"]
        assert datas(receive(other, most=1, receiver="life 1")) == ["b"]
        assert receive(conn, receiver="life 1") == []
        assert datas(receive(conn, receiver="life 2")) == ["a", "b"]

    def test_receive_again_delivers_unsettled_events(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a", "b")
        first, second = receive(conn)
        coop_steps.ack(conn, first.batch_id, first.id)
        assert coop_steps.receive_again(conn, first.batch_id) == 1
        assert receive(conn) == [second]

    def test_rolled_back_receive_is_repeated(self, queue: Database) -> None:
        conn = queue.connect(autocommit=False)
        one_batch(queue.connect(), "a", "b")
        assert datas(receive(conn)) == ["a", "b"]
        conn.rollback()
        assert datas(receive(conn)) == ["a", "b"]
        conn.commit()
        assert receive(conn) == []

    def test_a_batch_that_is_not_open_is_a_warning_and_0(self, queue: Database) -> None:
        conn = queue.connect()
        warned = Warnings(conn)
        assert coop_steps.receive_again(conn, 99) == 0
        assert warned == ["receive_again: batch 99 not found"]


class TestSettling:
    def test_settling_an_unknown_event_warns_and_returns_0(self, queue: Database) -> None:
        conn = queue.connect()
        warned = Warnings(conn)
        one_batch(conn, "a", "b")
        batch, event = receive(conn)[0][:2]
        assert [coop_steps.ack(conn, batch, event) for _ in range(2)] == [1, 0]
        assert coop_steps.ack(conn, batch, 999) == 0
        assert value(conn, "select pgq_coop.ack(%s, null)", batch) == 0
        assert coop_steps.nack(conn, batch, event, 0) is None
        assert warned == [
            f"ack: batch {batch} waits for no event {event}",
            f"ack: batch {batch} waits for no event 999",
            f"ack: batch {batch} waits for no event NULL",
            f"nack: batch {batch} waits for no event {event}",
        ]
        assert subscription(conn, "c.1") == (1, batch, 2), "b is still to be done"

    def test_a_batch_that_is_not_open_is_a_warning_and_0(self, queue: Database) -> None:
        conn = queue.connect()
        warned = Warnings(conn)
        one_batch(conn, "a")
        (event,) = receive(conn)
        assert coop_steps.ack(conn, event.batch_id, event.id) == 1
        assert coop_steps.ack(conn, event.batch_id, event.id) == 0
        assert coop_steps.nack(conn, event.batch_id, event.id, 0) is None
        assert value(conn, "select pgq_coop.ack(null, 1)") == 0
        assert warned == [
            f"ack: batch {event.batch_id} not found",
            f"nack: batch {event.batch_id} not found",
            "ack: batch <NULL> not found",
        ]

    def test_a_batch_that_was_never_handed_out_has_nothing_to_settle(self, queue: Database) -> None:
        conn = queue.connect()
        warned = Warnings(conn)
        event = insert(conn, "a")
        tick(conn)
        batch = must_take(conn, "1")
        assert coop_steps.ack(conn, batch, event) == 0
        assert coop_steps.nack(conn, batch, event, 0) is None
        assert len(warned) == 2
        assert finish(conn, batch) == 1

    def test_many_are_settled_at_once(self, queue: Database) -> None:
        conn = queue.connect()
        warned = Warnings(conn)
        one_batch(conn, *(str(number) for number in range(30)))
        events = receive(conn, most=100)
        batch, ids = events[0].batch_id, [event.id for event in events]
        assert coop_steps.ack_events(conn, batch, []) == 0
        assert coop_steps.ack_events(conn, batch, [*ids[:10], ids[0], 999]) == 10
        assert coop_steps.ack_events(conn, batch, ids[:20]) == 10
        assert value(conn, "select pgq_coop.ack_events(%s, null)", batch) == 0
        assert coop_steps.ack_events(conn, batch, ids[20:]) == 10
        assert subscription(conn, "c.1") == (None, None, None)
        gone = ", ".join(str(one) for one in ids[:10])
        assert warned == [
            f"ack: batch {batch} waits for no event 999",
            f"ack: batch {batch} waits for no event {gone}",
            f"ack: batch {batch} waits for no event NULL",
        ]

    def test_retried_event_goes_to_any_worker(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a", "b")
        first, second = receive(conn)
        assert coop_steps.nack(conn, first.batch_id, first.id, 0, reason="not now") == "retry"
        assert coop_steps.ack(conn, first.batch_id, second.id) == 1
        assert value(conn, "select pgq.maint_retry_events()") == 1
        tick(conn)
        (again,) = receive(conn, "2")
        assert (again.id, again.data, again.retry) == (first.id, "a", 1)

    def test_event_fails_after_the_maximum_of_attempts(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a")
        (event,) = receive(conn)
        assert coop_steps.nack(conn, event.batch_id, event.id, 0, max_attempts=2) == "retry"
        assert value(conn, "select pgq.maint_retry_events()") == 1
        tick(conn)
        (event,) = receive(conn)
        answer = coop_steps.nack(conn, event.batch_id, event.id, 0, reason="broken", max_attempts=2)
        assert answer == "failed"
        failed = conn.execute("select ev_failed_reason, ev_data from pgq.failed_queue").fetchall()
        assert failed == [("broken", "a")]
        assert receive(conn) == []
        assert subscription(conn, "c.1") == (None, None, None)

    def test_a_bad_number_of_attempts_settles_nothing(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a")
        (event,) = receive(conn)
        nack = "select pgq_coop.nack(%s, %s, %s, null, %s)"
        with refused("LD005", "bad number of attempts: 0"):
            conn.execute(nack, [event.batch_id, event.id, 0, 0])
        with refused("LD005", "Invalid NULL value"):
            conn.execute(nack, [event.batch_id, event.id, None, None])
        assert coop_steps.ack(conn, event.batch_id, event.id) == 1

    def test_each_call_is_a_sign_of_life(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a", "b", "c", "d")
        a, b, c, d = receive(conn, most=4)
        calls = (
            lambda: receive(conn),
            lambda: coop_steps.ack(conn, a.batch_id, a.id),
            lambda: coop_steps.nack(conn, b.batch_id, b.id, 0),
            lambda: coop_steps.ack_events(conn, c.batch_id, [c.id]),
        )
        for call in calls:
            silent_since(conn, "1", "1 hour")
            call()
            assert receive(conn, "2", dead=MINUTE) == []
        silent_since(conn, "1", "1 hour")
        assert datas(receive(conn, "2", dead=MINUTE)) == [d.data]


class TestTakeover:
    def test_new_worker_gets_only_unsettled_events(self, queue: Database) -> None:
        conn = queue.connect()
        warned = Warnings(conn)
        one_batch(conn, "a", "b", "c")
        first, second, _ = receive(conn, "dead")
        coop_steps.ack(conn, second.batch_id, second.id)
        silent_since(conn, "dead", "1 hour")
        taken = receive(conn, "alive", dead=MINUTE)
        assert datas(taken) == ["a", "c"]
        assert coop_steps.ack(conn, first.batch_id, first.id) == 0, "the dead one lives after all"
        assert coop_steps.nack(conn, first.batch_id, first.id, 0) is None
        assert warned == [
            f"ack: batch {first.batch_id} not found",
            f"nack: batch {first.batch_id} not found",
        ]
        assert coop_steps.ack_events(conn, taken[0].batch_id, [event.id for event in taken]) == 2
        assert kept(conn) == (0, 0)

    def test_a_batch_may_change_hands_again_and_again(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a", "b", "c")
        for worker, expected in (("1", "a"), ("2", "b"), ("3", "c")):
            (event,) = receive(conn, worker, 1, dead=MINUTE)
            assert event.data == expected
            assert coop_steps.ack(conn, event.batch_id, event.id) == 1
            if worker != "3":
                silent_since(conn, worker, "1 hour")
        assert kept(conn) == (0, 0)


class TestTidiness:
    def test_nothing_is_left_of_a_finished_batch(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a", "b")
        assert len(receive(conn)) == 2
        assert kept(conn) == (1, 2)
        assert finish(conn, must_take(conn, "1")) == 1
        assert kept(conn) == (0, 0)

    def test_abandoned_batch_leaves_no_rows(self, queue: Database) -> None:
        conn = queue.connect()
        one_batch(conn, "a")
        receive(conn)
        assert coop.unregister_subconsumer(conn, "q", "c", "1", drop_batch=True) == 1
        assert kept(conn) == (0, 0)

    def test_rows_of_an_unregistered_consumer_are_removed_with_the_next_batch(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        conn.execute("select pgq.register_consumer('q', 'd')")
        one_batch(conn, "a")
        receive(conn)
        assert value(conn, "select pgq.unregister_consumer('q', 'c')") == 2
        assert kept(conn) == (1, 1)
        assert len(coop_steps.receive(conn, "q", "d", "1", 10)) == 1
        assert kept(conn) == (1, 1)
        assert column(conn, "select receiver is null from pgq_coop.delivery") == [False]

    def test_events_that_are_handed_out_do_not_keep_rotation_back_for_ever(
        self, queue: Database
    ) -> None:
        conn = queue.connect()
        one_batch(conn, "a")
        (event,) = receive(conn)
        for _ in range(4):
            tick(conn)
            assert receive(conn, "2") == []
            rotate(conn)
        assert not rotate(conn)
        coop_steps.ack(conn, event.batch_id, event.id)
        for _ in range(4):
            tick(conn)
            assert receive(conn, "2") == []
            rotate(conn)
        assert value(conn, "select count(*) from pgq.event_template") == 0
