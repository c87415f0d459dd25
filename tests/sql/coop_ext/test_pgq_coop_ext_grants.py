"""Cooperative consuming is for readers, bookkeeping on the target for writers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from londiste.db import connection
from londiste.db.connection import Connection
from londiste.embedded.postgres import Cluster
from londiste.errors import InstallError
from londiste.install import apply, remove
from tests.fixtures.cluster import Database
from tests.support.coop_steps import batches
from tests.support.queue_steps import queue_with_consumer, value

READER = {
    "pgq_coop.register_subconsumer(text,text,text)",
    "pgq_coop.unregister_subconsumer(text,text,text,integer)",
    "pgq_coop.next_batch(text,text,text)",
    "pgq_coop.next_batch(text,text,text,interval)",
    "pgq_coop.next_batch_custom(text,text,text,interval,integer,interval)",
    "pgq_coop.next_batch_custom(text,text,text,interval,integer,interval,interval)",
    "pgq_coop.finish_batch(bigint)",
    "pgq_coop.receive(text,text,text,integer,interval,text)",
    "pgq_coop.receive_again(bigint)",
    "pgq_coop.ack(bigint,bigint)",
    "pgq_coop.ack_events(bigint,bigint[])",
    "pgq_coop.nack(bigint,bigint,integer,text,integer)",
}
WRITER_DEFINER = {
    "pgq_ext.set_event_returned(text,text,bigint,bigint,integer,integer,text)",
    "pgq_ext.get_returned_events(text,text,bigint)",
    "pgq_ext.is_batch_done(text,text,bigint)",
    "pgq_ext.set_batch_done(text,text,bigint)",
    "pgq_ext.is_event_done(text,text,bigint,bigint)",
    "pgq_ext.set_event_done(text,text,bigint,bigint)",
    "pgq_ext.get_event_batch(text,text)",
    "pgq_ext.forget_batches(text,text)",
    "pgq_ext.get_last_tick(text,text)",
    "pgq_ext.set_last_tick(text,text,bigint)",
    "pgq_ext.get_known_source(text,text)",
    "pgq_ext.note_known_source(text,text,text,uuid,integer,bigint,timestamp with time zone)",
    "pgq_ext.forget_known_source(text,text)",
    "pgq_ext.lock_sink(text,text)",
    "pgq_ext.set_sink_epoch(text,text,bigint,bigint)",
    "pgq_ext.is_sink_done(text)",
    "pgq_ext.make_sink_stage(text,uuid)",
    "pgq_ext.sink_stages(text)",
    "pgq_ext.drop_sink_stage(bigint)",
    "pgq_ext.get_sinks()",
    "pgq_ext.forget_sink(text)",
}
WRITER = WRITER_DEFINER | {
    "pgq_ext.is_batch_done(text,bigint)",
    "pgq_ext.set_batch_done(text,bigint)",
    "pgq_ext.is_event_done(text,bigint,bigint)",
    "pgq_ext.set_event_done(text,bigint,bigint)",
    "pgq_ext.get_last_tick(text)",
    "pgq_ext.set_last_tick(text,bigint)",
}
PUBLIC = {"pgq_coop.version()", "pgq_ext.version()", "pgq_ext.get_sinks()"}
ADMIN = {"pgq_coop.upgrade_schema()"}

FUNCTIONS = (
    "select oid::regprocedure::text from pg_proc"
    " where pronamespace in ('pgq_coop'::regnamespace, 'pgq_ext'::regnamespace)"
)


@pytest.fixture
def stranger(pgq_db: Database) -> Iterator[str]:
    """A role that is a member of nothing."""
    name = f"stranger_{pgq_db.name}"
    pgq_db.execute(f"create role {name}")
    yield name
    pgq_db.execute(f"drop role {name}")


def may_call(database: Database, role: str) -> set[str]:
    rows = database.execute(FUNCTIONS + " and has_function_privilege(%s, oid, 'execute')", role)
    return {name for (name,) in rows}


def test_every_function_is_for_the_role_that_needs_it(pgq_db: Database, stranger: str) -> None:
    assert may_call(pgq_db, stranger) == PUBLIC
    assert may_call(pgq_db, "pgq_reader") == PUBLIC | READER
    assert may_call(pgq_db, "pgq_writer") == PUBLIC | WRITER
    assert may_call(pgq_db, "pgq_admin") == PUBLIC | READER | WRITER | ADMIN


def test_the_forms_with_a_subconsumer_run_with_the_rights_of_the_owner(pgq_db: Database) -> None:
    definer = {name for (name,) in pgq_db.execute(FUNCTIONS + " and prosecdef")}
    assert {name for name in definer if name.startswith("pgq_ext")} == WRITER_DEFINER


def test_nobody_has_rights_on_the_tables(pgq_db: Database, stranger: str) -> None:
    found = pgq_db.execute(
        "select c.oid::regclass::text, r.role, p.privilege"
        " from pg_class c, unnest(%s::text[]) r (role),"
        " unnest(array['select', 'insert', 'update', 'delete', 'truncate']) p (privilege)"
        " where c.relnamespace in ('pgq_coop'::regnamespace, 'pgq_ext'::regnamespace)"
        " and c.relkind = 'r' and c.relname <> 'installed_file'"
        " and has_table_privilege(r.role, c.oid, p.privilege)",
        [stranger, "pgq_reader", "pgq_writer", "pgq_admin"],
    )
    assert found == []


def test_a_reader_works_together_with_others(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    queue_with_consumer(conn)
    batches(conn, "a")
    conn.execute("set role pgq_reader")
    assert value(conn, "select pgq_coop.register_subconsumer('q', 'c', '1')") == 1
    batch = value(conn, "select pgq_coop.next_batch('q', 'c', '1')")
    assert value(conn, "select ev_data from pgq.get_batch_events(%s)", batch) == "a"
    assert value(conn, "select pgq_coop.finish_batch(%s)", batch) == 1
    batches_of(conn)
    batch, event = conn.execute(RECEIVE).fetchone() or (None, None)
    assert value(conn, "select pgq_coop.receive_again(%s)", batch) == 1
    assert conn.execute(RECEIVE).fetchall() == [(batch, event)]
    assert value(conn, "select pgq_coop.nack(%s, %s, 0)", batch, event) == "retry"
    batches_of(conn)
    batch, event = conn.execute(RECEIVE).fetchone() or (None, None)
    assert value(conn, "select pgq_coop.ack(%s, %s)", batch, event) == 1
    assert value(conn, "select pgq_coop.unregister_subconsumer('q', 'c', '1', 0)") == 1


RECEIVE = "select batch_id, ev_id from pgq_coop.receive('q', 'c', '1', 10)"


def batches_of(conn: Connection) -> None:
    conn.execute("reset role")
    batches(conn, "b")
    conn.execute("set role pgq_reader")


def test_a_writer_keeps_books_and_a_reader_does_not(pgq_db: Database) -> None:
    conn = pgq_db.connect()
    conn.execute("set role pgq_writer")
    assert value(conn, "select pgq_ext.set_batch_done('c', 1)") is True
    assert value(conn, "select pgq_ext.is_batch_done('c', 1)") is True
    assert value(conn, "select pgq_ext.set_event_done('c', 1, 1)") is True
    assert value(conn, "select pgq_ext.set_last_tick('c', 1)") == 1
    assert value(conn, "select pgq_ext.get_last_tick('c')") == 1
    conn.execute("set role pgq_reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("select pgq_ext.set_last_tick('c', 1)")


def test_version_is_there_and_nothing_is_left_to_upgrade(pgq_db: Database) -> None:
    for schema in ("pgq_coop", "pgq_ext"):
        assert pgq_db.value(f"select {schema}.version() >= '3'")
        assert pgq_db.value(f"select {schema}.upgrade_schema()") == 0


def test_bookkeeping_is_installed_alone_by_who_owns_the_database(
    new_database: Callable[..., Database],
) -> None:
    database = new_database()
    conn = database.connect()
    apply.install(conn, ["pgq_ext"])
    assert database.value("select to_regnamespace('pgq') is null")
    assert value(conn, "select pgq_ext.set_last_tick('c', 1)") == 1
    assert remove.blockers(conn, remove.plan(conn)) == [
        "consumer c keeps its position in this database"
    ]


def test_a_missing_role_that_one_may_not_create_is_named_with_the_command(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster()
    cluster.create_database("target")
    admin = Database(cluster, "postgres").connect()
    admin.execute("create role owner login")
    admin.execute("alter database target owner to owner")
    with connection.session(cluster.dsn("target"), autocommit=True) as conn:
        conn.execute("set session authorization owner")
        with pytest.raises(InstallError, match="the role pgq_writer is missing") as caught:
            apply.install(conn, ["pgq_ext"])
        assert caught.value.hint == "as an administrator: create role pgq_writer nologin"
        admin.execute("create role pgq_writer nologin")
        assert apply.install(conn, ["pgq_ext"])
    admin.close()
