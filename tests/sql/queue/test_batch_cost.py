"""Reading a batch touches only its own pages, whatever follows it or runs concurrently."""

from __future__ import annotations

import pytest
from psycopg import sql

from londiste.db.connection import Connection
from londiste.pgq import batches, queues
from londiste.pgq.types import Batch
from londiste.replication.parallel import slices
from tests.fixtures.cluster import Database
from tests.support.queue_steps import insert, value

SIZE = 2000


def produce(conn: Connection, count: int) -> None:
    """Events in transactions of 100, then a tick."""
    for start in range(0, count, 100):
        conn.execute(
            "select pgq.insert_event('q', 't', repeat('x', 100)) from generate_series(1, %s::int8)",
            [min(100, count - start)],
        )
    queues.force_tick(conn, "q")
    assert queues.ticker(conn, "q") is not None


def next_batch(conn: Connection) -> Batch:
    batch = batches.next_batch(conn, "q", "c")
    assert batch is not None
    return batch


def pages(conn: Connection, batch: Batch) -> int:
    """Pages of tables and indexes that the query of a batch looks at."""
    return pages_of(conn, value(conn, "select pgq.batch_event_sql(%s)", batch.id))


def pages_ahead(conn: Connection, from_tick: int) -> int:
    """The same for the batch that comes behind a tick, before it is opened."""
    coming = batches.coming(conn, "q", "c", from_tick)
    assert coming is not None
    return pages_of(conn, coming.query)


def pages_of(conn: Connection, query: str) -> int:
    (plan,) = value(
        conn,
        sql.SQL("explain (analyze, buffers, format json) {}").format(sql.SQL(query)).as_string(),
    )
    found = plan["Plan"]
    return int(found["Shared Hit Blocks"]) + int(found["Shared Read Blocks"])


def test_a_batch_costs_what_it_holds_behind_a_backlog_and_beside_a_long_transaction(
    pgq_db: Database,
) -> None:
    conn, long = pgq_db.connect(), pgq_db.connect(autocommit=False)
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    insert(long, "of the long transaction")
    produce(conn, SIZE)
    first = next_batch(conn)
    alone = pages(conn, first)

    for _ in range(15):
        produce(conn, SIZE)
    assert pages(conn, first) <= alone * 1.2 + 10, "the backlog behind the batch"
    assert pages_ahead(conn, first.prev_tick_id) <= alone * 1.2 + 10, "read ahead"
    assert pages_ahead(conn, first.tick_id) <= alone * 2 + 10, "the next one, read ahead"

    read = 0
    while (batch := batches.next_batch(conn, "q", "c")) is not None:
        assert pages(conn, batch) <= alone * 2 + 10, "the events before the batch"
        read += sum(map(len, batches.stream(conn, batch)))
        batches.finish_batch(conn, batch.id)
    assert read == 16 * SIZE

    long.commit()
    produce(conn, 100)
    late = next_batch(conn)
    assert pages(conn, late) <= alone + 10, "one event of an old transaction"
    assert pages_ahead(conn, late.prev_tick_id) <= alone + 10, "the same, read ahead"
    assert sum(map(len, batches.stream(conn, late))) == 101


def test_a_batch_does_not_read_what_was_loaded_beside_one_of_its_transactions(
    pgq_db: Database,
) -> None:
    conn, beside = pgq_db.connect(), pgq_db.connect(autocommit=False)
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    insert(beside, "begun before the load, ended behind it")
    bulk(conn, 10_000)
    beside.commit()
    produce(conn, 10)
    loaded = next_batch(conn)
    assert pages(conn, loaded) > 100
    batches.finish_batch(conn, loaded.id)
    late = next_batch(conn)
    assert pages(conn, late) < 40
    assert sum(map(len, batches.stream(conn, late))) == 11


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("backlog", [100_000, pytest.param(5_000_000, marks=pytest.mark.slow)])
def test_ten_thousand_events_cost_the_same_before_any_backlog_beside_a_long_transaction(
    pgq_db: Database, backlog: int
) -> None:
    conn, long = pgq_db.connect(), pgq_db.connect(autocommit=False)
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    insert(long, "of the long transaction")
    bulk(conn, 10_000)
    first = next_batch(conn)
    alone, before = pages(conn, first), milliseconds(conn, first)
    for _ in range(backlog // 10_000):
        bulk(conn, 10_000)
    behind = pages(conn, first), milliseconds(conn, first)
    assert behind[0] <= alone * 1.2 + 10
    # The one at the end, with everything in front of it.
    batches.register_consumer_at(conn, "q", "c", first.tick_id + backlog // 10_000 - 1)
    end = next_batch(conn)
    at_end = pages(conn, end), milliseconds(conn, end)
    assert at_end[0] <= alone * 2 + 10
    assert sum(map(len, batches.stream(conn, end))) == 10_000
    print(
        f"10,000 events: {alone} pages, {before:.1f} ms; with {backlog} behind them {behind[0]},"
        f" {behind[1]:.1f} ms; with as many before them {at_end[0]}, {at_end[1]:.1f} ms"
    )


def bulk(conn: Connection, count: int) -> None:
    """Events as captured rows are long, in one statement, and a tick."""
    table = queues.current_event_table(conn, "q")
    conn.execute(
        f"insert into {table} (ev_time, ev_type, ev_data)"
        f" select now(), 't', repeat('x', 100) from generate_series(1, {count})"
    )
    queues.force_tick(conn, "q")
    assert queues.ticker(conn, "q") is not None


def milliseconds(conn: Connection, batch: Batch) -> float:
    """What the server needs for the query of a batch; the best of some."""
    query = value(conn, "select pgq.batch_event_sql(%s)", batch.id)
    plans = [
        value(conn, f"explain (analyze, timing off, format json) {query}")[0] for _ in range(7)
    ]
    return float(min(plan["Execution Time"] for plan in plans))


def test_the_parts_of_a_large_batch_cost_together_what_the_batch_costs(pgq_db: Database) -> None:
    conn, long = pgq_db.connect(), pgq_db.connect(autocommit=False)
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    insert(long, "of the long transaction")
    produce(conn, 100)
    first = next_batch(conn)
    batches.finish_batch(conn, first.id)
    conn.execute(
        "select pgq.insert_event('q', 't', repeat('x', 100)) from generate_series(1, 9999)"
    )
    long.commit()
    produce(conn, 100)
    # Another batch waits behind it, on pages of its own and on the last one.
    produce(conn, SIZE)
    batch = next_batch(conn)
    whole = pages(conn, batch)

    parts = slices.cut(batches.batch_event_spread(conn, batch.id, 100), 5, 2000)
    assert len(parts) == 6
    events, touched = [], 0
    for part in parts:
        assert part.pages is not None
        query = batches.batch_page_sql(conn, batch.id, part.pages)
        touched += pages_of(conn, query)
        found = [
            event.id
            for block in batches.stream(conn, batch, query=query, where=part.condition or None)
            for event in block
        ]
        assert len(found) == part.events
        events += found
    read = [event.id for block in batches.stream(conn, batch) for event in block]
    assert events == read
    assert len(read) == 10_100
    assert touched <= whole * 2 + 50


def test_a_step_of_a_consumer_costs_the_same_however_many_ticks_are_there(pgq_db: Database) -> None:
    """Nothing here was ever analyzed, so plans rest on guesses."""
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    produce(conn, 100)
    batch = next_batch(conn)
    steps = (
        f"pgq.batch_event_sql({batch.id})",
        f"pgq.batch_event_tables({batch.id})",
        f"pgq.get_batch_info({batch.id})",
        "pgq.get_consumer_info('q', 'c')",
        "pgq.next_batch_info('q', 'c')",
        f"pgq.finish_batch({batch.id})",
        f"pgq.read_ahead('q', 'c', {batch.tick_id}, i_max_count => 10000)",
        f"pgq.finish_and_next('q', 'c', i_from_tick => {batch.tick_id}, i_max_count => 10000)",
    )
    conn.execute(
        "insert into pgq.tick (tick_queue, tick_id, tick_event_seq)"
        " select 1, n, n from generate_series(%s::int8, %s::int8) n",
        [batch.tick_id + 1, batch.tick_id + 3000],
    )
    for step in steps:
        conn.execute("begin")
        with conn.transaction(force_rollback=True):
            conn.execute(f"select * from {step}")  # caches of the session
        (plan,) = value(conn, f"explain (analyze, buffers, format json) select * from {step}")
        found = plan["Plan"]
        # It finishes, opens and looks what comes behind.
        steps_in_one = 3 if "finish_and_next" in step else 1
        touched = found["Shared Hit Blocks"] + found["Shared Read Blocks"]
        assert touched < 40 * steps_in_one, step


def test_functions_that_forbid_scans_are_not_compiled_for_their_seeming_cost(
    pgq_db: Database,
) -> None:
    """A forbidden scan counts as very expensive, and PostgreSQL compiles what is expensive."""
    with pgq_db.connect() as conn:
        found = conn.execute(
            "select p.oid::regprocedure::text, 'jit=off' = any (p.proconfig) from pg_proc as p"
            " where 'enable_seqscan=off' = any (p.proconfig)"
        ).fetchall()
    assert found
    assert [name for name, off in found if not off] == []


def test_a_table_that_rotation_has_emptied_is_not_read_for_late_events(pgq_db: Database) -> None:
    conn, reader = pgq_db.connect(), pgq_db.connect(autocommit=False)
    queues.create_queue(conn, "q")
    batches.register_consumer(conn, "q", "c")
    produce(conn, SIZE)
    batch = next_batch(conn)
    value(reader, "select pgq.batch_event_sql(%s)", batch.id)
    scans = (
        "select coalesce(sum(seq_scan + coalesce(idx_scan, 0)), 0)"
        " from pg_stat_xact_user_tables where relname ~ '^event_1_[12]$'"
    )
    assert value(reader, scans) == 0
