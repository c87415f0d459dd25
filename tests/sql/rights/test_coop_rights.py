"""Cooperative workers of one role: another reader of queues can neither use nor hold them."""

from __future__ import annotations

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.sql.rights.test_attacks_found import admin, session

__all__ = ["admin"]

#: What the functions change.
_STATE = """
select md5(string_agg(t, '|' order by t)) from (
    select s::text from pgq.subscription s
    union all select o::text from pgq.consumer_owner o
    union all select r::text from pgq.retry_queue r
    union all select d::text from pgq_coop.delivery d
    union all select e::text from pgq_coop.delivery_event e
) x (t)
"""

#: All functions for workers; w1 has the batch, w2 is idle.
CALLS = (
    "receive('app', 'job', 'w1', 1)",
    "receive('app', 'job', 'w1', 1, null, 'other')",
    "receive('app', 'job', 'w2', 1)",
    "receive('app', 'job', 'w2', 1, '0 seconds')",
    "receive('app', 'job', 'w3', 1, '0 seconds')",
    "receive_again({batch})",
    "ack({batch}, {event})",
    "ack_events({batch}, array[{event}])",
    "nack({batch}, {event}, 1)",
    "finish_batch({batch})",
    "next_batch('app', 'job', 'w1')",
    "next_batch('app', 'job', 'w2')",
    "next_batch('app', 'job', 'w1', '0 seconds')",
    "next_batch('app', 'job', 'w2', '0 seconds')",
    "next_batch('app', 'job', 'w3', '0 seconds')",
    "next_batch_custom('app', 'job', 'w2', null, null, null, '0 seconds')",
    "register_subconsumer('app', 'job', 'w3')",
    "register_subconsumer('app', 'job', 'w1')",
    "unregister_subconsumer('app', 'job', 'w1', 1)",
    "unregister_subconsumer('app', 'job', 'w2', 1)",
    "unregister_subconsumer('app', 'job', 'nobody', 1)",
)


def test_another_reader_changes_nothing_of_workers(pgq_db: Database, admin: Connection) -> None:
    with session(pgq_db, "reader") as reader, session(pgq_db, "other") as other:
        reader.execute("select pgq_coop.register_subconsumer('app', 'job', 'w1')")
        reader.execute("select pgq_coop.register_subconsumer('app', 'job', 'w2')")
        admin.execute("select pgq.insert_event('app', 't', g::text) from generate_series(1, 5) g")
        admin.execute("select pgq.force_tick('app')")
        admin.execute("select pgq.ticker('app')")
        receive = "select batch_id, ev_id, ev_data from pgq_coop.receive('app', 'job', 'w1', %s)"
        first = reader.execute(receive, [2]).fetchall()
        batch, event, _ = first[0]
        before = pgq_db.value(_STATE)
        for call in CALLS:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                found = other.execute(
                    f"select * from pgq_coop.{call.format(batch=batch, event=event)}".encode()
                ).fetchall()
                pytest.fail(f"{call}: {found}")
            assert pgq_db.value(_STATE) == before, call
        second = reader.execute(receive, [10]).fetchall()
        assert [data for _, _, data in first + second] == ["1", "2", "3", "4", "5"]
        ids = [event for _, event, _ in first + second]
        assert reader.execute("select pgq_coop.ack_events(%s, %s)", [batch, ids]).fetchone() == (5,)


def test_readers_share_the_consumer_of_an_administrator(
    pgq_db: Database, admin: Connection
) -> None:
    """The takeover of a dead worker of another role is not prevented."""
    admin.execute("select pgq.register_consumer('app', 'job')")
    with session(pgq_db, "reader") as reader, session(pgq_db, "other") as other:
        for worker, conn in (("w1", reader), ("w2", other)):
            conn.execute("select pgq_coop.register_subconsumer('app', 'job', %s)", [worker])
        admin.execute("select pgq.insert_event('app', 't', 'x'), pgq.force_tick('app')")
        admin.execute("select pgq.ticker('app')")
        (first,) = reader.execute("select pgq_coop.next_batch('app', 'job', 'w1')").fetchone() or (
            None,
        )
        take = "select pgq_coop.next_batch('app', 'job', 'w2', '0 seconds')"
        (second,) = other.execute(take.encode()).fetchone() or (None,)
        assert first is not None
        assert second is not None
        assert reader.execute("select pgq_coop.finish_batch(%s)", [first]).fetchone() == (0,)
        assert other.execute("select pgq_coop.finish_batch(%s)", [second]).fetchone() == (1,)


@pytest.mark.parametrize(
    "call",
    [
        "pause_consumer('app', 'job')",
        "resume_consumer('app', 'job')",
        "failed_event_delete('app', 'job', 1)",
        "failed_event_delete_all('app', 'job')",
        "failed_event_retry('app', 'job', 1)",
        "failed_event_retry_all('app', 'job')",
        "register_consumer_at('app', 'job', 1)",
        "unregister_consumer('app', 'job')",
    ],
)
def test_readers_take_batches_of_an_administrators_consumer_and_decide_nothing_about_it(
    pgq_db: Database, admin: Connection, call: str
) -> None:
    admin.execute("select pgq.register_consumer('app', 'job')")
    admin.execute("select pgq.insert_event('app', 't', 'x'), pgq.force_tick('app')")
    admin.execute("select pgq.ticker('app')")
    with session(pgq_db, "reader") as reader:
        batch = reader.execute("select pgq.next_batch('app', 'job')").fetchone()
        assert batch is not None and batch[0] is not None
        event = "select pgq.event_failed(%s, ev_id, 'why') from pgq.get_batch_events(%s)"
        assert reader.execute(event, [*batch, *batch]).fetchone() == (1,)
        assert reader.execute("select pgq.finish_batch(%s)", batch).fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="consumer job of queue app"):
            reader.execute(f"select pgq.{call}".encode())
        counted = reader.execute("select pgq.failed_event_count('app', 'job')").fetchone()
        assert counted == (1,)
