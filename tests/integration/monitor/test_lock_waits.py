"""Status names who keeps a session of Londiste waiting for a lock."""

from __future__ import annotations

import psycopg
import pytest

from londiste.monitor import alarms, lock_waits
from londiste.monitor.lock_waits import LockWait
from tests.fixtures.cluster import Database
from tests.support.waiting import wait_for

WORKER = "londiste worker leaf_worker 1@here"


@pytest.fixture
def table(pgq_db: Database) -> Database:
    pgq_db.execute("create table public.t (id int primary key, v int)")
    pgq_db.execute("insert into public.t values (1, 0)")
    return pgq_db


def session(database: Database, name: str, *statements: str) -> psycopg.Connection:
    """A session with an open transaction."""
    conn = database.connect(name=name, autocommit=False)
    for statement in statements:
        conn.execute(statement)
    return conn


def send(conn: psycopg.Connection, statement: str) -> None:
    """Starts a statement and does not wait for its end."""
    conn.pgconn.send_query(statement.encode())
    conn.pgconn.flush()


def waits(database: Database, number: int = 1) -> tuple[LockWait, ...]:
    """The waiting sessions, as soon as there are as many."""
    conn = database.connect()

    def found() -> tuple[LockWait, ...]:
        seen = lock_waits.find(conn, seconds=0)
        return seen if len(seen) == number else ()

    return wait_for(found, what=f"{number} waiting sessions")


def test_the_end_of_a_queue_for_a_table_is_named_and_its_remedy_helps(table: Database) -> None:
    report = session(table, "report", "select * from public.t")
    admin, worker = session(table, "admin"), session(table, WORKER)
    send(admin, "alter table public.t add w int")
    wait_for(
        lambda: table.value("select count(*) from pg_locks where not granted"), what="the admin"
    )
    send(worker, "insert into public.t values (2, 0)")
    (one,) = waits(table)
    assert (one.session, one.pid, one.table) == (WORKER, worker.info.backend_pid, "public.t")
    assert one.holder == f"report of {report.info.user}, process {report.info.backend_pid}"
    assert one.held is not None and 0 <= one.age <= one.held
    assert str(one).startswith(f"{WORKER}, process {one.pid}, has waited 0s for a lock of table")
    table.execute(one.remedy)
    wait_for(lambda: not lock_waits.find(table.connect(), seconds=0), what="the end of the wait")


def test_the_table_of_a_locked_row_is_named(table: Database) -> None:
    other = session(table, "", "update public.t set v = 1")
    worker = session(table, WORKER)
    send(worker, "delete from public.t")
    (one,) = waits(table)
    assert one.table == "public.t"
    assert one.holder == f"a session of {other.info.user}, process {other.info.backend_pid}"


def test_a_prepared_transaction_is_named(table: Database) -> None:
    session(table, "app", "update public.t set v = 1", "prepare transaction 'lock_wait'").close()
    worker = session(table, WORKER)
    send(worker, "truncate public.t")
    (one,) = waits(table)
    assert one.holder == f"prepared transaction lock_wait of {worker.info.user}"
    assert one.held is not None
    assert one.remedy == "commit prepared 'lock_wait', or rollback prepared 'lock_wait'"
    table.execute("rollback prepared 'lock_wait'")


def test_short_waits_and_sessions_of_others_are_left_out(table: Database) -> None:
    session(table, "app", "lock table public.t")
    worker, other = session(table, WORKER), session(table, "other")
    send(worker, "select * from public.t")
    send(other, "select * from public.t")
    waits(table)
    conn = table.connect()
    assert lock_waits.find(conn) == ()
    facts = alarms.collect_facts(conn, "q", [], {}, has_queue=False)
    assert (facts.waits, facts.queues) == ((), None)


def test_a_wait_is_a_warning_with_the_statement_that_ends_it() -> None:
    wait = LockWait(WORKER, 7, 75.0, None, "psql of bob, process 9", 3700.0, "select 9")
    (one,) = lock_waits.findings((wait,), "q")
    assert (one.severity.word, one.kind, one.queue) == ("warning", "lock-wait", "q")
    assert one.what == (
        f"{WORKER}, process 7, has waited 1m15s for a lock: psql of bob, process 9, whose"
        " transaction is 1h1m40s old"
    )
    assert one.do == "end that transaction: select 9"
