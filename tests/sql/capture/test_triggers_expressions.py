"""Conditions, expressions and magic columns of the compatible change-log triggers."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.changes.decode import decode
from tests.fixtures.cluster import Database
from tests.sql.capture.test_triggers_options import TRIGGERS, Session, attach, refused
from tests.support.queue_events import Fields, as_event, take_events, writer
from tests.support.suite.slow import only


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue and an empty table."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table t (id int4 primary key, name text, qty int4)")
        yield conn


def test_expressions_see_bare_columns_and_replace_fields(app: Session) -> None:
    attach(
        app,
        "logutriga",
        "ev_type=name || '!'",
        "ev_data=qty * 2",
        "ev_extra1='renamed'",
        "ev_extra2=qty > 1",
        "ev_extra3=null::text",
        "ev_extra4=(select count(*) from pg_catalog.pg_class where false) -- all",
    )
    app.execute("insert into t values (1, 'a', 5)")
    app.execute("delete from t")
    assert take_events(app) == [Fields("a!", "10", "renamed", "t", None, "0")] * 2


def test_expressions_do_not_see_new_and_old(app: Session) -> None:
    attach(app, "logutriga", "when=NEW.qty > 1")
    with pytest.raises(psycopg.errors.UndefinedTable):
        app.execute("insert into t values (1, 'a', 5)")


def test_when_decides_by_the_new_row_and_for_deletes_by_the_old_one(app: Session) -> None:
    attach(app, "sqltriga", "when=qty > 10")
    app.execute("insert into t values (1, 'a', 5), (2, 'b', 50)")
    app.execute("update t set qty = 60 - qty")
    app.execute("delete from t")
    assert [event.data for event in take_events(app)] == [
        "(id,name,qty) values ('2','b','50')",
        "qty='55' where id='1'",
        "id='1'",
    ]


def test_when_must_not_be_null(app: Session) -> None:
    attach(app, "sqltriga", "when=qty > 10")
    assert "when=" in str(refused(app, "insert into t values (1)").message_primary)


def test_key_errors_come_before_when(app: Session) -> None:
    app.execute("create table nokey (a int4)")
    attach(app, "logutriga", "when=false", table="nokey")
    app.execute("insert into nokey values (1)")
    diag = refused(app, "delete from nokey")
    assert diag.message_primary == "Update/Delete on table without pkey"
    assert take_events(app) == []


def test_a_suppressed_event_still_skips_the_row(app: Session) -> None:
    attach(app, "logutriga", "SKIP", "when=false", when="before")
    app.execute("insert into t values (1)")
    assert app.execute("select count(*) from t").fetchone() == (0,)
    assert take_events(app) == []


def test_expressions_run_with_the_rights_of_the_writer(app: Session) -> None:
    app.execute("create role fix_clerk")
    try:
        app.execute("grant pgq_writer to fix_clerk")
        app.execute("grant insert on t to fix_clerk")
        attach(app, "logutriga", "ev_extra2=current_user")
        app.execute("set role fix_clerk")
        app.execute("insert into t values (1)")
        app.execute("reset role")
        assert [event.extra2 for event in take_events(app)] == ["fix_clerk"]
    finally:
        app.execute("reset role")
        app.execute("drop owned by fix_clerk")
        app.execute("drop role fix_clerk")


#: Expressions and their values.
WRITTEN = [
    ("user", "clerk"),
    ("user || '-' || \"user\"", "clerk-clerk"),
    ("order + 1", "3"),
    ("Kind", "big"),
    ("kind", "small"),
    (
        "kind || 'Kind' || $$kind$$ || E'\\'kind' || $a$ $$kind $a$",
        "smallKindkind'kind $$kind ",
    ),
    ("date(at)::date /* kind */ -- kind", "2024-02-03"),
    ("'2024-02-04'::date - at", "1"),
    ("upper(kind)", "SMALL"),
    ("upper (kind) || E'\\\\' || kind || '\\'", "SMALL\\small\\"),
    ("$$a$kind$$ || kind || $$$kind$$", "a$kindsmall$kind"),
    ("/* it's * kind */ kind /**/ || '--' -- '", "small--"),
    ("kind || 'it''s' || kind || N'kind'", "smallit'ssmallkind"),
    ("(select max(kind) from (select 'x' as kind) as v)", "small"),
    ("(select v.kind from (select 'x' as kind) as v)", "x"),
    ('"order" + 1e2', "102"),
    ("straße", "1"),
    ("KIND", "small"),
]


@pytest.mark.parametrize("trigger", only([*TRIGGERS, "own capture"], "own capture"))
def test_a_word_that_is_a_column_as_written_is_its_value(app: Session, trigger: str) -> None:
    for expression, expected in WRITTEN:
        with app.transaction(force_rollback=True):
            app.execute(
                'create table odd (id int4 primary key, "user" text, "order" int4, "Kind" text,'
                ' kind text, at date, date text, upper text, "straße" int4)'
            )
            option = f"ev_extra2={expression}"
            if trigger == "own capture":
                app.execute("select londiste.create_capture('q', 'odd', %s)", [[option]])
            else:
                attach(app, trigger, option, table="odd")
            app.execute(
                "insert into odd values (1, 'clerk', 2, 'big', 'small', '2024-02-03', 'd', 'u', 1)"
            )
            assert [event.extra2 for event in take_events(app)] == [expected], expression


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_expressions_resolve_in_the_path_of_the_session(app: Session, trigger: str) -> None:
    app.execute("create schema app")
    app.execute("create function app.wanted(int4) returns bool language sql as 'select $1 > 10'")
    attach(app, trigger, "when=wanted(qty)", "ev_extra2=qty > 20")
    with pytest.raises(psycopg.errors.UndefinedFunction):
        app.execute("insert into t values (1, 'a', 50)")
    app.execute("set search_path = app, public")
    app.execute("insert into t values (1, 'a', 50), (2, 'b', 5)")
    assert app.execute("show search_path").fetchone() == ("app, public",)
    attach(app, trigger, "when=wanted(qty)", 'search_path= App,"$user",public ')
    app.execute("set search_path = public")
    app.execute("insert into t values (3, 'a', 50), (4, 'b', 5)")
    assert [event.extra2 for event in take_events(app)] == ["t", None]


@pytest.mark.parametrize("flags", ["L", "C"])
def test_a_trigger_of_londiste_keeps_the_path_that_its_session_began_with(
    app: Session, pgq_db: Database, flags: str
) -> None:
    app.execute("create schema app")
    app.execute("create function app.wanted(int4) returns bool language sql as 'select $1 > 10'")
    made = "select londiste.create_trigger('q', 't', %s, 't', 'root')"
    args = [f"tgflags={flags}", "when=wanted(qty)"]
    with psycopg.connect(pgq_db.dsn, options="-c search_path=app,public", autocommit=True) as conn:
        conn.execute("set search_path = pg_catalog")
        conn.execute(made, [args])
    app.execute("insert into t values (1, 'a', 50), (2, 'b', 5)")
    app.execute(made, [args])
    app.execute("alter table t add column later int4")
    app.execute("insert into t values (3, 'a', 50), (4, 'b', 5)")
    assert len(take_events(app)) == 2


def test_a_path_that_is_no_list_of_schemas_is_refused(app: Session) -> None:
    for path in ("app; drop table t", "a,,b", "'x'", "pg_catalog as $$"):
        attach(app, "logutriga", "when=true", f"search_path={path}")
        assert (
            refused(app, "insert into t values (1)").message_primary == "bad param to pgq trigger"
        )
        with pytest.raises(psycopg.Error):
            app.execute(
                "select londiste.create_capture('q', 't', %s)",
                [["when=true", f"search_path={path}"]],
            )


def test_functions_on_the_writers_search_path_are_not_used(app: Session) -> None:
    app.execute(
        "create function public.quote_ident(text) returns text language sql"
        " as $$ select 'forged'::text $$"
    )
    app.execute("set search_path = public, pg_catalog")
    attach(app, "sqltriga")
    app.execute("insert into t values (1)")
    assert [event.data for event in take_events(app)] == ["(id,name,qty) values ('1',null,null)"]


def test_magic_columns_replace_fields_and_stay_out_of_the_row(app: Session) -> None:
    app.execute(
        "create table queue_table (id int4 primary key, _pgq_ev_type text, _pgq_ev_data text,"
        " _pgq_ev_extra1 text, _pgq_ev_extra2 text, _pgq_ev_extra3 int4, _pgq_ev_extra4 text)"
    )
    attach(app, "jsontriga", "SKIP", when="before", table="queue_table")
    app.execute("insert into queue_table values (1, 'my.type', null, 'one', 'two', 3, 'four')")
    assert take_events(app) == [Fields("my.type", None, "one", "two", "3", "four")]
    app.execute("alter table queue_table drop column _pgq_ev_data")
    app.execute("insert into queue_table values (1, null)")
    assert take_events(app) == [Fields(None, '{"id":1}', None)]


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_magic_columns_alone_make_no_event(app: Session, trigger: str) -> None:
    app.execute("alter table t add _pgq_ev_extra4 text")
    attach(app, trigger)
    app.execute("insert into t values (1, 'a', 2, 'x')")
    app.execute("update t set _pgq_ev_extra4 = 'y'")
    app.execute("update t set _pgq_ev_extra4 = 'z', qty = 3")
    assert [event.extra4 for event in take_events(app)] == ["x", "z"]


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_generated_columns_of_a_before_trigger_are_those_of_before(
    app: Session, trigger: str
) -> None:
    app.execute(
        "create table made (id int4 primary key, gone text, qty int4,"
        " twice int4 generated always as (qty * 2) stored, v text)"
    )
    app.execute("alter table made drop column gone")
    attach(app, trigger, "ev_extra3=twice", when="before", table="made")
    app.execute("insert into made (id, qty) values (1, 5)")
    app.execute("update made set v = 'x'")
    app.execute("update made set qty = 6")
    events = take_events(app)
    assert [event.extra3 for event in events] == [None, "10", "10"]
    images = [decode(as_event(event)).image for event in events]  # type: ignore[union-attr]
    assert [image.get("twice") for image in images[1:]] == (
        [None, None] if trigger == "sqltriga" else ["10", "10"]
    )
    assert app.execute("select twice from made").fetchone() == (12,)


@pytest.mark.parametrize("condition", ["1", "'x'::text", "qty"])
def test_a_condition_that_is_not_boolean_is_an_error(app: Session, condition: str) -> None:
    attach(app, "logutriga", f"when={condition}")
    with pytest.raises(psycopg.errors.DatatypeMismatch):
        app.execute("insert into t values (1, 'a', 1)")


def test_an_expression_wins_over_a_magic_column(app: Session) -> None:
    app.execute("alter table t add _pgq_ev_type text")
    attach(app, "jsontriga", "ev_type='from the trigger'")
    app.execute("insert into t values (1, 'a', 2, 'from the row')")
    assert [event.type for event in take_events(app)] == ["from the trigger"]


def test_an_unknown_magic_column_is_an_error(app: Session) -> None:
    app.execute("alter table t add _pgq_ev_extra5 text")
    attach(app, "logutriga")
    diag = refused(app, "insert into t values (1)")
    assert diag.message_primary == "Unknown magic column: _pgq_ev_extra5"
