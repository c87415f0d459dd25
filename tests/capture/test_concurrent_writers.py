"""Concurrent sessions write the same rows, some are killed: replay ends with equal rows.

Meanwhile the queue is ticked and rotated, batches are replayed, columns are added, the form of
capture changes, and writers are killed.
"""

from __future__ import annotations

import itertools
import random
import subprocess
import sys
import threading

import psycopg
import pytest

from tests.capture.cases import MAIN, Case, Copy, Undone
from tests.capture.pair import USERS_OWN, Pair
from tests.capture.schemas import random_schema
from tests.capture.statements import LEVELS, Writing
from tests.fixtures.cascade import QUEUE
from tests.support.queue_events import writer
from tests.support.suite.slow import first
from tests.support.waiting import wait_for

WRITERS = 4
TRANSACTIONS = 25
#: Deadlocks, writers that others overtook, and columns that came while a statement was made.
OVERTAKEN = {"40001", "40P01", "55P03"}
FORMS = itertools.cycle(["form=statement", "form=row", "form=auto"])


class Session(threading.Thread):
    """One application; ``broken`` is an error that no application should meet."""

    def __init__(self, pair: Pair, case: Case, writing: Writing, seed: int) -> None:
        super().__init__()
        self.conn = writer(pair.source.info.dsn)
        pair.set(self.conn, case)
        self.conn.execute("set deadlock_timeout = '20ms'")
        self.writing = writing
        self.random = random.Random(seed)
        self.broken: Exception | None = None
        self.committed = 0

    def run(self) -> None:
        try:
            for _ in range(TRANSACTIONS):
                self.transaction()
        except Exception as error:
            self.broken = error
        finally:
            self.conn.close()

    def transaction(self) -> None:
        self.conn.execute(f"begin isolation level {self.random.choice(LEVELS)}")
        try:
            for _ in range(self.random.choice([1, 1, 2, 4])):
                statement = self.writing.statement()
                if isinstance(statement, Copy | Undone):
                    continue
                self.conn.execute(statement.encode())
            self.conn.execute("commit")
            self.committed += 1
        except psycopg.Error as error:
            ours = (error.diag.schema_name or "") in {"pgq", "londiste"}
            if ours or error.sqlstate not in USERS_OWN | OVERTAKEN:
                raise
            self.conn.execute("rollback")


@pytest.mark.parametrize("seed", first(range(1, 7)))
def test_writers_of_the_same_rows(pair: Pair, seed: int) -> None:
    run(pair, seed)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(5))
def test_many_writers_of_the_same_rows(pair: Pair, part: int) -> None:
    for seed in range(1000 + 40 * part, 1040 + 40 * part):
        run(pair, seed)


def run(pair: Pair, seed: int) -> None:
    source = random.Random(seed)
    version = pair.source.info.server_version // 10000
    schema = random_schema(source, ("row", "statement", "auto"), tame=False, version=version)
    case = Case(
        seed,
        tables=schema.captured,
        made=tuple(schema.made),
        extras=tuple(schema.extras),
        target=tuple(schema.target),
        steps=(),
        packed=source.random() < 0.7,
    )
    pair.make(case)
    try:
        pair.app.execute(Writing(source, schema, version).insert_many().encode())
    except psycopg.Error as error:
        # a trigger of the case may refuse what it does itself
        if error.sqlstate not in USERS_OWN:
            raise
    sessions = [
        Session(pair, case, Writing(random.Random(seed * 100 + n), schema, version), seed * 100 + n)
        for n in range(WRITERS)
    ]
    for session in sessions:
        session.start()
    number = 0
    while any(session.is_alive() for session in sessions):
        number += 1
        disturb(pair, case, schema.main.heir, number)
        if number % 3 == 0:
            pair.replay()
        elif number % 3 == 1:
            pair.tick()
            pair.rotate()
    for session in sessions:
        session.join()
        if session.broken is not None:
            raise AssertionError(f"seed {seed}\n{case}") from session.broken
    assert sum(session.committed for session in sessions)
    pair.replay()
    for table, options in case.tables.items():
        pair.compare(table, options)


KEYS = {
    "deferred": "id int4 primary key deferrable initially deferred, n int4, v text",
    "immediate": "id int4 primary key deferrable, n int4, v text",
    "text": "id numeric primary key deferrable initially deferred, n int4, v text",
    "partitioned": "id int4 primary key deferrable initially deferred, n int4, v text",
}


@pytest.mark.parametrize("level", ["read committed", "repeatable read"])
@pytest.mark.parametrize("kind", KEYS)
def test_a_key_that_is_handed_on_between_two_commits(pair: Pair, kind: str, level: str) -> None:
    made = [f"create table {MAIN} ({KEYS[kind]})"]
    if kind == "partitioned":
        made[0] += " partition by hash (id)"
        made += [
            f"create table app.t{n} partition of {MAIN} for values with (modulus 2, remainder {n})"
            for n in (0, 1)
        ]
    pair.make(
        Case(
            0, tables={MAIN: ("form=statement",)}, made=tuple(made), extras=(), target=(), steps=()
        )
    )
    pair.app.execute(
        f"insert into {MAIN} select g, 1, 'old' from generate_series(1, 9) as g".encode()
    )
    with writer(pair.source.info.dsn) as one, writer(pair.source.info.dsn) as other:
        one.execute(f"begin isolation level {level}".encode())
        one.execute("set constraints all deferred")
        one.execute(
            f"insert into {MAIN} values (5, 2, 'new'), (6, 2, 'new'), (7, 2, 'new')".encode()
        )
        one.execute(f"update {MAIN} set v = 'newer' where id = 6 and n = 2".encode())
        other.execute(f"delete from {MAIN} where n = 1 and id in (5, 7)".encode())
        other.execute(f"update {MAIN} set id = 60 where n = 1 and id = 6".encode())
        with one.transaction():
            one.execute(f"update {MAIN} set v = 'newest' where id = 7 and n = 2".encode())
        one.execute("commit")
    pair.replay()
    pair.compare(MAIN)


def disturb(pair: Pair, case: Case, heir: str, number: int) -> None:
    """Adds a column, refreshes the capture, or gives it another form, if it gets the lock."""
    pair.source.execute("set lock_timeout = '30ms'")
    options = [o for o in case.tables[MAIN] if not o.startswith("form=")]
    try:
        if number % 8 == 1 and number < 30:
            text = f"alter table {MAIN} add more{number} text default 'x'"
            pair.source.execute(text.encode())
            pair.target.execute(text.encode())
        elif number % 8 == 3:
            pair.source.execute("select londiste.refresh_capture(%s, %s)", [QUEUE, MAIN])
        elif number % 8 == 6 and not heir:
            pair.source.execute(
                "select londiste.create_capture(%s, %s, %s::text[])",
                [QUEUE, MAIN, [*options, next(FORMS)]],
            )
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
        pass
    finally:
        pair.source.execute("reset lock_timeout")


KILLED = r"""
import sys, psycopg
with psycopg.connect(sys.argv[1], autocommit=True, application_name="to be killed") as conn:
    for n in range(1000000):
        try:
            conn.execute("begin")
            conn.execute("update app.t set n = n + 1 where id %% 3 = %s", [n % 3])
            conn.execute("insert into app.t select g, %s::int"
                         " from generate_series(%s::int, %s::int) as g"
                         " on conflict (id) do update set n = excluded.n", [n, n % 40, n % 40 + 12])
            print("open", flush=True)
            conn.execute("delete from app.t where id %% 5 = %s", [n % 5])
            conn.execute("update app.t set id = -id where id = %s", [n % 40])
            conn.execute("commit")
        except psycopg.IntegrityError:
            conn.execute("rollback")
        except psycopg.errors.DeadlockDetected:
            conn.execute("rollback")
"""


@pytest.mark.parametrize("form", first(["statement", "row"]))
def test_writers_that_are_killed_leave_whole_transactions(pair: Pair, form: str) -> None:
    case = Case(
        0,
        tables={MAIN: (f"form={form}",)},
        made=("create table app.t (id int4 primary key, n int4, v text)",),
        extras=(),
        steps=(),
    )
    pair.make(case)
    pair.app.execute("insert into app.t select g, g from generate_series(1, 40) as g")
    for turn in range(2):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", KILLED, pair.source.info.dsn],
                stdout=subprocess.PIPE,
                stderr=None,
            )
            for _ in range(2)
        ]
        for number, process in enumerate(writers):
            assert process.stdout is not None
            if number == 0:
                # the other one may wait for its rows
                for _ in range(3 * turn + 1):
                    assert process.stdout.readline() == b"open\n"
        for process in writers:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
        wait_for(
            lambda: (
                pair.source.execute(
                    "select count(*) from pg_stat_activity where application_name = 'to be killed'"
                ).fetchone()
                == (0,)
            ),
            what="the killed writers' sessions to end",
        )
        pair.replay()
        pair.compare(MAIN)
