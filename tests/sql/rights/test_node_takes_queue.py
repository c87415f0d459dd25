"""A queue with existing events becomes a node: no node applies the earlier events."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.connection import Connection
from tests.fixtures.cluster import Database

FORGED = "select pgq.insert_event('app', 'EXECUTE', 'drop table t', 'x.sql', null, null, null)"
NODE = "select * from pgq_node.create_node('app', 'root', 'root', 'w', null, null, null)"


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Connection]:
    """A session of the administrator, beside a queue with a producer."""
    with pgq_db.connect() as conn:
        conn.execute("select pgq.create_queue('app')")
        conn.execute("select pgq_node.register_location('app', 'root', 'dbname=root', false)")
        conn.execute("select pgq_node.register_location('app', 'leaf', 'dbname=leaf', false)")
        yield conn


def producer(database: Database) -> Connection:
    conn = database.connect(autocommit=False)
    conn.execute("set role pgq_writer")
    conn.commit()
    return conn


def read(conn: Connection) -> list[str]:
    """The types of the events that a new subscriber gets."""
    conn.execute("select pgq_node.register_subscriber('app', 'leaf', 'leaf.w', null)")
    conn.execute("select pgq.force_tick('app'); select pgq.ticker()")
    found = []
    while True:
        (batch,) = conn.execute("select pgq.next_batch('app', 'leaf.w')").fetchone() or (None,)
        if batch is None:
            return found
        found += [
            row[0] for row in conn.execute("select ev_type from pgq.get_batch_events(%s)", [batch])
        ]
        conn.execute("select pgq.finish_batch(%s)", [batch])


def test_events_of_before_are_not_read(pgq_db: Database, app: Connection) -> None:
    with producer(pgq_db) as writer:
        writer.execute(FORGED)
    assert (app.execute(NODE).fetchone() or (0,))[0] == 200
    assert "EXECUTE" not in read(app)
    assert pgq_db.value("select count(*) from pgq.event_template where ev_type = 'EXECUTE'") == 1


def test_a_transaction_that_has_written_is_waited_for(pgq_db: Database, app: Connection) -> None:
    with producer(pgq_db) as writer:
        writer.execute(FORGED)
        with pytest.raises(psycopg.errors.LockNotAvailable), app.transaction():
            app.execute("set local lock_timeout = '200ms'")
            app.execute(NODE)
        writer.commit()
    assert (app.execute(NODE).fetchone() or (0,))[0] == 200
    assert "EXECUTE" not in read(app)


def test_a_snapshot_of_before_does_not_hide_the_node(pgq_db: Database, app: Connection) -> None:
    with producer(pgq_db) as writer:
        writer.execute("set transaction isolation level repeatable read")
        writer.execute("select 1")
        assert (app.execute(NODE).fetchone() or (0,))[0] == 200
        with pytest.raises(psycopg.errors.SerializationFailure):
            writer.execute(FORGED)
        writer.rollback()
    assert "EXECUTE" not in read(app)


def test_delayed_events_that_would_be_applied_are_named(pgq_db: Database, app: Connection) -> None:
    with producer(pgq_db) as writer:
        later = "select pgq.insert_event_at('app', now() + interval '1 hour', %s, 'x', %s)"
        writer.execute(later, ["mail", "to"])
        (event,) = writer.execute(later, ["EXECUTE", "x.sql"]).fetchone() or (None,)
    code, note = (app.execute(NODE).fetchone() or (0, ""))[:2]
    assert code == 401
    assert note.startswith("Queue has 1 delayed events that subscribers would apply: select")
    app.execute("select pgq.cancel_delayed_event('app', %s)", [event])
    assert (app.execute(NODE).fetchone() or (0,))[0] == 200


def test_grants_of_before_do_not_outlive_it(pgq_db: Database, app: Connection) -> None:
    app.execute("select pgq.grant_produce('app', 'pgq_reader')")
    app.execute("grant insert on pgq.event_template to pgq_reader, public")
    may = "select has_table_privilege('pgq_reader', 'pgq.event_1_0', 'insert')"
    assert pgq_db.value(may) is True
    app.execute(NODE)
    assert pgq_db.value(may) is False
    app.execute("select pgq.grant_perms('app')")
    assert pgq_db.value(may) is False
    assert pgq_db.value(may.replace("pgq_reader", "pgq_admin")) is True
