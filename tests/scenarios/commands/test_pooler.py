"""Through a real pgbouncer: Londiste's sessions leave no state in server connections."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

import londiste
from londiste.cascade.model import NodeType
from londiste.consumer.function import consumer
from londiste.db import connection
from londiste.db.sessions import pooler as probing
from londiste.errors import SharedBackend
from londiste.pgq import queues
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line
from tests.support.servers.pooler import Pooler
from tests.support.waiting import wait_for

pytestmark = pytest.mark.filterwarnings("error")

#: What a session of ours sets, and another program must not find set.
SETTINGS = (
    "session_replication_role",
    "search_path",
    "row_security",
    "lock_timeout",
    "default_transaction_isolation",
    "TimeZone",
    "jit",
)
PARENTS = """
    create table parent (id int primary key);
    create table child (id int primary key, parent int references parent);
"""
Make = Callable[..., Pooler]


def of_backends(dsn: str) -> set[tuple[str, ...]]:
    """The settings that programs find behind a connection string, in one backend or another."""
    asked = "select " + ", ".join(f"current_setting('{name}')" for name in SETTINGS)
    found = set()
    programs = [psycopg.connect(dsn, autocommit=True) for _ in range(4)]
    try:
        # All at a time: each has a backend of its own.
        for conn in programs:
            conn.prepare_threshold = None
        for conn in programs:
            row = conn.execute(asked).fetchone()
            assert row is not None
            found.add(tuple(row))
    finally:
        for conn in programs:
            conn.close()
    return found


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("size", [1, 2, 20])
def test_a_session_behind_shared_backends_is_refused_and_leaves_nothing(
    pgq_db: Database, pooler: Make, mode: str, size: int
) -> None:
    through = pooler(mode, pgq_db, size=size).dsn(pgq_db)
    before = of_backends(through)
    with pytest.raises(SharedBackend) as caught:
        connection.connect(through, replica=True, autocommit=True)
    assert "a pooler gives each transaction another backend" in caught.value.message
    assert "pool_mode = session" in caught.value.hint
    assert of_backends(through) == before


def test_a_pooler_that_takes_turns_is_found_out(pgq_db: Database, pooler: Make) -> None:
    through = pooler("transaction", pgq_db, size=3).dsn(pgq_db)
    for _ in range(5):
        # Idle backends in another order each time.
        held = [psycopg.connect(through) for _ in range(3)]
        for conn in held:
            conn.execute("select 1")
        for conn in reversed(held):
            conn.close()
        with pytest.raises(SharedBackend):
            connection.connect(through)


def test_a_pooler_in_session_mode_serves_a_worker(
    line: Line, pooler: Make, new_database: Callable[..., Database]
) -> None:
    root = line.node("root", NodeType.ROOT, schema=PARENTS)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=PARENTS)
    line.add(root, "parent", "child")
    line.add(leaf, "parent", "child")
    front = pooler("session", leaf.database)
    line.configure(leaf, db=front.dsn(leaf.database))
    root.database.execute("insert into parent values (1); insert into child values (1, 1)")
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    assert leaf.database.execute("select * from child") == [(1, 1)]
    pids = leaf.database.execute(
        "select pid from pg_stat_activity where application_name like 'londiste worker%'"
        " and datname = current_database()"
    )
    assert len(pids) == 1
    # The worker goes, its backend stays in the pool: as other programs expect it.
    leaf.worker.kill()  # type: ignore[union-attr]
    with psycopg.connect(front.dsn(leaf.database), autocommit=True) as program:
        assert program.execute("show session_replication_role").fetchone() == ("origin",)
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            program.execute("insert into child values (2, 2)")


def test_a_worker_behind_shared_backends_says_what_to_do_and_the_application_goes_on(
    line: Line, pooler: Make
) -> None:
    root = line.node("root", NodeType.ROOT, schema=PARENTS)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=PARENTS)
    front = pooler("transaction", leaf.database)
    line.configure(leaf, db=front.dsn(leaf.database))
    for command in (["worker", "--once"], ["status"], ["copy"]):
        done = line.run(leaf, *command)
        assert done.code == 2, str(done)
        assert "error: " in done.err and "a pooler gives each transaction" in done.err
        assert "hint: connect to the server directly" in done.err
        assert "Traceback" not in done.err
    with psycopg.connect(front.dsn(leaf.database), autocommit=True) as program:
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            program.execute("insert into child values (1, 1)")


@pytest.mark.parametrize("mode", ["session", "transaction", "statement"])
def test_a_consumer_works_where_it_keeps_its_backend_and_says_why_not_elsewhere(
    pgq_db: Database, pooler: Make, mode: str
) -> None:
    queues.create_queue(pgq_db.connect(), "q")
    through = pooler(mode, pgq_db).dsn(pgq_db)
    seen: list[str] = []

    @consumer(queue="q", name="c")
    def taking(event: londiste.Event) -> None:
        seen.append(str(event.data))

    take = taking(through)
    if mode != "session":
        with pytest.raises(SharedBackend) as caught:
            take.register()
        assert "session settings, locks and LISTEN would stay" in caught.value.detail
        return
    take.register()
    pgq_db.execute("select pgq.insert_event('q', 't', 'one')")
    pgq_db.execute("select pgq.force_tick('q')")
    pgq_db.execute("select pgq.ticker('q')")
    take.run_once()
    assert seen == ["one"]


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_producers_and_consumers_in_sql_work_behind_shared_backends(
    pgq_db: Database, pooler: Make, mode: str
) -> None:
    queues.create_queue(pgq_db.connect(), "q")
    pgq_db.execute("select pgq.register_consumer('q', 'c')")
    through = pooler(mode, pgq_db, size=2).dsn(pgq_db)
    with psycopg.connect(through, autocommit=True, prepare_threshold=None) as app:
        app.execute("select pgq.insert_event('q', 't', 'one')")
        pgq_db.execute("select pgq.force_tick('q')")
        pgq_db.execute("select pgq.ticker('q')")
        (batch,) = app.execute("select pgq.next_batch('q', 'c')").fetchone() or (None,)
        events = app.execute("select ev_data from pgq.get_batch_events(%s)", [batch]).fetchall()
        assert events == [("one",)]
        assert app.execute("select pgq.finish_batch(%s)", [batch]).fetchone() == (1,)


def test_a_session_has_the_replica_role_in_its_transactions_only(pgq_db: Database) -> None:
    conn = connection.connect(pgq_db.dsn, replica=True, autocommit=True)
    ask = "show session_replication_role"
    assert conn.execute(ask).fetchone() == ("origin",)
    with conn.transaction():
        assert conn.execute(ask).fetchone() == ("replica",)
        with conn.transaction():
            assert conn.execute(ask).fetchone() == ("replica",)
        assert conn.execute(ask).fetchone() == ("replica",)
    assert conn.execute(ask).fetchone() == ("origin",)
    conn.close()


def test_what_two_sessions_see_decides() -> None:
    one, two = (11, "today"), (12, "today")
    assert not probing.shared(one, two, one)
    assert not probing.shared(one, None, one)
    assert probing.shared(one, one, one)
    assert probing.shared(one, two, two)
    assert probing.shared(one, None, two)
    # Two servers behind one pooler may have handed out the same number.
    assert not probing.shared(one, (11, "yesterday"), one)


def test_a_session_through_a_pooler_knows_its_backend(pgq_db: Database, pooler: Make) -> None:
    conn = connection.connect(pooler("session", pgq_db).dsn(pgq_db), autocommit=True)
    pid = conn.execute("select pg_backend_pid()").fetchone()
    assert pid == (connection.server_pid(conn),)
    wait_for(lambda: conn.info.backend_pid != pid, what="another number of the pooler")
    conn.close()
