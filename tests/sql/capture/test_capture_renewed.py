"""The first change after an ALTER TABLE recreates the capture, where that is safe."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_events import take_events, writer

Session = psycopg.Connection[tuple[object, ...]]

FORMS = pytest.mark.parametrize("form", ["row", "statement"])
CALLS = (
    "select coalesce(sum(calls), 0)::int4 from pg_stat_xact_user_functions"
    " where funcname = '_capture_now'"
)


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue and a table."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table t (id int4 primary key, v text)")
        yield conn


def capture(conn: Session, form: str) -> None:
    conn.execute("select londiste.create_capture('q', 't', array['form=' || %s])", [form])


def stale(conn: Session) -> int:
    return len(conn.execute("select table_name from londiste.stale_captures('q')").fetchall())


@FORMS
def test_the_first_change_recreates_the_capture_for_all_sessions(
    app: Session, pgq_db: Database, form: str
) -> None:
    capture(app, form)
    app.execute("alter table t add n numeric default 1.50")
    assert stale(app) == 1
    app.execute("insert into t values (1, 'x')")
    assert stale(app) == 0
    with writer(pgq_db.dsn) as other:
        other.execute("set track_functions = 'all'")
        with other.transaction():
            other.execute("update t set v = 'y'")
            assert other.execute(CALLS).fetchone() == (0,)
    assert [json.loads(event.data or "") for event in take_events(app)] == [
        {"id": 1, "v": "x", "n": "1.50"},
        {"id": 1, "v": "y", "n": "1.50"},
    ]


@FORMS
def test_the_owner_may_have_a_name_that_needs_quotes(
    app: Session, pgq_db: Database, form: str
) -> None:
    role = f'"Jörg ""the owner"" of {pgq_db.name} {form}"'
    pgq_db.execute(f"create role {role} superuser")
    try:
        pgq_db.execute(f"alter table t owner to {role}")
        app.execute(f"set role {role}")
        capture(app, form)
        app.execute("alter table t add n int4")
        assert stale(app) == 1
        app.execute("insert into t values (1, 'x', 2)")
        assert stale(app) == 0
    finally:
        app.execute("reset role")
        pgq_db.execute(f"drop owned by {role}")
        pgq_db.execute(f"drop role {role}")


@FORMS
def test_rows_of_one_statement_are_captured_before_and_after(app: Session, form: str) -> None:
    capture(app, form)
    app.execute("insert into t select g from generate_series(1, 20) as g")
    take_events(app)
    with app.transaction():
        app.execute("alter table t drop v, add n numeric default 2")
        app.execute("update t set n = id + 0.10 where id <= 5")
        app.execute("update t set id = -id where id = 1")
        app.execute("delete from t where id = 2")
    assert stale(app) == 0
    events = take_events(app)
    assert [json.loads(event.data or "") for event in events[:5]] == [
        {"id": number, "n": f"{number}.10"} for number in range(1, 6)
    ]
    assert [json.loads(event.data or "")["id"] for event in events[5:]] == [1, -1, 2]


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
@FORMS
def test_above_read_committed_it_stays_as_it_is(app: Session, form: str, level: str) -> None:
    capture(app, form)
    app.execute("alter table t add n numeric default 1.50")
    with app.transaction():
        app.execute(f"set transaction isolation level {level}")
        app.execute("insert into t values (1, 'x')")
    assert stale(app) == 1
    assert json.loads(take_events(app)[0].data or "")["n"] == "1.50"


@FORMS
def test_inside_another_trigger_it_stays_as_it_is(app: Session, form: str) -> None:
    capture(app, form)
    app.execute(
        "create table other (id int4); create function passed() returns trigger language plpgsql"
        " as $$ begin insert into t values (new.id, 'from'); return null; end $$;"
        "create trigger passed after insert on other for each row execute function passed()"
    )
    app.execute("alter table t add n int4")
    app.execute("insert into other values (1)")
    assert stale(app) == 1
    assert len(take_events(app)) == 1


@FORMS
def test_a_rollback_leaves_the_capture_as_it_was(app: Session, form: str) -> None:
    capture(app, form)
    app.execute("alter table t add n int4")
    with app.transaction(force_rollback=True):
        app.execute("insert into t values (1, 'x')")
        assert stale(app) == 0
    assert stale(app) == 1
    app.execute("insert into t values (1, 'x')")
    assert stale(app) == 0
    assert len(take_events(app)) == 1


@FORMS
def test_what_forbids_ddl_does_not_stop_a_writer(app: Session, form: str) -> None:
    capture(app, form)
    app.execute("alter table t add n int4")
    app.execute(
        "create function refused() returns event_trigger language plpgsql"
        " as $$ begin raise exception 'no DDL in office hours'; end $$;"
        "create event trigger refused on ddl_command_start execute function refused()"
    )
    app.execute("insert into t values (1, 'x')")
    app.execute("alter event trigger refused disable")
    assert stale(app) == 1
    assert len(take_events(app)) == 1


def test_a_capture_with_expressions_waits_for_maintenance(app: Session) -> None:
    app.execute("select londiste.create_capture('q', 't', array['when=id > 0'])")
    app.execute("alter table t add n int4")
    app.execute("insert into t values (1, 'x')")
    assert stale(app) == 1
    assert len(take_events(app)) == 1
    app.execute("select londiste._renew_captures()")
    assert stale(app) == 0
