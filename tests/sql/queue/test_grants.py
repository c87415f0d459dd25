"""Each role has exactly the rights that it stands for."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database
from tests.support.queue_steps import (
    consume,
    insert,
    queue_with_consumer,
    refused_like,
    rotate,
    tick,
    value,
)


@pytest.fixture
def stranger(pgq_db: Database) -> Iterator[str]:
    """A role that is a member of nothing."""
    name = f"stranger_{pgq_db.name}"
    pgq_db.execute(f"create role {name}")
    yield name
    pgq_db.execute(f"drop role {name}")


@pytest.fixture
def queue(pgq_db: Database) -> Database:
    queue_with_consumer(pgq_db.connect())
    return pgq_db


def session_of(database: Database, role: str) -> Connection:
    conn = database.connect()
    conn.execute(f"set role {role}")
    return conn


def test_every_such_function_pins_its_search_path(pgq_db: Database) -> None:
    loose = pgq_db.execute(
        "select oid::regprocedure::text from pg_proc"
        " where pronamespace = 'pgq'::regnamespace and prosecdef"
        " and not coalesce(proconfig, '{}') @> array['search_path=pg_catalog, pg_temp']"
    )
    assert loose == []


def test_roles_are_groups_and_the_administrator_is_in_both(pgq_db: Database) -> None:
    found = pgq_db.execute(
        "select rolname, rolcanlogin, pg_has_role('pgq_admin', oid, 'member')"
        " from pg_roles where rolname in ('pgq_reader', 'pgq_writer', 'pgq_admin') order by 1"
    )
    assert found == [(r, False, True) for r in ("pgq_admin", "pgq_reader", "pgq_writer")]


def test_tables_are_for_the_roles_that_need_them(queue: Database, stranger: str) -> None:
    event_table = queue.value("select queue_data_pfx || '_0' from pgq.queue")
    parent = queue.value("select queue_data_pfx from pgq.queue")
    state = ("pgq.consumer", "pgq.queue", "pgq.tick", "pgq.subscription")
    events = ("pgq.event_template", parent, event_table)
    aside = ("pgq.retry_queue", "pgq.failed_queue", "pgq.delayed_event", "pgq.event_key")
    dml = ("select", "insert", "update", "delete")
    allowed = (
        {(r, t, "select") for r in (stranger, "pgq_reader", "pgq_writer") for t in state}
        | {("pgq_admin", t, p) for t in (*state, *aside) for p in dml}
        | {("pgq_reader", t, "select") for t in events}
        | {("pgq_admin", t, p) for t in events for p in ("select", "insert", "truncate")}
    )
    for role in (stranger, "pgq_reader", "pgq_writer", "pgq_admin"):
        for table in (*state, *aside, *events):
            for privilege in (*dml, "truncate"):
                found = queue.value(
                    "select has_table_privilege(%s, %s, %s)", role, table, privilege
                )
                assert found == ((role, table, privilege) in allowed), (role, table, privilege)


def test_a_writer_writes_and_a_reader_reads(queue: Database) -> None:
    writer = session_of(queue, "pgq_writer")
    assert value(writer, "select pgq.insert_event('q', 't', 'd')") == 1
    admin = session_of(queue, "pgq_admin")
    reader = session_of(queue, "pgq_reader")
    assert value(reader, "select pgq.force_tick('q')") == 1
    assert value(admin, "select pgq.ticker()") == 1
    batch = value(reader, "select pgq.next_batch('q', 'c')")
    assert value(reader, "select ev_data from pgq.get_batch_events(%s)", batch) == "d"
    with reader.transaction():
        assert value(reader, "select pgq.get_batch_cursor(%s, 'c', 1)", batch)
    assert value(reader, "select pgq.event_retry(%s, 1, 0)", batch) == 1
    assert value(reader, "select pgq.finish_batch(%s)", batch) == 1
    assert value(reader, "select pgq.register_consumer('q', 'mine')") == 1
    assert value(reader, "select pgq.unregister_consumer('q', 'mine')") == 1


def test_an_administrator_who_owns_nothing_looks_after_queues(queue: Database) -> None:
    admin = session_of(queue, "pgq_admin")
    assert value(admin, "select pgq.create_queue('new')") == 1
    assert value(admin, "select pgq.register_consumer('new', 'c')") == 1
    assert value(admin, "select pgq.set_queue_config('new', 'rotation_period', '0')") == 1
    raw = "select pgq.insert_event_raw('new', null, null, null, null, 't', 'd', null, null, null,"
    assert value(admin, raw + " null)") == 1
    table = value(admin, "select pgq.current_event_table('new')")
    with admin.cursor() as cursor, cursor.copy(f"copy {table} (ev_time) from stdin") as copy:
        copy.write_row(["2020-01-01"])
    admin.execute("select pgq.force_tick('new'), pgq.ticker('new')")
    batch = value(admin, "select pgq.next_batch('new', 'c')")
    assert value(admin, "select count(*) from pgq.get_batch_events(%s)", batch) == 2
    admin.execute("select pgq.batch_retry(%s, 0), pgq.finish_batch(%s)", [batch, batch])
    assert value(admin, "select pgq.maint_retry_events()") == 2
    operations = admin.execute("select func_name, func_arg from pgq.maint_operations()").fetchall()
    assert ("pgq.maint_rotate_tables_step1", "new") in operations
    admin.execute("select pgq.maint_rotate_tables_step1('new')")
    admin.execute("select pgq.maint_rotate_tables_step2()")
    assert value(admin, "select queue_cur_table from pgq.queue where queue_name = 'new'") == 1
    assert value(admin, "select pgq.drop_queue('new', true)") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "select pgq.create_queue('x')",
        "select pgq.insert_event('q', 't', 'd')",
        "select pgq.register_consumer('q', 'x')",
        "select pgq.ticker()",
        "select * from pgq.event_template",
        "select * from pgq.retry_queue",
        "delete from pgq.queue",
    ],
)
def test_a_stranger_is_refused(queue: Database, stranger: str, statement: str) -> None:
    conn = session_of(queue, stranger)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute(statement)


def test_a_stranger_sees_how_things_stand(queue: Database, stranger: str) -> None:
    conn = session_of(queue, stranger)
    assert value(conn, "select queue_name from pgq.get_queue_info()") == "q"
    assert value(conn, "select consumer_name from pgq.get_consumer_info()") == "c"
    assert value(conn, "select pgq.version()")


def test_privileges_of_the_template_are_those_of_new_queues(queue: Database, stranger: str) -> None:
    queue.execute(f"grant select on pgq.event_template to {stranger} with grant option")
    queue.execute("grant insert on pgq.event_template to public")
    queue.execute("select pgq.create_queue('new')")
    table = queue.value("select queue_data_pfx || '_2' from pgq.queue where queue_name = 'new'")
    look = "select has_table_privilege(%s, %s, %s)"
    assert queue.value(look, stranger, table, "select with grant option")
    assert queue.value(look, "pgq_writer", table, "insert")
    old = queue.value("select queue_data_pfx || '_2' from pgq.queue where queue_name = 'q'")
    assert not queue.value(look, stranger, old, "select")
    assert queue.value("select pgq.grant_perms('q')") == 1
    assert queue.value(look, stranger, old, "select")
    queue.execute(f"drop owned by {stranger}")


def test_granting_on_an_unknown_queue_is_refused(queue: Database) -> None:
    conn = queue.connect()
    with pytest.raises(psycopg.Error) as caught:
        conn.execute("select pgq.grant_perms('nope')")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (
        "LD001",
        "Queue not found",
    )


@pytest.mark.parametrize("function", ["grant_produce", "revoke_produce"])
def test_a_right_of_no_role_is_refused(queue: Database, function: str) -> None:
    conn = queue.connect()
    with pytest.raises(psycopg.Error) as caught:
        conn.execute(f"select pgq.{function}('q', null)".encode())
    assert caught.value.sqlstate == "LD005"


@pytest.mark.parametrize("txid", [9_000_000_000_000_000_000, 9_223_372_036_854_775_807])
def test_an_id_that_no_transaction_has_had_keeps_no_event_table(
    queue: Database, stranger: str, txid: int
) -> None:
    conn = queue.connect()
    conn.execute("select pgq.set_queue_config('q', 'ntables', '4')")
    conn.execute("select pgq.grant_produce('q', %s)", [stranger])
    with session_of(queue, stranger) as producer:
        for nr in range(4):
            producer.execute(
                f"insert into pgq.event_1_{nr} (ev_id, ev_time, ev_txid, ev_type)"
                " values (7, now(), %s, 'x')".encode(),
                [txid],
            )
    for nr in range(5):
        insert(conn, str(nr))
        tick(conn)
        assert consume(conn) == [str(nr)]
        assert rotate(conn)
        newest = "select queue_history_txid <= txid_current() from pgq.queue"
        assert value(conn, newest) in {None, True}
    with session_of(queue, stranger) as producer:
        producer.execute(
            "insert into pgq.event_1_3 (ev_id, ev_time, ev_txid, ev_type)"
            " values (7, now(), %s, 'x')",
            [txid],
        )
    assert rotate(conn) is False
    insert(conn, "last")
    tick(conn)
    assert consume(conn) == ["last"]
    assert value(conn, "select pgq.set_queue_config('q', 'ntables', '3')") == 1
    assert value(conn, "select queue_history_txid <= txid_current() from pgq.queue") is True
    conn.execute(f"drop owned by {stranger}")


def test_tables_are_dropped_only_by_a_session_that_sees_all_events(queue: Database) -> None:
    conn = queue.connect(autocommit=False)
    conn.execute("set transaction isolation level repeatable read")
    assert value(conn, "select pgq.set_queue_config('q', 'ntables', '4')") == 1
    with refused_like("LD100", "ticks and rotation need a transaction in isolation level.*"):
        conn.execute("select pgq.set_queue_config('q', 'ntables', '3')")
