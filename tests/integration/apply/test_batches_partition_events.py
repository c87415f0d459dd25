"""Every committed event comes exactly once, in order, out of the batch it belongs to; no other.

One test runs random steps of several sessions one after another, so that it knows what each batch
has to hold.  The other lets writers, ticker, rotation and a consumer loose at the same time.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from londiste.db.connection import Connection
from londiste.pgq import batches, queues
from tests.fixtures.cluster import Database
from tests.support.queue_steps import rotate, value

SESSIONS = 4
LEVELS = ("read committed", "repeatable read", "serializable")
STEPS = (
    *("insert", "insert", "insert", "commit", "commit", "rollback"),
    *("savepoint", "rollback to", "release", "many subtransactions", "prepare", "burn"),
    *("tick", "tick", "tick", "rotate", "rotate", "consume"),
)
Steps = list[tuple[str, int, int]]
_numbers = itertools.count(1)

#: 70 subtransactions are more than a server keeps in memory for a session; every third fails.
MANY_SUBTRANSACTIONS = """
do $do$
begin
    for n in 1..70 loop
        begin
            perform pgq.insert_event({queue}, 't', {data} || '.' || n);
            if n % 3 = 0 then
                raise exception 'undone';
            end if;
        exception
            when raise_exception then null;
        end;
    end loop;
end;
$do$
"""

#: Each in a transaction of its own, so that ids move on between those that run and the next.
BURN = (
    "do $$ begin for n in 1..120 loop perform pg_catalog.txid_current(); commit; end loop; end $$"
)


class Writer:
    """A session with at most one open transaction, and what that would deliver."""

    def __init__(self, database: Database, queue: str) -> None:
        self.database, self.queue = database, queue
        self.conn = database.connect()
        self.levels: list[list[str]] = []
        self.number = 0

    def insert(self, data: str) -> None:
        self.conn.execute("select pgq.insert_event(%s, 't', %s)", [self.queue, data])
        self.levels[-1].append(data)

    def many(self, data: str) -> None:
        statement = psycopg.sql.SQL(MANY_SUBTRANSACTIONS).format(
            queue=psycopg.sql.Literal(self.queue), data=psycopg.sql.Literal(data)
        )
        self.conn.execute(statement)
        self.levels[-1] += [f"{data}.{n}" for n in range(1, 71) if n % 3]

    def begin(self, which: int) -> None:
        if not self.levels:
            self.conn.execute(f"begin isolation level {LEVELS[which % len(LEVELS)]}")
            self.conn.execute("select 1")  # the snapshot of the stricter levels
            self.levels = [[]]

    def end(self, command: str) -> list[str]:
        """Commits or rolls back; the events that are there from now on."""
        if not self.levels:
            return []
        kept = [data for level in self.levels for data in level]
        self.levels = []
        if command == "prepare":
            name = f"{self.queue}_{next(_numbers)}"
            self.conn.execute(psycopg.sql.SQL("prepare transaction {}").format(name))
            self.conn.execute(psycopg.sql.SQL("commit prepared {}").format(name))
            return kept
        self.conn.execute(command)
        return kept if command == "commit" else []


class Scenario:
    """A queue, its writers, and for each tick the events that were committed before it."""

    def __init__(self, database: Database) -> None:
        self.queue = f"q{next(_numbers)}"
        self.admin = database.connect()
        queues.create_queue(self.admin, self.queue)
        queues.set_queue_config(self.admin, self.queue, "rotation_period", "0")
        batches.register_consumer(self.admin, self.queue, "c")
        self.writers = [Writer(database, self.queue) for _ in range(SESSIONS)]
        self.since_tick: set[str] = set()
        self.expected: list[set[str]] = []
        self.rotations = 0
        self.count = 0

    def run(self, steps: Steps) -> None:
        for step, which, number in steps:
            self.step(step, self.writers[which % SESSIONS], number)
        for writer in self.writers:
            self.since_tick.update(writer.end("commit"))
        self.step("tick", self.writers[0], 0)
        while self.expected:
            self.step("consume", self.writers[0], 0)
        assert batches.next_batch(self.admin, self.queue, "c") is None

    def step(self, step: str, writer: Writer, number: int) -> None:
        self.count += 1
        if step in {"insert", "many subtransactions"}:
            writer.begin(number)
            (writer.insert if step == "insert" else writer.many)(f"e{self.count}")
        elif step in {"commit", "rollback", "prepare"}:
            self.since_tick.update(writer.end(step))
        elif step == "savepoint":
            writer.begin(number)
            writer.conn.execute(f"savepoint s{len(writer.levels)}")
            writer.levels.append([])
        elif step in {"rollback to", "release"} and len(writer.levels) > 1:
            lost = writer.levels.pop()
            writer.conn.execute(f"{step} s{len(writer.levels)}")
            if step == "release":
                writer.levels[-1] += lost
        elif step == "burn":
            self.admin.execute(BURN)
        elif step == "tick":
            queues.force_tick(self.admin, self.queue)
            assert queues.ticker(self.admin, self.queue) is not None
            self.expected.append(self.since_tick)
            self.since_tick = set()
        elif step == "rotate":
            self.rotate()
        elif step == "consume" and self.expected:
            self.consume()

    def rotate(self) -> None:
        before = queues.get_queue_info(self.admin, self.queue)[0].queue_cur_table
        rotate(self.admin, self.queue)
        after = queues.get_queue_info(self.admin, self.queue)[0].queue_cur_table
        self.rotations += before != after

    def consume(self) -> None:
        batch = batches.next_batch(self.admin, self.queue, "c")
        assert batch is not None
        events = [e for chunk in batches.events(self.admin, batch, chunk=7) for e in chunk]
        ids = [event.id for event in events]
        assert ids == sorted(set(ids)), "events in the order of their ids, none twice"
        found = [event.data for event in events]
        assert len(found) == len(set(found))
        assert set(found) == self.expected.pop(0)
        assert batch.prev_event_seq <= batch.event_seq
        assert all(event_id <= batch.event_seq for event_id in ids)
        batches.finish_batch(self.admin, batch.id)

    def close(self) -> None:
        for writer in self.writers:
            writer.conn.close()
        queues.drop_queue(self.admin, self.queue, force=True)
        self.admin.close()


def a_long_writer(level: int, rounds: int) -> Steps:
    """One transaction that writes, then sees many ticks and rotations pass, and writes again."""
    steps: Steps = [("savepoint", 1, level), ("insert", 0, level)]
    for _ in range(rounds):
        steps += [("insert", 2, 0), ("commit", 2, 0), ("burn", 0, 0), ("tick", 0, 0)]
        steps += [("consume", 0, 0), ("rotate", 0, 0)]
    steps += [("insert", 0, 0), ("insert", 1, 0), ("commit", 1, 0), ("tick", 0, 0)]
    steps += [("many subtransactions", 0, 0), ("commit", 0, 0), ("tick", 0, 0), ("consume", 0, 0)]
    return steps


STEP_LISTS = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, SESSIONS - 1), st.integers(0, 2)),
    min_size=10,
    max_size=60,
)


@pytest.mark.parametrize("examples", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_each_batch_holds_what_was_committed_between_its_ticks(
    pgq_db: Database, examples: int
) -> None:
    @settings(max_examples=examples, suppress_health_check=[HealthCheck.too_slow])
    @given(steps=STEP_LISTS)
    @example(steps=a_long_writer(0, 4))
    @example(steps=a_long_writer(1, 1))
    @example(steps=a_long_writer(1, 4))
    @example(steps=a_long_writer(2, 2))
    def holds(steps: Steps) -> None:
        scenario = Scenario(pgq_db)
        try:
            scenario.run(steps)
        finally:
            scenario.close()

    holds()


def test_tables_go_round_while_a_long_reader_of_nothing_writes_late(pgq_db: Database) -> None:
    """The examples above do rotate: a transaction without an id holds no rotation back."""
    scenario = Scenario(pgq_db)
    try:
        steps: Steps = [("savepoint", 1, 1)]
        for _ in range(5):
            steps += [("insert", 2, 0), ("commit", 2, 0), ("tick", 0, 0), ("consume", 0, 0)]
            steps += [("rotate", 0, 0)]
        scenario.run([*steps, ("insert", 1, 1), ("tick", 0, 0), ("rotate", 0, 0)])
        assert scenario.rotations >= 4
    finally:
        scenario.close()


class Crowd:
    """Writers, ticker, rotation and consumer of one queue, all at the same time."""

    def __init__(self, database: Database, transactions: int) -> None:
        self.database, self.transactions = database, transactions
        self.written = threading.Event()

    def write(self, seed: int) -> list[str]:
        """Random transactions; the events that were committed."""
        choose = random.Random(seed)
        conn = self.database.connect()
        committed: list[str] = []
        for nr in range(self.transactions):
            names = [f"{seed}.{nr}.{n}" for n in range(choose.randint(1, 5))]
            fate = choose.choice(("commit", "commit", "commit", "rollback", "savepoint"))
            level = choose.choice(LEVELS)
            conn.execute(f"begin isolation level {level}")
            try:
                if level != LEVELS[0]:
                    conn.execute("select pg_catalog.pg_sleep(%s)", [choose.choice((0, 0.01))])
                for name in names:
                    conn.execute("savepoint s")
                    conn.execute("select pgq.insert_event('q', 't', %s)", [name])
                    if fate == "savepoint" and choose.random() < 0.5:
                        conn.execute("rollback to s")
                        names = [kept for kept in names if kept != name]
                if fate == "rollback":
                    conn.execute("rollback")
                    continue
                conn.execute("commit")
            except psycopg.errors.SerializationFailure:
                conn.execute("rollback")
                continue
            committed += names
        return committed

    def tick(self) -> None:
        conn = self.database.connect()
        while not self.written.is_set():
            queues.force_tick(conn, "q")
            queues.ticker(conn)

    def rotate(self) -> int:
        conn = self.database.connect()
        seen: list[int] = []
        while not self.written.is_set():
            rotate(conn, "q")
            table = queues.get_queue_info(conn, "q")[0].queue_cur_table
            if seen[-1:] != [table]:
                seen.append(table)
        return len(seen)

    def read(self, consumer: str) -> Iterator[list[str]]:
        """The events of each batch, until the last tick after the last writer."""
        conn: Connection = self.database.connect()
        finished = False
        while True:
            batch = batches.next_batch(conn, "q", consumer)
            if batch is None:
                if finished:
                    return
                if self.written.is_set():
                    finished = True
                    queues.force_tick(conn, "q")
                    queues.ticker(conn)
                continue
            events = [e for chunk in batches.events(conn, batch, chunk=50) for e in chunk]
            assert [e.id for e in events] == sorted({e.id for e in events})
            yield [str(e.data) for e in events]
            batches.finish_batch(conn, batch.id)


@pytest.mark.parametrize("seed", [1])
def test_nothing_is_lost_or_repeated_in_a_crowd(pgq_db: Database, seed: int) -> None:
    conn = pgq_db.connect()
    queues.create_queue(conn, "q")
    queues.set_queue_config(conn, "q", "rotation_period", "0")
    for consumer in ("a", "b"):
        batches.register_consumer(conn, "q", consumer)
    crowd = Crowd(pgq_db, transactions=80)
    with ThreadPoolExecutor(8) as threads:
        tickers = [threads.submit(crowd.tick) for _ in range(2)]
        rotation = threads.submit(crowd.rotate)
        readers = [threads.submit(lambda c=c: list(crowd.read(c))) for c in ("a", "b")]
        writers = [threads.submit(crowd.write, seed * 10 + n) for n in range(3)]
        try:
            committed = [name for writer in writers for name in writer.result(timeout=120)]
        finally:
            crowd.written.set()
        for ticker in tickers:
            ticker.result(timeout=60)
        found = [reader.result(timeout=60) for reader in readers]
        switches = rotation.result(timeout=60)
    assert committed
    for of_reader in found:
        assert sorted(name for batch in of_reader for name in batch) == sorted(committed)
    assert switches > 1
    assert value(conn, "select count(*) from pgq.subscription") == 2
