"""The first change of a session, and the cost of creating a capture."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_events import take_events, writer

Session = psycopg.Connection[tuple[object, ...]]

FORMS = pytest.mark.parametrize("form", ["row", "statement"])


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue and a captured table."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table t (id int4 primary key, v text, n numeric)")
        yield conn


def changed(conn: Session, condition: str) -> bool:
    """What a trigger function finds that has this condition."""
    row = conn.execute(f"select {condition}").fetchone()
    assert row is not None
    return bool(row[0])


def condition_of(conn: Session) -> str:
    row = conn.execute(
        "select londiste._capture_changed('t'::regclass, array['q', 'public.t'], true)"
    ).fetchone()
    assert row is not None
    return str(row[0])


def calls(conn: Session, *names: str) -> dict[str, int]:
    rows = conn.execute(
        "select funcname, calls from pg_stat_xact_user_functions where funcname = any (%s)",
        [list(names)],
    ).fetchall()
    return {str(name): int(str(count)) for name, count in rows}


@FORMS
def test_the_first_change_of_a_session_reads_the_mark_and_not_the_catalog(
    app: Session, pgq_db: Database, form: str
) -> None:
    app.execute("select londiste.create_capture('q', 't', array['form=' || %s])", [form])
    with writer(pgq_db.dsn) as fresh:
        fresh.execute("set track_functions = 'all'")
        with fresh.transaction():
            fresh.execute("insert into t values (1, 'x', 1.0)")
            assert calls(fresh, "_capture_mark", "_capture_signature", "_columns_now") == {
                "_capture_mark": 1
            }
    assert len(take_events(app)) == 1


#: Statements that change the table.
CHANGES = [
    "alter table t add more int4",
    "alter table t drop n",
    "alter table t rename n to m",
    "alter table t alter n type text",
    "alter table t alter v type varchar",
    "alter table t rename to other",
    "alter table t drop constraint t_pkey",
    "alter table t drop n, add n numeric",
    "alter table t drop constraint t_pkey, add primary key (id, v)",
    "alter table t drop n; alter table t add n numeric generated always as (id) stored",
    "create table heir () inherits (t)",
]


def test_a_change_of_the_table_is_noticed(app: Session) -> None:
    for ddl in CHANGES:
        with app.transaction(force_rollback=True):
            condition = condition_of(app)
            assert not changed(app, condition), ddl
            app.execute(ddl)
            assert changed(app, condition), ddl


@pytest.mark.parametrize(
    "ddl",
    [
        "alter index t_pkey rename to other",
        "reindex table concurrently t",
        "alter table t alter id type int4",
        "create index on t (v)",
        "analyze t",
    ],
)
def test_what_changes_no_column_is_no_change(app: Session, ddl: str) -> None:
    condition = condition_of(app)
    app.execute(ddl)
    assert not changed(app, condition)


@pytest.mark.parametrize(
    "table",
    [
        "create table t (id int4, v text)",
        "create table t (id int4 primary key, v text, n int4 generated always as (id) stored)",
    ],
)
def test_without_a_key_or_with_generated_columns_the_catalog_decides(
    app: Session, table: str
) -> None:
    app.execute("drop table t")
    app.execute(table)
    condition = condition_of(app)
    assert "_capture_mark" not in condition
    assert not changed(app, condition)
    app.execute("alter table t alter v type varchar")
    assert changed(app, condition)


def test_a_role_that_may_not_name_the_table_compares_the_catalog(app: Session) -> None:
    app.execute("create schema hidden; alter table t set schema hidden")
    row = app.execute(
        "select londiste._capture_changed('hidden.t'::regclass, array['q', 'hidden.t'], true),"
        " 'hidden.t'::regclass::oid"
    ).fetchone()
    assert row is not None
    oid = row[1]
    with app.transaction():
        app.execute(
            "create role narrow; grant pgq_writer to narrow;"
            "grant execute on all functions in schema londiste, pgq to narrow"
        )
        app.execute("set local role narrow")
        assert not changed(app, str(row[0]))
        without = app.execute(
            "select londiste._capture_changed(%s::oid, array['q', 'hidden.t'], true)", [oid]
        ).fetchone()
        assert without is not None and "_capture_mark" not in str(without[0])
        app.execute("reset role; drop owned by narrow; drop role narrow")


def test_a_capture_is_created_without_a_scan_over_all_triggers(app: Session) -> None:
    app.execute("set enable_seqscan = off")
    with app.transaction():
        app.execute("select londiste.create_capture('q', 't')")
        row = app.execute(
            "select pg_stat_get_xact_numscans('pg_trigger'::regclass),"
            " pg_stat_get_xact_tuples_returned('pg_trigger'::regclass)"
        ).fetchone()
    assert row is not None
    assert row == (0, 0)
