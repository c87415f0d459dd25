"""Rotation while producers look up the current event table: every event is stored once.

Readers would also find events of another table, so where they stand is looked at as well.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.support.queue_steps import column, queue_with_consumer, value

WRITERS = 4
#: That a writer makes at least; it goes on until all event tables were current.
TRANSACTIONS = 40
#: Of the disturber, until which all event tables were current.
MOST_TURNS = 2_000
LEVELS = ("read committed", "repeatable read", "serializable")
#: Ended by the test, or overtaken by another writer.
EXPECTED = (psycopg.OperationalError, psycopg.errors.SerializationFailure)


class Writer(threading.Thread):
    """Inserts rows with numbers of its own, in transactions of every kind."""

    def __init__(self, dsn: str, number: int, seed: int, levels: tuple[str, ...]) -> None:
        super().__init__()
        self.dsn = dsn
        self.levels = levels
        self.random = random.Random(seed * 100 + number)
        self.next = number * 1_000_000
        self.may_end = threading.Event()
        self.broken: Exception | None = None

    def run(self) -> None:
        conn = psycopg.connect(self.dsn, autocommit=True, application_name="a writer")
        try:
            for done in itertools.count():
                if done >= TRANSACTIONS and self.may_end.is_set():
                    break
                try:
                    self.transaction(conn, f"w{self.next}_{done}")
                except EXPECTED:
                    conn.close()
                    conn = psycopg.connect(self.dsn, autocommit=True, application_name="a writer")
        except Exception as error:
            self.broken = error
        finally:
            conn.close()

    def transaction(self, conn: psycopg.Connection, name: str) -> None:
        conn.execute(f"begin isolation level {self.random.choice(self.levels)}")
        for _ in range(self.random.choice((1, 1, 3))):
            kind = self.random.randrange(4)
            if kind == 0:
                conn.execute("savepoint s")
            rows = self.random.choice((1, 1, 2, 20))
            conn.execute(
                f"insert into {self.random.choice(('rows', 'statements'))}"
                " select n from generate_series(%s::int, %s) n",
                [self.next, self.next + rows - 1],
            )
            self.next += rows
            if kind == 0:
                conn.execute(f"{self.random.choice(('rollback to', 'release'))} savepoint s")
        end = self.random.choice(("commit", "commit", "rollback", "prepare"))
        if end == "prepare":
            conn.execute(f"prepare transaction '{name}'")
            conn.execute(f"commit prepared '{name}'")
        else:
            conn.execute(end.encode())


@pytest.fixture
def queue(pgq_db: Database) -> Iterator[Database]:
    conn = pgq_db.connect()
    queue_with_consumer(conn)
    for table, form in (("rows", "row"), ("statements", "statement")):
        conn.execute(f"create table public.{table} (id int8 primary key)")
        conn.execute(
            "select londiste.create_capture('q', %s, %s)", [f"public.{table}", [f"form={form}"]]
        )
    yield pgq_db
    # A writer that was ended between both commands leaves one behind.
    for name in column(
        conn, "select gid from pg_prepared_xacts where database = current_database()"
    ):
        conn.execute(f"rollback prepared '{name}'")


def keys_of_next_batch(conn: Connection) -> list[int]:
    """The keys of the rows that the next batch tells of."""
    conn.execute("select pgq.force_tick('q')")
    conn.execute("select pgq.ticker('q')")
    batch = value(conn, "select pgq.next_batch('q', 'c')")
    found = column(conn, "select ev_extra3 from pgq.get_batch_events(%s)", batch)
    conn.execute("select pgq.finish_batch(%s)", [batch])
    return [int(key) for keys in found for key in keys.split("\n")]


def disturb(conn: Connection, turn: int) -> None:
    """A rotation, one that fails, a change of the queue, or the end of a writer."""
    if turn % 5 == 1:
        with conn.transaction(force_rollback=True):
            conn.execute("select pgq.maint_rotate_tables_step1('q')")
    elif turn % 7 == 2:
        conn.execute(
            "select pgq.set_queue_config('q', 'packed_events', %s)", [str(turn % 2 == 0).lower()]
        )
    elif turn % 11 == 3:
        conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'a writer' and datname = current_database() limit 1"
        )
    conn.execute("select pgq.maint_rotate_tables_step1('q')")
    if turn % 3:
        conn.execute("select pgq.maint_rotate_tables_step2()")
    conn.execute("select pgq.maint_open_ways()")


def misplaced(conn: Connection) -> list[tuple[str, int]]:
    """Events outside the current table that are newer than the switch to it."""
    return conn.execute(
        "select e.tableoid::regclass::text, e.ev_txid"
        " from pgq.event_template e cross join pgq.queue q"
        " where e.ev_txid > q.queue_switch_step2"
        " and e.tableoid <> (q.queue_data_pfx || '_' || q.queue_cur_table)::regclass"
    ).fetchall()


@pytest.mark.parametrize(("seed", "levels"), [(1, LEVELS), (2, LEVELS[:1])])
def test_every_committed_event_is_read_once_however_often_the_tables_change(
    queue: Database, seed: int, levels: tuple[str, ...]
) -> None:
    storm(queue, seed, levels)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
def test_many_storms(queue: Database, seed: int) -> None:
    storm(queue, seed, LEVELS[: 1 + seed % 2 * 2])


def storm(queue: Database, seed: int, levels: tuple[str, ...]) -> None:
    """Writers and rotations beside each other; then the events are those of the tables."""
    conn = queue.connect()
    writers = [Writer(queue.dsn, number, seed, levels) for number in range(1, WRITERS + 1)]
    seen: Counter[int] = Counter()
    tables = set()
    for writer in writers:
        writer.start()
    turn = 0
    while any(writer.is_alive() for writer in writers):
        turn += 1
        # An old snapshot may show insert_event() the table of before.
        assert len(levels) > 1 or misplaced(conn) == []
        disturb(conn, turn)
        seen.update(keys_of_next_batch(conn))
        tables.add(value(conn, "select queue_cur_table from pgq.queue"))
        if tables == {0, 1, 2} or turn >= MOST_TURNS:
            for writer in writers:
                writer.may_end.set()
    for writer in writers:
        writer.join()
        if writer.broken is not None:
            raise writer.broken
    for name in column(
        conn, "select gid from pg_prepared_xacts where database = current_database()"
    ):
        conn.execute(f"commit prepared '{name}'")
    for _ in range(3):
        seen.update(keys_of_next_batch(conn))
    assert tables == {0, 1, 2}, "it has not rotated"
    assert seen == Counter(
        column(conn, "select id from public.rows union all select id from public.statements")
    )
