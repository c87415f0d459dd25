"""Queues, consumers and batches describe themselves."""

from __future__ import annotations

import tomllib

import pytest

from londiste.db.queries import sql_root
from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    consume,
    insert,
    open_batch,
    queue_with_consumer,
    tick,
    value,
)

QUEUE_COLUMNS = [
    "queue_name",
    "queue_ntables",
    "queue_cur_table",
    "queue_rotation_period",
    "queue_switch_time",
    "queue_external_ticker",
    "queue_ticker_paused",
    "queue_ticker_max_count",
    "queue_ticker_max_lag",
    "queue_ticker_idle_period",
    "ticker_lag",
    "ev_per_sec",
    "ev_new",
    "last_tick_id",
]
CONSUMER_COLUMNS = [
    "queue_name",
    "consumer_name",
    "lag",
    "last_seen",
    "last_tick",
    "current_batch",
    "next_tick",
    "pending_events",
]
BATCH_COLUMNS = [
    "queue_name",
    "consumer_name",
    "batch_start",
    "batch_end",
    "prev_tick_id",
    "tick_id",
    "lag",
    "seq_start",
    "seq_end",
]


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def test_the_version_is_that_of_the_component_and_suits_other_tickers(queue: Database) -> None:
    component = tomllib.loads((sql_root() / "pgq" / "component.toml").read_text())
    version = queue.value("select pgq.version()")
    assert version == component["version"]
    assert version[0] >= "3"


def test_queues_are_listed_by_name(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("select pgq.create_queue('b'), pgq.create_queue('a')")
    cursor = conn.execute("select * from pgq.get_queue_info()")
    assert [c.name for c in cursor.description or ()] == QUEUE_COLUMNS
    rows = cursor.fetchall()
    assert [row[0] for row in rows] == ["a", "b", "q"]
    assert conn.execute("select * from pgq.get_queue_info('q')").fetchall()[0][:4] == rows[2][:4]
    assert [r[0] for r in conn.execute("select * from pgq.get_queue_info(null)")] == ["a", "b", "q"]
    assert conn.execute("select * from pgq.get_queue_info('nope')").fetchall() == []


def test_a_queue_tells_its_state(queue: Database) -> None:
    conn = queue.connect(autocommit=False)
    conn.execute("delete from pgq.tick")
    conn.execute(
        "insert into pgq.tick (tick_queue, tick_id, tick_time, tick_event_seq)"
        " select queue_id, n, now() - make_interval(secs => 100 - n), n * 10"
        " from pgq.queue, generate_series(1, 50) n"
    )
    conn.execute("select setval(queue_event_seq, 507) from pgq.queue")
    row = conn.execute(
        "select extract(epoch from ticker_lag)::int4, ev_per_sec, ev_new, last_tick_id,"
        " queue_ntables, queue_cur_table, queue_external_ticker, queue_ticker_paused,"
        " queue_ticker_max_count from pgq.get_queue_info('q')"
    ).fetchone()
    assert row == (50, 10.0, 7, 50, 3, 0, False, False, 500)


def test_events_per_second_are_those_of_the_last_twenty_ticks(queue: Database) -> None:
    conn = queue.connect(autocommit=False)
    conn.execute("delete from pgq.tick")
    conn.execute(
        "insert into pgq.tick (tick_queue, tick_id, tick_time, tick_event_seq)"
        " select queue_id, n, now() - make_interval(secs => 100 - n),"
        " case when n < 30 then 0 else (n - 30) * 4 end"
        " from pgq.queue, generate_series(1, 50) n"
    )
    assert value(conn, "select ev_per_sec from pgq.get_queue_info('q')") == 4.0


def test_no_rate_without_time_and_no_lag_without_ticks(queue: Database) -> None:
    conn = queue.connect()
    state = "select ev_per_sec, ticker_lag is null, ev_new, last_tick_id from pgq.get_queue_info()"
    assert conn.execute(state).fetchone() == (None, False, 0, 1)
    conn.execute("delete from pgq.tick")
    assert conn.execute(state).fetchone() == (None, True, None, None)


def test_consumers_are_listed_by_queue_and_name(queue: Database) -> None:
    conn = queue.connect()
    for name, consumer in (("q", "b"), ("q", "a"), ("p", "z")):
        conn.execute("select pgq.create_queue(%s)", [name])
        conn.execute("select pgq.register_consumer(%s, %s)", [name, consumer])
    cursor = conn.execute("select * from pgq.get_consumer_info()")
    assert [c.name for c in cursor.description or ()] == CONSUMER_COLUMNS
    everybody = [("p", "z"), ("q", "a"), ("q", "b"), ("q", "c")]
    assert [row[:2] for row in cursor] == everybody
    calls = {
        "null": everybody,
        "'q'": everybody[1:],
        "'q', null": everybody[1:],
        "null, 'b'": [("q", "b")],
        "'q', 'b'": [("q", "b")],
        "'nope'": [],
    }
    for arguments, expected in calls.items():
        found = conn.execute(f"select * from pgq.get_consumer_info({arguments})").fetchall()
        assert [row[:2] for row in found] == expected, arguments


def test_a_consumer_tells_where_it_is(queue: Database) -> None:
    conn = queue.connect()
    for _ in range(4):
        insert(conn, "e")
    tick(conn)
    consume(conn)
    before = value(conn, "select tick_event_seq from pgq.tick where tick_id = 2")
    tick(conn)
    batch = open_batch(conn)
    insert(conn, "e")
    tick(conn)
    newest = value(conn, "select tick_event_seq from pgq.tick where tick_id = 4")
    conn.execute("update pgq.tick set tick_time = now() - interval '1 h' where tick_id = 2")
    conn.execute("update pgq.subscription set sub_active = now() - interval '1 min'")
    row = conn.execute(
        "select round(extract(epoch from lag) / 3600)::int4,"
        " round(extract(epoch from last_seen) / 60)::int4,"
        " last_tick, current_batch, next_tick, pending_events from pgq.get_consumer_info()"
    ).fetchone()
    assert row == (1, 1, 2, batch, 3, newest - before)


def test_an_idle_cooperative_consumer_has_no_position(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("update pgq.subscription set sub_last_tick = null")
    row = conn.execute(
        "select lag, last_tick, current_batch, next_tick, pending_events"
        " from pgq.get_consumer_info()"
    ).fetchone()
    assert row == (None,) * 5


def test_a_batch_tells_whose_it_is_and_what_lies_in_it(queue: Database) -> None:
    conn = queue.connect(autocommit=False)
    insert(conn, "e")
    conn.commit()
    tick(conn)
    batch = open_batch(conn)
    cursor = conn.execute("select * from pgq.get_batch_info(%s)", [batch])
    assert [c.name for c in cursor.description or ()] == BATCH_COLUMNS
    row = cursor.fetchone()
    ticks = conn.execute(
        "select tick_time, tick_event_seq, now() - tick_time from pgq.tick order by tick_id"
    ).fetchall()
    assert row == (
        *("q", "c", ticks[0][0], ticks[1][0], 1, 2),
        *(ticks[1][2], ticks[0][1], ticks[1][1]),
    )


def test_a_batch_that_is_not_open_tells_nothing(queue: Database) -> None:
    for batch in ("99", "null"):
        rows = queue.execute(f"select * from pgq.get_batch_info({batch})")
        assert rows == [(None,) * 9]


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("a.b", "a.b"),
        ("b", "public.b"),
        ("a.b.c", 'a."b.c"'),
        ("Public.Table", '"Public"."Table"'),
        ('s"x.t"y', '"s""x"."t""y"'),
        ("a.select", 'a."select"'),
        ("", 'public.""'),
        (".x", '"".x'),
        (None, None),
    ],
)
def test_a_name_is_quoted_at_its_first_dot(queue: Database, name: str, quoted: str) -> None:
    assert queue.value("select pgq.quote_fqname(%s)", name) == quoted


def test_a_sequence_is_read_and_only_ever_raised(queue: Database) -> None:
    conn = queue.connect()
    conn.execute("create schema s; create sequence s.n")
    conn.execute('create sequence s."x.y"')
    for name in ("s.n", "s.x.y"):
        assert value(conn, "select pgq.seq_getval(%s)", name) == 1
        assert value(conn, "select pgq.seq_setval(%s, 10)", name) == 10
        assert value(conn, "select pgq.seq_setval(%s, 5)", name) == 10
        assert value(conn, "select pgq.seq_getval(%s)", name) == 10
        assert value(conn, "select nextval(pgq.quote_fqname(%s))", name) == 11
    conn.execute("create sequence s.unused")
    assert value(conn, "select pgq.seq_setval('s.unused', 1)") == 1
    assert value(conn, "select nextval('s.unused')") == 2
    assert value(conn, "select pgq.seq_getval(null)") is None
    assert value(conn, "select pgq.seq_setval('s.n', null)") is None
