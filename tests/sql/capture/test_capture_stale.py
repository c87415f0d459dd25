"""A table that was altered, with the capture of before: complete, and not slow for the writer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_events import Fields, take_events, writer
from tests.support.suite.slow import first
from tests.support.waiting import wait_for

Session = psycopg.Connection[tuple[object, ...]]

FORMS = pytest.mark.parametrize("form", ["row", "statement"])


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue and a table."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table t (id int4 primary key, v text, n int4)")
        yield conn


def capture(conn: Session, form: str) -> None:
    conn.execute("select londiste.create_capture('q', 't', array['form=' || %s])", [form])


def looks(conn: Session) -> int:
    """Calls of what makes statements from the catalog, as far as they are counted yet."""
    row = conn.execute(
        "select coalesce(sum(calls), 0)::int4 from pg_stat_xact_user_functions"
        " where funcname = '_capture_pieces'"
    ).fetchone()
    assert row is not None
    return int(str(row[0]))


def told(events: list[Fields]) -> list[tuple[object, dict[str, object]]]:
    return [(json.loads(event.type or "")["op"], json.loads(event.data or "")) for event in events]


@pytest.mark.parametrize("kept", [False, True])
@FORMS
def test_a_thousand_changes_after_an_alter_hardly_look_at_the_catalog(
    app: Session, pgq_db: Database, form: str, kept: bool
) -> None:
    capture(app, form)
    if kept:
        # As if another session recreated it: this one goes on with the statements it has made.
        pgq_db.connect().execute(
            "select pg_advisory_lock('londiste.table_info'::regclass::oid::int4,"
            " 'public.t'::regclass::oid::int4)"
        )
    app.execute("insert into t values (0, 'fresh', 0)")
    app.execute("alter table t add more text default 'm', drop n")
    app.execute("set track_functions = 'all'")
    take_events(app)
    with app.transaction():
        app.execute("insert into t select g, 'x' from generate_series(1, 1000) as g")
        app.execute(
            "do $$ begin for g in 1 .. 200 loop"
            " update t set more = g where id = g; end loop; end $$"
        )
        app.execute("update t set more = 'once' where id = 1000")
        app.execute("delete from t where id between 1 and 500")
        # A session keeps what it has made for each trigger; or it recreates the function.
        assert looks(app) == ({"row": 1, "statement": 3}[form] if kept else 2)
    found = take_events(app)
    if form == "statement" and not kept:
        # The last statement is packed: eight events, and one with the other rows.
        assert len(found) == 1000 + 200 + 1 + 9
        return
    events = told(found)
    assert [op for op, _ in events] == ["INSERT"] * 1000 + ["UPDATE"] * 200 + ["UPDATE"] + [
        "DELETE"
    ] * 500
    assert events[1200][1] == {"id": 1000, "v": "x", "more": "once"}


@FORMS
def test_an_alter_that_is_rolled_back_leaves_nothing_behind(app: Session, form: str) -> None:
    capture(app, form)
    app.execute("insert into t values (1, 'a', 1)")
    with app.transaction(force_rollback=True):
        app.execute("alter table t rename v to w; alter table t drop n")
        app.execute("update t set w = 'never'")
    take_events(app)
    app.execute("update t set v = 'b'")
    assert told(take_events(app)) == [("UPDATE", {"id": 1, "v": "b", "n": 1})]


@pytest.mark.parametrize("altered", ["drop n", "rename n to m", "rename id to nr", "add w text"])
@pytest.mark.parametrize("ignored", first([False, True]))
@FORMS
def test_a_truncate_may_be_the_first_change_after_an_alter(
    app: Session, form: str, ignored: bool, altered: str
) -> None:
    options = [f"form={form}", "ignore=v"] if ignored else [f"form={form}"]
    app.execute("select londiste.create_capture('q', 't', %s::text[])", [options])
    app.execute("insert into t values (1, 'a', 1)")
    app.execute(f"alter table t {altered}")
    take_events(app)
    app.execute("truncate t")
    assert [op for op, _ in told(take_events(app))] == ["TRUNCATE"]


@FORMS
def test_sessions_go_on_writing_while_another_alters_the_table(
    app: Session, pgq_db: Database, form: str
) -> None:
    capture(app, form)
    with writer(pgq_db.dsn) as one, writer(pgq_db.dsn) as other:
        for number in range(6):
            one.execute("insert into t (id) values (%s)", [number * 2])
            other.execute("insert into t (id) values (%s)", [number * 2 + 1])
            app.execute(f"alter table t add c{number} int4 default {number}")
        with one.transaction(), other.transaction():
            one.execute("update t set c5 = -1 where id = 0")
            other.execute("update t set c5 = -2 where id = 1")
            app.execute("select londiste.periodic_maintenance()")
            one.execute("update t set c5 = -3 where id = 0")
            other.execute("update t set c5 = -4 where id = 1")
    events = [image for _, image in told(take_events(app))]
    assert [len(image) for image in events] == [3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8] + [9] * 4
    assert [image["c5"] for image in events[-4:]] == [-1, -2, -3, -4]


ALTERED = {
    "renamed": "alter table t rename v to w",
    "key renamed": "alter table t rename id to key",
    "dropped": "alter table t drop v",
    "added": "alter table t add more text default 'm'",
    "all": "alter table t rename id to key; alter table t drop v;"
    " alter table t add v int4 default 5; alter table t rename n to m",
}


@FORMS
@pytest.mark.parametrize("renewed", first([False, True]))
@pytest.mark.parametrize("known", first([True, False]))
@pytest.mark.parametrize("what", ALTERED)
def test_a_transaction_older_than_the_alter_writes_what_the_table_has(
    app: Session, pgq_db: Database, form: str, what: str, known: bool, renewed: bool
) -> None:
    capture(app, form)
    app.execute("insert into t values (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    with writer(pgq_db.dsn) as old:
        if known:
            old.execute("update t set n = n")
        take_events(app)
        old.execute("begin isolation level repeatable read")
        old.execute("select count(*) from pgq.queue")
        app.execute(ALTERED[what])
        if renewed:
            app.execute("select londiste.periodic_maintenance()")
        names = [
            str(row[0])
            for row in app.execute(
                "select attname from pg_attribute where attrelid = 't'::regclass and attnum > 0"
                " and not attisdropped order by attnum"
            )
        ]
        key = names[0]
        plain = "m" if what == "all" else "n"
        old.execute(f"update t set {plain} = 10 where {key} = 1")
        old.execute(f"delete from t where {key} = 2")
        old.execute(f"insert into t ({key}) values (20)")
        old.execute(f"update t set {key} = 30 where {key} = 3")
        old.execute("commit")
        events = take_events(app)
        images = told(events)
        assert [op for op, _ in images] == ["UPDATE", "DELETE", "INSERT", "DELETE", "INSERT"]
        assert all(json.loads(event.type or "")["pkey"] == [key] for event in events)
        for number in (0, 2, 4):
            assert set(images[number][1]) == set(names)
        assert images[0][1][plain] == 10
        assert [event.extra3 for event in events] == ["1", "2", "20", "3", "30"]
        # Nothing of it stays in the session.
        old.execute(f"update t set {plain} = 11 where {key} = 1")
        ((op, image),) = told(take_events(app))
        assert (op, set(image), image[plain]) == ("UPDATE", set(names), 11)


@FORMS
def test_a_type_that_comes_behind_our_back_is_told_whatever_the_session_has_set(
    app: Session, form: str
) -> None:
    capture(app, form)
    app.execute(
        "set DateStyle = 'SQL, DMY'; set TimeZone = 'Asia/Tokyo'; set bytea_output = escape"
    )
    app.execute(
        "alter table t add day date default '2024-02-03',"
        " add at timestamptz default '2024-02-03 12:00Z',"
        " add raw bytea default '\\x00ff'"
    )
    app.execute("insert into t values (1)")
    ((_, image),) = told(take_events(app))
    assert image["day"] == "2024-02-03"
    assert image["at"] == "2024-02-03T12:00:00+00:00"
    assert image["raw"] == "\\x00ff"
    assert app.execute("show DateStyle").fetchone() == ("SQL, DMY",)
    assert app.execute("show search_path").fetchone() == ('"$user", public',)


FUNCTIONS = (
    "select count(*) from pg_proc where pronamespace = 'londiste_capture'::regnamespace"
    " and starts_with(proname, '_capture_q_') and prorettype = 'trigger'::regtype"
)


@pytest.mark.parametrize("again", [False, True])
def test_a_renamed_table_leaves_no_function_of_its_old_name_behind(
    app: Session, again: bool
) -> None:
    capture(app, "statement")
    app.execute("alter table t rename to u")
    assert app.execute(FUNCTIONS).fetchone() == (1,)
    if again:
        app.execute("select londiste.refresh_capture('q', 'u')")
        assert app.execute(FUNCTIONS).fetchone() == (1,)
        assert app.execute("select * from londiste.stale_captures('q')").fetchall() == []
    app.execute("select londiste.drop_capture('q', 'u')")
    assert app.execute(FUNCTIONS).fetchone() == (0,)


def test_a_capture_without_triggers_is_that_of_a_dropped_table_only_if_there_is_none(
    app: Session,
) -> None:
    capture(app, "statement")
    stale = "select * from londiste.stale_captures('q')"
    triggers = "select tgname from pg_trigger where tgrelid = 't'::regclass"
    for (name,) in app.execute(triggers).fetchall():
        app.execute(f"drop trigger {name} on t")
    # The hint would remove what restores the capture; that it captures nothing is another finding.
    assert app.execute(stale).fetchall() == []
    app.execute("drop table t")
    ((table, why, kind),) = app.execute(stale).fetchall()
    assert (table, kind) == ("public.t", "dropped")
    assert str(why).startswith("the table was dropped: ")


@FORMS
def test_the_quotes_of_a_session_are_no_change_of_a_table(app: Session, form: str) -> None:
    stale = "select * from londiste.stale_captures('q')"
    capture(app, form)
    app.execute("set quote_all_identifiers = on")
    assert app.execute(stale).fetchall() == []
    app.execute("alter table t add column w text")
    assert app.execute("select londiste.refresh_capture('q', 't')").fetchone() == (True,)
    app.execute("reset quote_all_identifiers")
    assert app.execute(stale).fetchall() == []


@FORMS
def test_a_key_with_a_new_index_leaves_the_capture_as_it_is(app: Session, form: str) -> None:
    app.execute('create table "o\'dd (\\)" (id int4 primary key, v text)')
    app.execute("select londiste.create_capture('q', 'o''dd (\\)', array['form=' || %s])", [form])
    stale = "select * from londiste.stale_captures('q')"
    app.execute('alter table "o\'dd (\\)" drop constraint "o\'dd (\\)_pkey"')
    assert len(app.execute(stale).fetchall()) == 1
    app.execute('alter table "o\'dd (\\)" add primary key (id)')
    assert app.execute(stale).fetchall() == []
    looked = looks(app)
    app.execute("insert into \"o'dd (\\)\" values (1, 'x')")
    assert looks(app) == looked
    app.execute('alter table "o\'dd (\\)" add more text')
    assert len(app.execute(stale).fetchall()) == 1


def test_maintenance_leaves_a_capture_alone_that_is_being_refreshed(
    app: Session, pgq_db: Database
) -> None:
    capture(app, "row")
    app.execute("alter table t add more text")
    notices: list[str | None] = []
    with writer(pgq_db.dsn) as other:
        other.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        other.execute("set lock_timeout = '5s'")
        with app.transaction():
            app.execute("select londiste.refresh_capture('q', 't')")
            other.execute("select londiste.periodic_maintenance()")
    assert notices == []


def test_checks_and_maintenance_do_not_wait_for_a_table_that_is_locked(
    app: Session, pgq_db: Database
) -> None:
    capture(app, "row")
    body = "select prosrc from pg_proc where proname like '\\_capture\\_q\\_public\\_t%'"
    before = app.execute(body).fetchall()
    with writer(pgq_db.dsn) as other:
        other.execute("set lock_timeout = '10s'; set statement_timeout = '5s'")
        with app.transaction():
            app.execute("lock table t")
            stale = "select table_name, kind from londiste.stale_captures('q')"
            assert other.execute(stale).fetchall() == [("public.t", "locked")]
            forms = "select form, reason from londiste.capture_forms('q')"
            unknown = [("row", "not known: another session has locked the table")]
            assert other.execute(forms).fetchall() == unknown
            other.execute("select londiste.periodic_maintenance()")
            app.execute("prepare transaction 'locks'")
        assert other.execute(stale).fetchall() == [("public.t", "locked")]
        other.execute("rollback prepared 'locks'")
        assert other.execute(stale).fetchall() == []
    assert app.execute(body).fetchall() == before != []


def test_a_refresh_waits_for_the_maintenance_that_makes_the_same_function(
    app: Session, pgq_db: Database
) -> None:
    capture(app, "row")
    app.execute("alter table t add more text")
    waiting = "select exists (select from pg_locks where not granted)"
    with writer(pgq_db.dsn) as other, ThreadPoolExecutor(1) as pool:
        other.execute("begin; select londiste.periodic_maintenance()")
        refreshed = pool.submit(app.execute, "select londiste.create_capture('q', 't')")
        wait_for(lambda: other.execute(waiting).fetchone() == (True,), what="the lock")
        other.execute("commit")
        refreshed.result()
    assert app.execute("select * from londiste.stale_captures('q')").fetchall() == []


def test_the_owner_of_the_capture_may_lose_the_schema_of_the_table(app: Session) -> None:
    app.execute("drop role if exists capture_owner_without_schema")
    app.execute("create role capture_owner_without_schema in role londiste_writer")
    try:
        app.execute("grant create, usage on schema public to capture_owner_without_schema")
        app.execute("create schema app; grant usage on schema app to public")
        app.execute("create table app.t (id int4 primary key)")
        app.execute("alter table app.t owner to capture_owner_without_schema")
        app.execute("set role capture_owner_without_schema")
        app.execute("select londiste.create_capture('q', 'app.t', '{form=row}')")
        app.execute("reset role; revoke usage on schema app from public")
        app.execute("insert into app.t values (1)")
        assert told(take_events(app)) == [("INSERT", {"id": 1})]
    finally:
        app.execute("reset role; drop owned by capture_owner_without_schema cascade")
        app.execute("drop role capture_owner_without_schema")


def test_a_table_without_columns_gets_no_capture(app: Session) -> None:
    app.execute("create table empty ()")
    for options in ("{}", "{form=row}", "{backup}"):
        with pytest.raises(psycopg.Error, match="Table has no columns") as caught:
            app.execute("select londiste.create_capture('q', 'empty', %s)", [options])
        assert caught.value.sqlstate == "LD100"
    # Writes are refused there without a column, too.
    app.execute("select londiste.create_capture('q', 'empty', '{deny}')")


def test_an_argument_that_does_not_fit_keeps_no_script_from_running(app: Session) -> None:
    app.execute("create table other (id int4 primary key)")
    app.execute("select londiste.create_capture('q', 't', '{when=n > 1}')")
    app.execute("select londiste.create_capture('q', 'other', '{pkey=id}')")
    app.execute("alter table t rename n to m; alter table other add v text")
    refresh = "select * from londiste.refresh_captures()"
    assert app.execute(refresh).fetchall() == [("public.other",)]
    app.execute("alter table t rename m to n; alter table t add more int")
    assert app.execute(refresh).fetchall() == [("public.t",)]


def test_a_table_that_has_lost_its_columns_keeps_no_script_from_running(app: Session) -> None:
    capture(app, "row")
    app.execute("create table other (id int4 primary key)")
    app.execute("select londiste.create_capture('q', 'other')")
    app.execute("alter table t drop id, drop v, drop n")
    app.execute("alter table other add v text")
    refresh = "select * from londiste.refresh_captures()"
    assert app.execute(refresh).fetchall() == [("public.other",)]
    with pytest.raises(psycopg.Error, match="Table has no columns"):
        app.execute("select londiste.refresh_capture('q', 't')")
    app.execute("alter table t add id int8 primary key")
    assert app.execute(refresh).fetchall() == [("public.t",)]
