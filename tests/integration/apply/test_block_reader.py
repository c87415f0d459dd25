"""A batch read by COPY is the batch that psycopg reads, in blocks, and can be left at any point."""

from __future__ import annotations

import gc
import shlex
from collections.abc import Sequence

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.pq import TransactionStatus

from londiste.db.connection import Connection
from londiste.errors import EventError, LondisteError, NodeUnreachable, StateError, TransientError
from londiste.pgq import batches, blocks, producer, queues
from londiste.pgq.blocks import EventBlock
from londiste.pgq.types import Batch, Event
from tests.fixtures.cluster import Database
from tests.support.suite.slow import first

Rows = Sequence[tuple[str | None, ...]]

#: Everything that PostgreSQL can store, and much of what COPY writes differently.
texts = st.none() | st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"])
    | st.sampled_from("\\\t\n\r\b\f\vNntrx07.,\x7f\x01 "),
    max_size=12,
)


@pytest.fixture
def queue(pgq_db: Database) -> Connection:
    conn = pgq_db.connect(autocommit=True)
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    return conn


def next_batch(conn: Connection) -> Batch:
    queues.force_tick(conn, "q")
    queues.ticker(conn, "q")
    batch = batches.next_batch(conn, "q", "c")
    assert batch is not None
    return batch


def with_events(conn: Connection, rows: Rows) -> Batch:
    producer.insert_events(conn, "q", rows)
    return next_batch(conn)


def numbered(count: int, size: int = 0) -> Rows:
    return [("t", f"{n}" + "." * size) for n in range(count)]


def by_psycopg(conn: Connection, batch: Batch) -> list[Event]:
    found = conn.execute("select * from pgq.get_batch_events(%s)", [batch.id]).fetchall()
    return [Event(*row) for row in found]


def by_copy(conn: Connection, batch: Batch, block_bytes: int = 1 << 20) -> list[Event]:
    return [
        event for block in batches.stream(conn, batch, block_bytes=block_bytes) for event in block
    ]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(*[texts] * 6), min_size=1, max_size=30),
    block_bytes=st.integers(1, 500),
)
def test_every_text_arrives_as_psycopg_reads_it(
    queue: Connection, rows: Rows, block_bytes: int
) -> None:
    batch = with_events(queue, rows)
    read = by_copy(queue, batch, block_bytes=block_bytes)
    assert read == by_psycopg(queue, batch)
    assert [event[4:] for event in read] == list(rows)
    selected = [
        row
        for block in batches.stream(queue, batch)
        for row in block.select("data", "id", "extra4")
    ]
    assert selected == [(event.data, str(event.id), event.extra4) for event in read]
    batches.finish_batch(queue, batch.id)


def test_numbers_and_times_arrive_as_psycopg_reads_them(queue: Connection) -> None:
    own = "select sub_id from pgq.subscription"
    for number, (time, retry) in enumerate(
        [
            ("2024-02-29 23:59:59.999999+00", 0),
            ("1999-12-31 23:59:59.1-11", None),
            ("0001-01-02 00:00:00.5+00", 7),
            ("9999-12-30 12:00:00.000001+13:45", 1),
        ]
    ):
        queue.execute(
            "select pgq.insert_event_raw('q', %s, %s, (" + own + "), %s, 't', 'd',"
            " null, null, null, null)",
            [2**62 + number, time, retry],
        )
    batch = next_batch(queue)
    read = by_copy(queue, batch)
    assert len(read) == 4
    assert read == by_psycopg(queue, batch)


def test_times_do_not_depend_on_the_time_zone_of_the_session(queue: Connection) -> None:
    batch = with_events(queue, numbered(1))
    expected = by_copy(queue, batch)
    queue.execute("set timezone = 'Asia/Kathmandu'")
    assert by_copy(queue, batch) == expected


def test_a_session_in_another_encoding_reads_the_same(pgq_db: Database, queue: Connection) -> None:
    batch = with_events(queue, [("żółw", "ä\\t\t§")])
    with psycopg.connect(pgq_db.dsn, autocommit=True) as other:
        other.execute("set client_encoding = latin2")
        assert by_copy(other, batch) == by_copy(queue, batch)


@pytest.mark.parametrize("time", ["infinity", "-infinity", "10000-01-01", "0044-03-15 BC"])
def test_a_time_without_a_date_is_an_error_that_names_the_event(
    queue: Connection, time: str
) -> None:
    queue.execute(
        f"select pgq.insert_event_raw('q', 5, '{time}', null, null, 't', 'd',"
        " null, null, null, null)"
    )
    batch = next_batch(queue)
    with pytest.raises(EventError, match="event 5: Python has no value for its time") as caught:
        by_copy(queue, batch)
    assert caught.value.event_id == 5
    kept = batches.stream(queue, batch, where=blocks.DATED)
    assert sum(map(len, kept)) == 0
    assert shlex.quote(blocks.DATED) in caught.value.hint


def test_blocks_end_with_the_event_that_makes_them_long_enough(queue: Connection) -> None:
    batch = with_events(queue, [*numbered(50, 1000), ("t", "x" * 100_000), *numbered(50, 1000)])
    blocks = list(batches.stream(queue, batch, block_bytes=10_000))
    longest_line = 1200
    assert sum(map(len, blocks)) == 101
    assert len([block for block in blocks if block.nbytes > 10_000 + longest_line]) == 1
    assert all(block.nbytes >= 10_000 for block in blocks[:-1])


def test_an_empty_batch_has_no_block(queue: Connection) -> None:
    assert list(batches.stream(queue, next_batch(queue))) == []


def test_a_condition_selects_events_and_may_end_in_a_comment(queue: Connection) -> None:
    batch = with_events(queue, numbered(20))
    blocks = batches.stream(queue, batch, where="ev_data::int % 2 = 0 -- the even ones")
    assert [event.data for block in blocks for event in block] == [str(n) for n in range(0, 20, 2)]


def test_a_block_is_read_again_and_again(queue: Connection) -> None:
    batch = with_events(queue, numbered(3))
    (block,) = batches.stream(queue, batch)
    assert list(block) == list(block)
    assert len(list(block)) == len(block) == 3


@pytest.mark.parametrize("taken", first([3, 0, 1]))
@pytest.mark.parametrize("autocommit", [True, False])
def test_an_abandoned_iterator_leaves_the_session_as_it_was(
    pgq_db: Database, queue: Connection, taken: int, autocommit: bool
) -> None:
    batch = with_events(queue, numbered(20_000, 200))
    conn = pgq_db.connect(autocommit=autocommit)
    if not autocommit:
        conn.execute("create temp table mine (n int)")
    iterator = batches.stream(conn, batch, block_bytes=10_000)
    for _ in range(taken):
        next(iterator)
    del iterator
    gc.collect()
    if not autocommit:
        assert conn.info.transaction_status == TransactionStatus.INTRANS
        conn.execute("insert into mine values (1)")
        conn.commit()
        assert conn.execute("select * from mine").fetchall() == [(1,)]
        conn.commit()
    assert len(by_copy(conn, batch)) == 20_000


def test_the_session_is_busy_between_two_blocks(queue: Connection) -> None:
    batch = with_events(queue, numbered(20_000, 200))
    iterator = batches.stream(queue, batch, block_bytes=10_000)
    next(iterator)
    with pytest.raises(psycopg.OperationalError, match="another command is already in progress"):
        queue.execute("select 1")
    assert 1 + sum(1 for _ in iterator) > 300


@pytest.mark.parametrize("autocommit", [True, False])
def test_an_error_in_the_middle_is_ours_and_leaves_the_session_usable(
    pgq_db: Database, queue: Connection, autocommit: bool
) -> None:
    batch = with_events(queue, numbered(20_000, 200))
    conn = pgq_db.connect(autocommit=autocommit)
    if not autocommit:
        conn.execute("create temp table mine (n int)")
    iterator = batches.stream(conn, batch, block_bytes=10_000)
    next(iterator)
    pgq_db.execute("select pg_cancel_backend(%s)", conn.info.backend_pid)
    with pytest.raises(TransientError, match="canceling statement due to user request"):
        for _ in iterator:
            pass
    if not autocommit:
        conn.execute("insert into mine values (1)")
    assert len(by_copy(conn, batch)) == 20_000


def test_a_batch_that_is_not_open_is_refused(queue: Connection) -> None:
    batch = next_batch(queue)
    batches.finish_batch(queue, batch.id)
    with pytest.raises(StateError, match="batch not found"):
        next(batches.stream(queue, batch))


def test_a_condition_is_one_condition_and_no_second_statement(queue: Connection) -> None:
    batch = with_events(queue, numbered(1))
    with pytest.raises(LondisteError):
        list(batches.stream(queue, batch, where="true)) to stdout; drop table pgq.tick; --"))
    assert len(by_copy(queue, batch)) == 1


def test_a_server_that_goes_away_is_named(pgq_db: Database, queue: Connection) -> None:
    batch = with_events(queue, numbered(20_000, 400))
    iterator = batches.stream(queue, batch, block_bytes=10_000)
    next(iterator)
    pgq_db.execute("select pg_terminate_backend(%s)", queue.info.backend_pid)
    with pytest.raises(NodeUnreachable):
        for _ in iterator:
            pass
    assert queue.closed


def test_a_block_made_by_hand_decodes_every_escape_of_copy() -> None:
    line = (
        rb"1	2024-01-01 00:00:00+00	2	\N	\b\f\n\r\t\v\\	\\N	\N		a\\\\b	x"
    )
    (event,) = EventBlock(line + b"\n", 1)
    assert event[3:] == (None, "\b\f\n\r\t\v\\", "\\N", None, "", "a\\\\b", "x")


@pytest.mark.parametrize(
    "sign",
    ["\\\\b\t", *(pytest.param(s, marks=pytest.mark.slow) for s in ("\\", "\n", "a\\", "é\v"))],
)
@pytest.mark.parametrize("more", first(["x", "", "xy"]))
def test_a_long_event_is_kept_as_its_values_and_reads_the_same(
    queue: Connection, sign: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_PIECE", 1 << 16)
    # Two pieces that are looked at, and the begin of a third one.
    text = more + sign * (140_000 // len(sign))
    batch = with_events(queue, [("a\tb", text, "", "\\", None, "k")])
    kept, again = list(batches.stream(queue, batch)), list(batches.stream(queue, batch))
    (block,), (plain,) = kept, again
    fields = block.alone()
    assert fields[5] == text
    assert [fields[4], *fields[6:]] == [r"a\tb", "", r"\\", r"\N", "k"]
    assert block.nbytes == plain.nbytes
    assert list(block) == list(plain)
    assert block.lines() == plain.lines()
    assert block.data == plain.data
