"""Queues on servers whose transaction ids have passed 2^31 and 2^32, and with very large ids."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from londiste.db.connection import Connection
from londiste.embedded.postgres import Cluster
from londiste.pgq import batches, queues, rebase
from tests.fixtures.cluster import Database, create_database, start_server, wanted_version
from tests.fixtures.restore import dump, restore, use_up_ids
from tests.fixtures.xids import advance_to, as_account
from tests.support.queue_steps import consume, insert, queue_with_consumer, rotate, tick, value

BORDER = 2**32


@pytest.fixture(scope="module")
def at_the_border() -> Iterator[Cluster]:
    """A server that is 1500 transactions before the border of the first epoch."""
    with start_server("epoch", wanted_version()) as server:
        if not isinstance(server, Cluster):
            pytest.skip("needs pg_resetwal on an embedded server")
        advance_to(server, BORDER - 1500)
        yield server


#: PostgreSQL's own error at the end of a sequence.
at_the_end = functools.partial(
    pytest.raises, psycopg.errors.SequenceGeneratorLimitExceeded, match="reached maximum"
)


def now(conn: Connection) -> int:
    return int(value(conn, "select txid_snapshot_xmax(txid_current_snapshot())"))


def run_across(database: Database, until: int) -> None:
    """Producers, a ticker with rotation and a consumer, until the server's ids pass ``until``."""
    conn = database.connect()
    queue_with_consumer(conn)
    conn.execute("create table public.t (id int primary key, v text)")
    conn.execute(
        "create trigger t_capture after insert or update on public.t"
        " for each row execute function pgq.logutriga('q')"
    )
    long = database.connect(autocommit=False)
    insert(long, "long 1")
    over = threading.Event()
    written: list[list[str]] = [[], [], []]
    troubles: list[Exception] = []

    def produce(number: int) -> None:
        own = database.connect(autocommit=False)
        try:
            count = 0
            while not over.is_set():
                count += 1
                insert(own, f"{number} {count}")
                with own.transaction():
                    insert(own, f"{number} {count} sub")
                if count % 5 == 0:
                    own.rollback()
                else:
                    own.commit()
                    written[number] += [f"{number} {count}", f"{number} {count} sub"]
        except Exception as error:
            troubles.append(error)
            over.set()

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    read: list[str] = []
    ticker, rounds, rotations, held = database.connect(), 0, 0, 0
    while not over.is_set():
        rounds += 1
        conn.execute("insert into public.t values (%s, 'x')", [rounds])
        tick(ticker)
        while value(conn, "select pgq.next_batch('q', 'c')") is not None:
            read += consume(conn)
        rotations += rotate(ticker)
        if now(conn) > until and (held := held + 1) == 3:
            # Open since before the border, written to on both sides of it.
            insert(long, "long 2")
            long.commit()
        if held > 6:
            over.set()
    for thread in threads:
        thread.join()
    assert not troubles, troubles
    tick(ticker)
    while value(conn, "select pgq.next_batch('q', 'c')") is not None:
        read += consume(conn)
    rotations += rotate(ticker)
    captured = [data for data in read if data.startswith("id=")]
    assert captured == [f"id={number}&v=x" for number in range(1, rounds + 1)]
    for number, expected in enumerate(written):
        assert [data for data in read if data.startswith(f"{number} ")] == expected
    assert [data for data in read if data.startswith("long")] == ["long 1", "long 2"]
    assert rotations and len(read) == len(captured) + sum(map(len, written)) + 2


def test_nothing_is_lost_or_twice_across_the_border_of_an_epoch(at_the_border: Cluster) -> None:
    database = create_database(at_the_border, pgq=True)
    conn = database.connect()
    before = now(conn)
    assert before < BORDER
    # So that the border is crossed while they run, however slow the machine is.
    use_up_ids(database, max(0, BORDER - 400 - before))
    run_across(database, BORDER + 100)
    assert value(conn, "select min(ev_txid) > 2^31 from pgq.event_template")
    steps = "select queue_switch_step1 > %s, queue_switch_step2 > %s from pgq.queue"
    assert conn.execute(steps, [BORDER, BORDER]).fetchone() == (True, True)
    assert queues.queue_generation(conn, "q") is not None
    # The row of the identity was written before the border, and is seen to be at home after it.
    assert value(conn, "select pgq._is_at_home()")
    database.drop()


@pytest.mark.slow
def test_a_queue_is_made_and_rebased_in_a_later_epoch(at_the_border: Cluster) -> None:
    source = create_database(at_the_border, pgq=True)
    conn = source.connect()
    use_up_ids(source, max(0, BORDER + 200 - now(conn)))
    queue_with_consumer(conn)
    insert(conn, "a")
    tick(conn)
    insert(conn, "b")
    with start_server("young", wanted_version()) as young:
        # Brings the roles.
        create_database(young, pgq=True).drop()
        target = create_database(young, pgq=False)
        restore(dump(source), target)
        [done] = rebase.rebase(target.dsn)
        assert (done.events, done.unread) == (2, 1)
        new = target.connect()
        insert(new, "c")
        tick(new)
        assert [consume(new), consume(new)] == [["a"], ["b", "c"]]
        # And back: ids that look small where the counter is beyond 2^32.
        back = create_database(at_the_border, pgq=False)
        restore(dump(target), back)
        insert(back.connect(), "d")
        [again] = rebase.rebase(back.dsn)
        assert (again.events, again.arrived) == (4, 1)
        tick(back.connect())
        assert consume(back.connect()) == ["d"]
        back.drop()
    source.drop()


@pytest.mark.parametrize("edge", [2**31, 2**53])
def test_event_tick_and_batch_ids_pass(pgq_db: Database, edge: int) -> None:
    conn = pgq_db.connect()
    queue_with_consumer(conn)
    for name in ("event_1_id_seq", "event_1_tick_seq", "batch_id_seq"):
        conn.execute(f"select setval('pgq.{name}', {edge - 3})")
    sent = []
    for number in range(8):
        sent.append(insert(conn, str(number)))
        tick(conn)
        rotate(conn, "q")
        batch = batches.next_batch(conn, "q", "c")
        assert batch is not None and batch.event_seq >= sent[-1]
        [[event]] = list(batches.events(conn, batch))
        assert (event.id, event.data) == (sent[-1], str(number))
        batches.finish_batch(conn, batch.id)
    assert sent[0] < edge < sent[-1]
    assert batch.id > edge and batch.tick_id > edge
    assert queues.get_consumer_info(conn, "q")[0].last_tick == batch.tick_id


def test_at_the_end_of_the_sequences_it_fails_loudly_and_loses_nothing(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queue_with_consumer(conn)
    for name in ("event_1_id_seq", "event_1_tick_seq", "batch_id_seq"):
        conn.execute(f"select setval('pgq.{name}', {2**63 - 3})")
    assert insert(conn, "a") == 2**63 - 2
    assert insert(conn, "b") == 2**63 - 1
    with at_the_end():
        insert(conn, "c")
    conn.execute("select pgq._insert_tick(q, null) from pgq.queue q")
    assert consume(conn) == ["a", "b"]
    conn.execute("select pgq._insert_tick(q, null) from pgq.queue q")
    with at_the_end():
        conn.execute("select pgq._insert_tick(q, null) from pgq.queue q")
    assert consume(conn) == []


def test_sequences_that_hand_out_blocks_are_named(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queue_with_consumer(conn)
    cached = "select queue_name, sequence_name, cache_size from pgq.cached_sequences()"
    assert conn.execute(cached).fetchall() == []
    conn.execute("alter sequence pgq.event_1_id_seq cache 20")
    assert conn.execute(cached).fetchall() == [("q", "pgq.event_1_id_seq", 20)]
    conn.execute("alter sequence pgq.event_1_id_seq cache 1")
    assert conn.execute(cached).fetchall() == []


@pytest.mark.slow
def test_pg_upgrade_keeps_ids_and_needs_no_rebase(new_cluster: Callable[..., Cluster]) -> None:
    old = new_cluster("sixteen", version=16)
    database = create_database(old, pgq=True)
    conn = database.connect()
    queue_with_consumer(conn)
    insert(conn, "a")
    tick(conn)
    insert(conn, "b")
    identifier = value(conn, "select system_identifier from pg_control_system()")
    conn.close()
    new = new_cluster("eighteen", version=18)
    old.stop(), new.stop()
    checksums = as_account(new, "pg_controldata", new.data)
    if "Data page checksum version:           0" not in checksums:
        as_account(new, "pg_checksums", "--disable", "-D", new.data)
    as_account(
        new, "pg_upgrade", "-U", "postgres", "-b", old.bindir, "-B", new.bindir,
        "-d", old.data, "-D", new.data, "-s", new.directory, cwd=new.directory,
    )  # fmt: skip
    new.up()
    upgraded = Database(new, database.name)
    conn = upgraded.connect()
    assert value(conn, "select system_identifier from pg_control_system()") != identifier
    assert value(conn, "select pgq._is_at_home()")
    assert [found.reason for found in rebase.explain(conn)] == [None]
    assert rebase.rebase(upgraded.dsn) == []
    insert(conn, "c")
    tick(conn)
    assert [consume(conn), consume(conn)] == [["a"], ["b", "c"]]
