"""Different events with one id, as a filtered branch writes them: no outcome hits the wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from londiste import Consumer, Context, Dead, Delivery, Event, Retry
from londiste.cascade.model import NodeType
from londiste.errors import StateError
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line
from tests.integration.forwarding.test_filtered_branch import FILTERED, in_step, run
from tests.support.consumer_steps import ALL, QUEUE, effects, make, position, tick
from tests.support.queue_steps import open_batch, refused
from tests.support.suite.slow import first, only

RAW = "select pgq.insert_event_raw('q', 77, '2026-01-01', null, null, 't', %s, '', '', '', '')"


def send_pair(db: Database, first: str = "first", second: str = "second") -> None:
    """Two events of one id in a batch, after one of another id."""
    db.execute("select pgq.insert_event('q', 't', 'other')")
    db.execute(RAW, first)
    db.execute(RAW, second)
    tick(db)


def stored(db: Database) -> int:
    return int(
        db.value(
            "select (select count(*) from pgq.retry_queue)"
            " + (select count(*) from pgq.failed_queue)"
        )
    )


@pytest.mark.parametrize("bad", first(["second", "first"]))
@pytest.mark.parametrize(
    "delivery",
    only(
        [d for d in ALL if d.may_bury and d is not Delivery.ONCE_PER_EVENT],
        *(Delivery.EXACTLY_ONCE_HERE, Delivery.AT_LEAST_ONCE),
    ),
)
def test_no_outcome_is_stored_for_one_of_two_events(
    db: Database, tmp_path: Path, delivery: Delivery, bad: str
) -> None:
    consumer = make(db, delivery, tmp_path)
    consumer.register()
    before = position(db)
    send_pair(db)

    def fail(event: Event) -> None:
        if event.data == bad:
            raise Retry(0) if delivery.may_retry else Dead("no")

    consumer.fail = fail
    for _ in range(2):
        with pytest.raises(StateError, match="event 77 cannot be retried or failed") as caught:
            consumer.run_once()
        assert "the queue of the root" in (caught.value.hint or "")
        assert stored(db) == 0
        assert position(db) == before
        if delivery.one_transaction:
            assert effects(db) == []
    # Processed without a failure the batch is done.
    consumer.fail = None
    assert consumer.run_once() == 1
    assert sorted(set(effects(db))) == ["first", "other", "second"]


def test_a_mark_does_not_cover_another_event(db: Database, tmp_path: Path) -> None:
    consumer = make(db, Delivery.ONCE_PER_EVENT, tmp_path, max_attempts=3)
    consumer.register()
    send_pair(db)
    for _ in range(2):
        # Also when the mark is there from the beginning.
        with pytest.raises(StateError, match="event 77 of type t: its id is not unique"):
            consumer.run_once()
    assert effects(db) == ["other", "first"]
    assert stored(db) == 0


def test_copies_of_one_event_are_one_event(db: Database, tmp_path: Path) -> None:
    consumer = make(db, Delivery.ONCE_PER_EVENT, tmp_path)
    consumer.register()
    send_pair(db, "same", "same")

    def fail(event: Event) -> None:
        if event.data == "same":
            raise Dead("no")

    consumer.fail = fail
    assert consumer.run_once() == 1
    assert db.execute("select ev_id, ev_data from pgq.failed_queue") == [(77, "same")]


def test_functions_refuse_what_they_cannot_tell_apart(db: Database) -> None:
    conn = db.connect()
    conn.execute(
        "select pgq.register_consumer('q', 'c'), pgq_coop.register_subconsumer('q', 'w', 'one')"
    )
    send_pair(db)
    batch = open_batch(conn, QUEUE)
    message = "event 77 cannot be retried or failed: its id is not unique"
    for call in (
        "pgq.event_retry(%s, 77, 0)",
        "pgq.event_failed(%s, 77, 'no')",
        "pgq.event_retry_or_fail(%s, 77, 0, null, null)",
        "pgq.events_retry_or_fail(%s, '{77}', '{0}', '{null}', '{null}')",
        "pgq.batch_retry(%s, 0)",
    ):
        with refused("LD106", message):
            conn.execute(f"select {call}".encode(), [batch])
    assert stored(db) == 0
    with refused("LD106", "event 77 cannot be received: its id is not unique"):
        conn.execute("select pgq_coop.receive('q', 'w', 'one', 10)")
    # As its hint says, the worker takes the batch as a whole.
    whole = conn.execute("select pgq_coop.next_batch('q', 'w', 'one')").fetchone()
    assert whole is not None
    data = conn.execute("select ev_data from pgq.get_batch_events(%s)", whole).fetchall()
    assert data == [("other",), ("first",), ("second",)]
    conn.execute("select pgq_coop.finish_batch(%s)", whole)


def test_a_consumer_of_a_filtered_branch_stops_at_such_an_event(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=FILTERED)
    branch = line.node("branch", NodeType.BRANCH, root, schema=FILTERED)
    line.add(root, "t", form="statement")
    root.database.execute("insert into t select i, 'eu', i, '' from generate_series(1, 20) i")
    run(line, branch, "add-table", "t", "--where", "region = 'eu'")
    in_step(line, branch)
    of_node = queues.get_queue_info(branch.database.connect())[0].queue_name

    class Audit(Consumer):
        queue = of_node
        name = "audit"

        def process_event(self, event: Event, ctx: Context) -> None:
            if '"DELETE"' in (event.type or ""):
                raise Dead("cannot be processed")

    audit = Audit(branch.database.dsn)
    audit.register()
    root.database.execute(
        "update t set region = case when id % 2 = 1 then 'eu' else 'us' end, n = n + 10"
    )
    line.wait_position(branch, line.tick())
    with pytest.raises(StateError, match="its id is not unique"):
        audit.run_once()
    assert branch.database.value("select count(*) from pgq.failed_queue") == 0
