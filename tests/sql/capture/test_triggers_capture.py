"""Native capture: generated functions that refuse no change and lose none."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from londiste.changes.decode import decode
from londiste.changes.types import Op, RowChange
from tests.fixtures.cluster import Database
from tests.support.queue_events import Fields, as_event, take_events, writer

Session = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        yield conn


def changes(conn: Session) -> list[RowChange]:
    found = [decode(as_event(event)) for event in take_events(conn)]
    assert all(isinstance(change, RowChange) for change in found)
    return found  # type: ignore[return-value]


def told(conn: Session) -> list[tuple[str, dict[str, str | None]]]:
    """Operation and image; an event about the state of a key has a star."""
    return [(change.op.value + "*" * change.state, change.image) for change in changes(conn)]


def stale(conn: Session) -> list[tuple[object, ...]]:
    return conn.execute("select table_name from londiste.stale_captures('q')").fetchall()


def test_the_wire_format_is_that_of_jsontriga_with_the_columns_and_the_key_named(
    app: Session,
) -> None:
    app.execute(
        "create table t (id int8 primary key, ok bool, n numeric, f float8, j json, a int4[],"
        " made timestamptz, b bytea, twice int8 generated always as (id * 2) stored)"
    )
    app.execute("select londiste.create_capture('q', 't')")
    app.execute(
        "insert into t values (1, true, 1.50, 0.1, '{\"a\": 1}', '{1,2}',"
        " '2024-02-03 04:05:06+00', '\\x00ff')"
    )
    app.execute("truncate t")
    names = "id,ok,n,f,j,a,made,b"
    row = hashlib.md5(names.encode()).hexdigest()[:8]
    key = '"table":["public","t"],"pkey":["id"]'
    assert take_events(app) == [
        Fields(
            '{"op":"INSERT",' + key + f',"row":"{row}"}}',
            '{"id":1,"ok":true,"n":"1.50","f":"0.1","j":"{\\"a\\": 1}","a":"{1,2}",'
            '"made":"2024-02-03T04:05:06+00:00","b":"\\\\x00ff"}',
            "public.t",
            extra3="1",
        ),
        Fields('{"op":"TRUNCATE",' + key + "}", "{}", "public.t"),
    ]


def test_a_changed_key_becomes_a_delete_and_an_insert(app: Session) -> None:
    app.execute("create table t (id numeric primary key, name text)")
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("insert into t values (1, 'a')")
    app.execute("update t set name = 'b'")
    app.execute("update t set id = 2, name = 'c'")
    # Equal as numbers, not as texts: the other side has to get the new text.
    app.execute("update t set id = 2.0")
    assert told(app) == [
        ("I", {"id": "1", "name": "a"}),
        ("U", {"id": "1", "name": "b"}),
        ("D*", {"id": "1"}),
        ("I*", {"id": "2", "name": "c"}),
        # The row has an equal key in another text, so the key in the former text goes first.
        ("D*", {"id": "2"}),
        ("I*", {"id": "2.0", "name": "c"}),
        ("I*", {"id": "2.0", "name": "c"}),
    ]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                "update t set id = 10 - id",
                "update t set id = id + 1",
                "update t set id = id % 3 where id % 3 not in (select id from t)",
                "update t set id = case id when 1 then 5 when 5 then 9 when 9 then 1 else id end",
                "delete from t where id % 4 = 0",
                "insert into t select g, 'new' from generate_series(3, 7) as g"
                " where g not in (select id from t)",
                "update t set name = name || id",
                "update t set id = id",
            ]
        ),
        max_size=8,
    )
)
def test_swapped_keys_of_a_deferrable_key_replay_to_the_same_rows(
    app: Session, statements: list[str]
) -> None:
    app.execute("drop table if exists t")
    app.execute("create table t (id int4 primary key deferrable initially immediate, name text)")
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("insert into t select g, 'row ' || g from generate_series(1, 9) as g")
    for statement in statements:
        try:
            app.execute(statement)
        except psycopg.errors.UniqueViolation:
            continue
    copy: dict[str | None, dict[str, str | None]] = {}
    for change in changes(app):
        key = change.image["id"]
        assert change.state
        if change.op is Op.DELETE:
            copy.pop(key, None)
        else:
            copy[key] = change.image
    rows = app.execute("select id::text, name from t").fetchall()
    assert {key: {"id": key, "name": name} for key, name in rows} == copy


def test_a_table_without_key_takes_inserts_and_refuses_what_nobody_could_apply(
    app: Session,
) -> None:
    app.execute("create table t (a int4, b text)")
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("insert into t values (1, 'x')")
    for statement in ("update t set b = 'y'", "delete from t"):
        with pytest.raises(
            psycopg.Error, match=r"^Update/Delete on table without pkey\n"
        ) as caught:
            app.execute(statement)
        assert "pkey=" in str(caught.value.diag.message_hint)
    app.execute("select londiste.create_capture('q', 't', '{pkey=a}')")
    app.execute("update t set b = 'y'")
    app.execute("update t set a = 2")
    assert [(change.op.value, change.key) for change in changes(app)] == [
        ("I", ()),
        ("U", ("a",)),
        ("D", ("a",)),
        ("I", ("a",)),
    ]


@pytest.mark.parametrize("form", ["row", "statement"])
@pytest.mark.parametrize("kind", ["int4", "text", "numeric"])
def test_a_row_whose_key_is_or_becomes_null_is_not_changed(
    app: Session, form: str, kind: str
) -> None:
    app.execute(f"create table t (a {kind} unique, b int4, c text)")
    said: list[str] = []
    app.add_notice_handler(lambda notice: said.append(str(notice.message_hint)))
    app.execute("select londiste.create_capture('q', 't', array['pkey=a,b', %s])", [f"form={form}"])
    assert said == ["alter table public.t alter column a set not null, alter column b set not null"]
    app.execute("insert into t values (1, 1, 'x'), (2, null, 'x')")
    app.execute("insert into t select g, g, 'x' from generate_series(3, 30) as g")
    take_events(app)
    for statement in (
        "update t set b = null where a = '1'",
        "update t set b = 2 where a = '2'",
        "update t set c = 'y' where a = '2'",
        "update t set c = 'y'",
        "update t set b = null where a > '2'",
        "delete from t where a = '2'",
        "delete from t",
    ):
        with pytest.raises(psycopg.Error, match=r"^Change of a row whose key is NULL\n") as caught:
            app.execute(statement)
        assert caught.value.sqlstate == "LD100"
        assert "alter column b set not null" in str(caught.value.diag.message_hint)
    assert take_events(app) == []
    app.execute("update t set b = 5, c = 'y' where a = '1'")
    app.execute("delete from t where a = '1'")
    assert [change.op.value for change in changes(app)] == ["D", "I", "D"]
    # also while the capture is older than the table
    app.execute("alter table t add d int4")
    with pytest.raises(psycopg.Error, match=r"^Change of a row whose key is NULL\n"):
        app.execute("update t set b = null where a = '3'")


def test_a_key_that_cannot_be_null_is_not_warned_of(app: Session) -> None:
    app.execute("create domain whole as int4 not null")
    app.execute("create table t (a int4 not null, b whole, c text)")
    said: list[str] = []
    app.add_notice_handler(lambda notice: said.append(str(notice.message_primary)))
    app.execute("select londiste.create_capture('q', 't', '{pkey=a b}')")
    assert said == []


def test_options_of_capture(app: Session) -> None:
    app.execute("create table t (id int4 primary key, name text, qty int4, note text)")
    app.execute(
        "select londiste.create_capture('q', 't',"
        " array['ignore=note', 'when=qty > 1', 'backup', 'ev_extra3=upper(name)', 'ops=IU'],"
        " 'sales.t')"
    )
    app.execute("insert into t values (1, 'a', 1, 'x'), (2, 'b', 2, 'x'), (3, 'c', null, 'x')")
    app.execute("update t set note = 'y'")
    app.execute("update t set qty = 3 where id = 2")
    app.execute("delete from t")
    assert [(event.data, *event[2:]) for event in take_events(app)] == [
        ('{"id":2,"name":"b","qty":2}', "sales.t", None, "B", None),
        (
            '{"id":2,"name":"b","qty":3}',
            "sales.t",
            '{"id":2,"name":"b","qty":2}',
            "B",
            None,
        ),
    ]


@pytest.mark.parametrize(
    "option", ["SKIP", "ev_type=1", "ev_data=1", "ev_extra1=1", "x=1", "ops=X", "ops=", "pkey=zz"]
)
def test_capture_refuses_options_it_does_not_have(app: Session, option: str) -> None:
    app.execute("create table t (id int4 primary key)")
    with pytest.raises(psycopg.Error) as caught:
        app.execute("select londiste.create_capture('q', 't', array[%s])", [option])
    assert caught.value.sqlstate == "LD005"
    assert caught.value.diag.message_hint


@pytest.mark.parametrize(
    ("arguments", "state", "message"),
    [
        ("'nope', 't'", "LD001", "No such queue"),
        ("'q', 'nope'", "LD004", "Table does not exist: public.nope"),
        ("'q', 'pg_catalog.pg_tables'", "LD004", "Table does not exist: pg_catalog.pg_tables"),
    ],
)
def test_capture_of_what_is_not_there(
    app: Session, arguments: str, state: str, message: str
) -> None:
    app.execute("create table t (id int4 primary key)")
    with pytest.raises(psycopg.Error) as caught:
        app.execute(f"select londiste.create_capture({arguments})")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == (state, message)


def test_deny_refuses_writes_but_not_those_of_replication(app: Session) -> None:
    app.execute("create table t (id int4 primary key)")
    app.execute("select londiste.create_capture('no queue here', 't', '{deny}')")
    app.execute("create role fix_writer")
    try:
        app.execute("grant insert on t to fix_writer")
        app.execute("set role fix_writer")
        with pytest.raises(psycopg.Error, match="change not allowed"):
            app.execute("insert into t values (1)")
    finally:
        app.execute("reset role")
        app.execute("drop owned by fix_writer")
        app.execute("drop role fix_writer")
    for statement in ("insert into t values (1)", "truncate t"):
        with pytest.raises(psycopg.Error, match="change not allowed"):
            app.execute(statement)
    app.execute("set session_replication_role = replica")
    app.execute("insert into t values (1)")
    app.execute("set session_replication_role = origin")
    app.execute("select londiste.drop_capture('no queue here', 't')")
    app.execute("truncate t")


def test_a_changed_table_is_captured_in_full_before_and_after_the_refresh(app: Session) -> None:
    app.execute("create table t (id int4 primary key, a text, b text)")
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("insert into t values (1, 'a', 'b')")
    app.execute("alter table t add column c inet default '10.0.0.1'")
    app.execute("insert into t values (2, 'a', 'b')")
    app.execute("alter table t drop column a")
    app.execute("update t set id = 3 where id = 2")
    app.execute("alter table t rename column b to bb")
    app.execute("alter table t alter column bb type numeric using 1.0")
    app.execute("update t set bb = 2.50 where id = 3")
    expected = [
        ("I", {"id": "1", "a": "a", "b": "b"}),
        ("I", {"id": "2", "a": "a", "b": "b", "c": "10.0.0.1"}),
        ("D*", {"id": "2"}),
        ("I*", {"id": "3", "b": "b", "c": "10.0.0.1"}),
        ("U", {"id": "3", "bb": "2.50", "c": "10.0.0.1"}),
    ]
    assert told(app) == expected
    # The first change after an ALTER TABLE has recreated it.
    assert stale(app) == []
    app.execute("alter table t add column d int4")
    assert stale(app) == [("public.t",)]
    assert app.execute("select londiste.refresh_capture('q', 't')").fetchone() == (True,)
    assert app.execute("select londiste.refresh_capture('q', 't')").fetchone() == (False,)
    assert stale(app) == []
    app.execute("delete from t where id = 3")
    assert told(app) == [("D", {"id": "3"})]


def test_a_column_added_by_another_session_is_captured_in_running_ones(
    app: Session, pgq_db: Database
) -> None:
    app.execute("create table t (id int4 primary key)")
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("insert into t values (1)")
    pgq_db.execute("alter table t add column name text default 'x'")
    app.execute("insert into t values (2)")
    assert told(app)[1] == ("I", {"id": "2", "name": "x"})


def test_a_column_added_after_the_snapshot_of_a_repeatable_read_writer_is_captured(
    app: Session, pgq_db: Database
) -> None:
    app.execute("create table t (id int4 primary key)")
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("begin isolation level repeatable read")
    app.execute("select 1")
    pgq_db.execute("alter table t add column name text default 'x'")
    app.execute("insert into t values (2)")
    app.execute("commit")
    app.execute("insert into t values (3)")
    assert told(app)[1] == ("I", {"id": "3", "name": "x"})


def test_options_and_event_name_survive_the_refresh(app: Session) -> None:
    app.execute("create table t (id int4, a text, b text)")
    app.execute(
        "select londiste.create_capture('q', 't', array['pkey=id', 'ignore=b', 'backup'], 'o.t')"
    )
    app.execute("alter table t add column c text")
    app.execute("select londiste.refresh_capture('q', 't')")
    app.execute("insert into t values (1, 'a', 'b', 'c')")
    app.execute("update t set c = 'd'")
    events = take_events(app)
    assert [event.extra1 for event in events] == ["o.t", "o.t"]
    assert events[1].data == '{"id":1,"a":"a","c":"d"}'
    assert events[1].extra2 == '{"id":1,"a":"a","c":"c"}'


def test_a_key_that_becomes_deferrable_makes_the_capture_stale(app: Session) -> None:
    app.execute("create table t (id int4 primary key)")
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("alter table t drop constraint t_pkey, add primary key (id) deferrable")
    assert stale(app) == [("public.t",)]
    app.execute("select londiste.refresh_capture('q', 't')")
    assert stale(app) == []
    app.execute("insert into t values (1), (2)")
    take_events(app)
    app.execute("update t set id = 3 - id")
    swapped = [
        ("I*", {"id": "1"}),
        ("I*", {"id": "2"}),
        ("I*", {"id": "2"}),
        ("I*", {"id": "1"}),
    ]
    # Once more at commit.
    assert told(app) == 2 * swapped


def test_a_deferrable_key_without_its_trigger_at_commit_is_stale(app: Session) -> None:
    app.execute("create table t (id int4 primary key deferrable)")
    app.execute("select londiste.create_capture('q', 't')")
    assert stale(app) == []
    app.execute("drop trigger _londiste_q_commit on t")
    assert stale(app) == [("public.t",)]
    app.execute("select londiste.refresh_capture('q', 't')")
    assert stale(app) == []


def test_what_is_left_of_a_dropped_table_is_reported_and_can_be_dropped(app: Session) -> None:
    app.execute("create table t (id int4 primary key)")
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("drop table t")
    assert stale(app) == [("public.t",)]
    app.execute("select londiste.drop_capture('q', 't')")
    assert stale(app) == []


def test_dropping_a_capture_leaves_nothing(app: Session) -> None:
    app.execute("create table t (id int4 primary key deferrable)")
    app.execute(
        "create trigger mine before insert on t for each row execute function pgq.logutriga('q')"
    )
    app.execute("select londiste.create_capture('q', 't')")
    assert app.execute("select londiste.drop_capture('q', 't')").fetchone() == (3,)
    assert app.execute("select londiste.drop_capture('q', 't')").fetchone() == (0,)
    triggers = app.execute(
        "select tgname from pg_trigger where not tgisinternal and tgrelid = 't'::regclass"
    ).fetchall()
    assert triggers == [("mine",)]
    assert app.execute(
        "select count(*) from pg_proc where prorettype = 'trigger'::regtype"
        " and proname like '\\_capture\\_%%'"
    ).fetchone() == (0,)


def test_partitions_tell_the_name_of_the_registered_root(app: Session) -> None:
    app.execute("create table m (id int4 primary key, v text) partition by range (id)")
    app.execute("create table m1 partition of m for values from (0) to (10)")
    app.execute("create table m2 (v text, id int4 not null)")
    app.execute("alter table m attach partition m2 for values from (10) to (20)")
    app.execute("select londiste.create_capture('q', 'm')")
    app.execute("insert into m values (1, 'a'), (11, 'b')")
    app.execute("update m set id = 12 where id = 1")
    app.execute("alter table m add column w int4")
    app.execute("update m set w = 1 where id = 11")
    found = changes(app)
    assert {str(change.table) for change in found} == {"public.m"}
    assert [(change.op.value, change.image) for change in found] == [
        ("I", {"id": "1", "v": "a"}),
        ("I", {"id": "11", "v": "b"}),
        ("D", {"id": "1", "v": "a"}),
        ("I", {"id": "12", "v": "a"}),
        ("U", {"id": "11", "v": "b", "w": "1"}),
    ]


def test_foreign_key_cascades_and_upserts_are_captured(app: Session) -> None:
    app.execute("create table p (id int4 primary key, v int4)")
    app.execute(
        "create table c (id int4 primary key, p int4 references p"
        " on update cascade on delete cascade)"
    )
    app.execute("select londiste.create_capture('q', 'p'), londiste.create_capture('q', 'c')")
    app.execute("insert into p values (1, 1)")
    app.execute("insert into c values (7, 1)")
    app.execute("insert into p values (1, 2), (2, 2) on conflict (id) do update set v = 3")
    app.execute("update p set id = 5 where id = 1")
    app.execute("delete from p where id = 5")
    found = [(change.table.name, change.op.value, change.image) for change in changes(app)]
    assert found[2:4] == [("p", "U", {"id": "1", "v": "3"}), ("p", "I", {"id": "2", "v": "2"})]
    assert [change for change in found if change[0] == "c"] == [
        ("c", "I", {"id": "7", "p": "1"}),
        ("c", "U", {"id": "7", "p": "5"}),
        # a table that a cascade writes to has the row form, whose deletes hold the old row
        ("c", "D", {"id": "7", "p": "5"}),
    ]
