"""A prefetched batch is used only if it is exactly the next batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.pgq import batches, queues
from londiste.pgq.batches import Opened
from londiste.replication.apply import prefetch
from londiste.replication.apply.accumulator import BatchPart
from londiste.replication.apply.prefetch import (
    FIRST_JOIN,
    JOIN_BYTES,
    JOIN_EVENTS,
    ReadAhead,
    Sizes,
    is_worthwhile,
)
from londiste.replication.apply.routing import Route, RoutingTable
from londiste.replication.tablesync.states import By
from tests.fixtures.cluster import Database
from tests.support.queue_steps import insert, queue_with_consumer, rotate, value

LIMIT = 1 << 20
NOBODY = RoutingTable(By.MAIN, {})
T = TableName("public", "t")
MINE = RoutingTable(By.MAIN, {T: Route(T, T, None)})


@pytest.fixture
def conn(pgq_db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A queue with a consumer, three ticks with three events each behind it."""
    monkeypatch.setattr(prefetch, "FROM_BYTES", 1)
    session = pgq_db.connect()
    queue_with_consumer(session)
    for name in "abc":
        write(session, name)
    yield session


def write(conn: Connection, name: str) -> None:
    """Three events and a tick."""
    for number in range(3):
        insert(conn, f"{name}{number}")
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")


def opened(conn: Connection, finish: int | None = None) -> Opened:
    found = batches.finish_and_next(conn, "q", "c", finish)
    assert found is not None
    return found


def begun(
    conn: Connection, first: Opened, interest: RoutingTable = NOBODY, sizes: Sizes | None = None
) -> ReadAhead:
    """Read behind a batch, to its end."""
    reader = ReadAhead(conn, "q", "c", limit=LIMIT, sizes=sizes or Sizes())
    reader.begin(first.batch, 3, 100, interest)
    reader.wait()
    return reader


def data(part: BatchPart | None) -> list[str | None] | None:
    return None if part is None else [event.data for block in part.blocks for event in block]


def test_the_batch_that_was_read_ahead_is_the_one_that_is_opened_then(conn: Connection) -> None:
    first = opened(conn)
    reader = begun(conn, first)
    assert reader.has_read
    second = opened(conn, first.batch.id)
    assert data(reader.take(second.batch, NOBODY)) == ["b0", "b1", "b2"]
    assert reader.take(second.batch, NOBODY) is None, "once"


def test_it_has_what_a_long_transaction_wrote_and_what_a_rotation_moved_away(
    pgq_db: Database, conn: Connection
) -> None:
    long = pgq_db.connect(autocommit=False)
    insert(long, "long")
    write(conn, "d")
    first = opened(conn)
    while first.batch.event_seq < value(conn, "select max(tick_event_seq) from pgq.tick"):
        first = opened(conn, first.batch.id)
    long.commit()
    write(conn, "e")
    reader = begun(conn, first)
    assert rotate(conn)
    write(conn, "f")
    second = opened(conn, first.batch.id)
    found = data(reader.take(second.batch, NOBODY))
    assert found is not None
    assert sorted(map(str, found)) == ["e0", "e1", "e2", "long"]
    assert found == [event.data for event in next(iter(batches.stream(conn, second.batch)))]


def test_nothing_is_there_to_be_read_behind_the_newest_tick(conn: Connection) -> None:
    first = opened(conn)
    while (found := batches.finish_and_next(conn, "q", "c", first.batch.id)) is not None:
        first = found
    reader = begun(conn, first)
    assert not reader.has_read


def test_a_transaction_with_more_events_than_ids_does_not_end_the_joining(conn: Connection) -> None:
    reader = ReadAhead(conn, "q", "c", limit=0, sizes=Sizes(max_count=500))
    first = opened(conn).batch
    reader.begin(replace(first, prev_event_seq=first.event_seq - 3), 100_000, 20 << 20, NOBODY)
    assert reader.sizes.max_count == JOIN_EVENTS


def test_a_batch_between_other_ticks_is_read_anew(conn: Connection) -> None:
    first = opened(conn)
    reader = begun(conn, first, sizes=Sizes(max_count=10_000))
    assert reader.has_read, "two ticks together"
    second = opened(conn, first.batch.id)
    assert reader.take(second.batch, NOBODY) is None


def test_after_the_consumer_was_moved_the_batch_is_read_anew(conn: Connection) -> None:
    first = opened(conn)
    reader = begun(conn, first)
    batches.finish_batch(conn, first.batch.id)
    batches.register_consumer_at(conn, "q", "c", first.batch.prev_tick_id)
    again = opened(conn)
    assert again.batch.tick_id == first.batch.tick_id
    assert reader.take(again.batch, NOBODY) is None


def test_a_tick_of_the_same_number_that_is_another_one_is_noticed(conn: Connection) -> None:
    first = opened(conn)
    reader = begun(conn, first)
    conn.execute("update pgq.tick set tick_time = tick_time + interval '1 ms'")
    second = opened(conn, first.batch.id)
    assert reader.take(second.batch, NOBODY) is None


def test_a_retried_event_is_left_to_the_worker_that_refuses_it(conn: Connection) -> None:
    first = opened(conn)
    (event, *_) = next(iter(batches.stream(conn, first.batch)))
    batches.event_retry(conn, first.batch.id, event.id, 0)
    first = opened(conn, first.batch.id)
    first = opened(conn, first.batch.id)
    conn.execute("select pgq.maint_retry_events()")
    write(conn, "d")
    reader = begun(conn, first)
    assert not reader.has_read
    second = opened(conn, first.batch.id)
    assert [e.retry for e in next(iter(batches.stream(conn, second.batch)))].count(1) == 1


def test_a_table_that_is_handed_over_between_reading_and_writing_gets_its_events(
    conn: Connection,
) -> None:
    conn.execute(
        "select pgq.insert_event('q', 'I:id', 'id=1', 'public.t', null, null, null)"
        " from generate_series(1, 4)"
    )
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")
    first = opened(conn)
    first = opened(conn, first.batch.id)
    first = opened(conn, first.batch.id)
    for before, after, applied in ((NOBODY, MINE, 4), (MINE, NOBODY, 0), (MINE, MINE, 4)):
        reader = begun(conn, first, before)
        second = opened(conn, first.batch.id)
        part = reader.take(second.batch, after)
        assert part is not None
        assert (part.interest, part.events, part.applied) == (after, 4, applied)
        batches.register_consumer_at(conn, "q", "c", first.batch.prev_tick_id)
        first = opened(conn)


def test_a_batch_beyond_the_limit_is_not_kept(conn: Connection) -> None:
    first = opened(conn)
    reader = ReadAhead(conn, "q", "c", limit=500, sizes=Sizes())
    reader.begin(first.batch, 3, 100, NOBODY)
    reader.wait()
    assert not reader.has_read
    assert data_of_next(conn, first) == ["b0", "b1", "b2"]


def test_a_session_that_was_stopped_reading_is_free_or_closed(conn: Connection) -> None:
    first = opened(conn)
    reader = ReadAhead(conn, "q", "c", limit=LIMIT, sizes=Sizes())
    reader.begin(first.batch, 3, 100, NOBODY)
    reader.stop()
    assert not reader.has_read
    assert data_of_next(conn, first) == ["b0", "b1", "b2"]


def data_of_next(conn: Connection, first: Opened) -> list[str | None]:
    second = opened(conn, first.batch.id)
    return [event.data for block in batches.stream(conn, second.batch) for event in block]


@pytest.mark.parametrize(
    ("now", "events", "coming", "limit", "worthwhile"),
    [
        (1 << 20, 1000, 1000, 32 << 20, True),
        (1 << 20, 1000, 40_000, 32 << 20, False),
        (1000, 10, 10, 32 << 20, False),
        (1 << 20, 1000, 1000, 0, False),
        (64 << 20, 1000, 10, 32 << 20, False),
        (1 << 20, 0, 5, 32 << 20, True),
    ],
)
def test_reading_ahead_is_for_batches_that_take_time_and_fit(
    now: int, events: int, coming: int, limit: int, worthwhile: bool
) -> None:
    assert is_worthwhile(now, events, coming, limit) is worthwhile


@pytest.mark.parametrize(
    ("nbytes", "events", "joined"),
    [
        (0, 0, 500),
        (100, 0, 500),
        (300, 3, FIRST_JOIN),
        (200 * 1_000, 1_000, 4_000),
        (100 * 40_000, 40_000, JOIN_EVENTS),
        (1_000 * 10_000, 10_000, JOIN_BYTES // 1_000),
        (64 << 20, 1, 1),
    ],
)
def test_ticks_are_joined_by_the_length_of_the_events_before(
    nbytes: int, events: int, joined: int
) -> None:
    assert Sizes(max_count=500).after(nbytes, events).max_count == joined
    assert Sizes(min_count=7).after(nbytes, events) == Sizes(min_count=7)
