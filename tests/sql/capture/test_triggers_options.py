"""Every option, magic column and refusal of the three change-log triggers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import psycopg
import pytest

from londiste.changes.decode import decode
from londiste.changes.types import Op, RowChange
from tests.fixtures.cluster import Database
from tests.support.queue_events import as_event, take_events, writer
from tests.support.suite.slow import only

Session = psycopg.Connection[tuple[object, ...]]
TRIGGERS = ("sqltriga", "logutriga", "jsontriga")


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue and an empty table."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table t (id int4 primary key, name text, qty int4)")
        yield conn


def attach(
    conn: Session, trigger: str, *options: str, when: str = "after", table: str = "t"
) -> None:
    arguments = ", ".join("'" + text.replace("'", "''") + "'" for text in ("q", *options))
    conn.execute(f"drop trigger if exists x on {table}")
    conn.execute(
        f"create trigger x {when} insert or update or delete on {table}"
        f" for each row execute function pgq.{trigger}({arguments})"
    )


def refused(conn: Session, statement: str) -> psycopg.errors.Diagnostic:
    with pytest.raises(psycopg.Error) as caught:
        conn.execute(statement)
    assert caught.value.diag.message_hint
    assert (caught.value.sqlstate or "").startswith("LD")
    return caught.value.diag


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_skip_logs_the_change_and_suppresses_it(app: Session, trigger: str) -> None:
    attach(app, trigger, "SKIP", when="before")
    assert app.execute("insert into t values (1, 'a', 1)").rowcount == 0
    assert app.execute("select count(*) from t").fetchone() == (0,)
    assert len(take_events(app)) == 1


def test_without_skip_a_before_trigger_lets_the_change_through(app: Session) -> None:
    attach(app, "logutriga", when="before")
    app.execute("insert into t values (1, 'a', 1)")
    app.execute("update t set qty = 2")
    assert app.execute("select * from t").fetchall() == [(1, "a", 2)]
    app.execute("delete from t")
    assert app.execute("select count(*) from t").fetchone() == (0,)
    assert [event.type for event in take_events(app)] == ["I:id", "U:id", "D:id"]


def test_skip_in_an_after_trigger_is_an_error(app: Session) -> None:
    attach(app, "logutriga", "SKIP")
    diag = refused(app, "insert into t values (1)")
    assert diag.message_primary == "SKIP does not work in AFTER trigger."


@pytest.mark.parametrize(
    "option", ["skip", "Deny", "ignore", "pkey", "ev_extra5=1", "ev_id=1", "x=1", "", "backup=1"]
)
def test_an_unknown_argument_is_an_error(app: Session, option: str) -> None:
    attach(app, "logutriga", option)
    assert refused(app, "insert into t values (1)").message_primary == "bad param to pgq trigger"


def test_a_trigger_needs_a_queue(app: Session) -> None:
    app.execute("create trigger x after insert on t for each row execute function pgq.sqltriga()")
    assert "queue" in str(refused(app, "insert into t values (1)").message_primary)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_ignored_columns_are_in_no_event_and_cause_none(app: Session, trigger: str) -> None:
    attach(app, trigger, "ignore=qty,name")
    app.execute("insert into t values (1, 'secret', 42)")
    app.execute("update t set qty = 43, name = 'hidden'")
    app.execute("update t set qty = qty")
    app.execute("delete from t")
    events = take_events(app)
    assert len(events) == 3, "the second update changes nothing, and that is logged"
    for word in ("secret", "hidden", "42", "43", "qty"):
        assert all(word not in (event.data or "") for event in events)


BLANKS = ["a, b", " a b ", "a ,\tb", "a\nb", ",a,,b,"]


@pytest.mark.parametrize("columns", BLANKS)
@pytest.mark.parametrize("trigger", only([*TRIGGERS, "own capture"], "logutriga", "own capture"))
def test_blanks_separate_the_names_of_columns(app: Session, trigger: str, columns: str) -> None:
    app.execute("create table pair (b text, a text, c int4, d text)")
    for option in ("ignore", "pkey"):
        options = [f"{option}={columns}"] + ["pkey=c"] * (option == "ignore")
        if trigger == "own capture":
            app.execute("drop trigger if exists x on pair")
            app.execute("select londiste.create_capture('q', 'pair', %s)", [options])
        else:
            attach(app, trigger, *options, table="pair")
        app.execute("insert into pair values ('secret', 'hidden', 1, 'seen')")
        app.execute("update pair set d = 'changed'")
        app.execute("delete from pair")
        for event in take_events(app):
            change = decode(as_event(event))
            assert isinstance(change, RowChange)
            if option == "ignore":
                assert not {"a", "b"} & set(change.image)
                assert "secret" not in str(event)
            elif trigger != "sqltriga" or change.op is not Op.INSERT:
                assert sorted(change.key) == ["a", "b"]


def test_a_name_with_a_blank_is_one_name(app: Session) -> None:
    app.execute('create table odd ("my key" int4, "my note" text, my int4, v int4)')
    attach(app, "logutriga", "pkey=my key", "ignore=v, my note", table="odd")
    app.execute("insert into odd values (1, 'secret', 2, 3)")
    (event,) = take_events(app)
    # A name that could be two is left out as one and as two.
    assert (event.type, event.data) == ("I:my key", "my+key=1")


def test_pkey_replaces_the_key(app: Session) -> None:
    app.execute("create table nokey (a int4, b text, c int4)")
    attach(app, "logutriga", "pkey=b,a", table="nokey")
    app.execute("insert into nokey values (1, 'x', 2)")
    app.execute("update nokey set c = 3")
    attach(app, "sqltriga", "pkey=b,a", table="nokey")
    app.execute("delete from nokey")
    assert [(event.type, event.data) for event in take_events(app)] == [
        ("I:b,a", "a=1&b=x&c=2"),
        ("U:b,a", "a=1&b=x&c=3"),
        ("D", "a='1' and b='x'"),
    ]


def test_pkey_of_a_column_that_is_not_there_is_an_error(app: Session) -> None:
    attach(app, "logutriga", "pkey=nope")
    assert refused(app, "insert into t values (1)").message_primary == "bad param to pgq trigger"


@pytest.mark.parametrize("options", [[], ["pkey=name"]])
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_changed_key_is_refused(app: Session, trigger: str, options: list[str]) -> None:
    attach(app, trigger, *options)
    app.execute("insert into t values (1, 'a')")
    diag = refused(app, "update t set id = 2, name = 'b'")
    assert diag.message_primary == "primary key update not allowed"


@pytest.mark.parametrize(
    ("type_", "old", "new", "other"),
    [
        ("numrange", "[1.0,2)", "[1.00,2)", "[2,3)"),
        ("numeric", "1.0", "1.00", "2"),
        ("numeric[]", "{1.0}", "{1.00}", "{2}"),
        ("varchar", "a", "a", "b"),
        ("scale", "1.0", "1.00", "2"),
        ("float8", "0", "-0", "1"),
        ("interval", "1 day", "24:00", "2 days"),
        ("pair", "(1.0,x)", "(1.00,x)", "(2,x)"),
    ],
)
@pytest.mark.parametrize("trigger", only(TRIGGERS, "logutriga"))
def test_a_key_that_is_equal_with_another_text_is_not_changed(
    app: Session, trigger: str, type_: str, old: str, new: str, other: str
) -> None:
    app.execute("create domain scale as numeric; create type pair as (a numeric, b text)")
    app.execute(f"create table keyed (k {type_}, n int4, v text, primary key (n, k))")
    attach(app, trigger, "ignore=v", table="keyed")
    app.execute("insert into keyed values (%s, 1, 'x')", [old])
    app.execute("set search_path = pg_catalog")
    app.execute(f"update public.keyed set k = '{new}'")
    _, second = take_events(app)
    change = decode(as_event(second))
    assert isinstance(change, RowChange)
    assert (change.op, set(change.key)) == (Op.UPDATE, {"n", "k"})
    diag = refused(app, f"update public.keyed set k = '{other}'")
    assert diag.message_primary == "primary key update not allowed"


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_key_of_a_type_without_an_order_is_compared_by_its_text(
    app: Session, trigger: str
) -> None:
    app.execute("create table keyed (k json, v text)")
    attach(app, trigger, "pkey=k", table="keyed")
    app.execute("insert into keyed values ('[1]', 'x')")
    app.execute("update keyed set v = 'y'")
    diag = refused(app, "update keyed set k = '[ 1 ]'")
    assert diag.message_primary == "primary key update not allowed"


@pytest.mark.parametrize(
    ("trigger", "old"),
    [
        ("sqltriga", "id=1&name=a+b&qty"),
        ("logutriga", "id=1&name=a+b&qty"),
        ("jsontriga", '{"id":1,"name":"a b","qty":null}'),
    ],
)
def test_backup_puts_the_old_row_of_updates_into_extra2(
    app: Session, trigger: str, old: str
) -> None:
    attach(app, trigger, "backup")
    app.execute("insert into t values (1, 'a b')")
    app.execute("update t set name = 'c'")
    app.execute("delete from t")
    assert [event.extra2 for event in take_events(app)] == [None, old, None]


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_deny_refuses_every_kind_of_write(app: Session, trigger: str) -> None:
    app.execute("insert into t values (1)")
    attach(app, trigger, "deny")
    app.execute(
        f"create trigger y after truncate on t"
        f" for each statement execute function pgq.{trigger}('q', 'deny')"
    )
    for op, statement in {
        "INSERT": "insert into t values (2)",
        "UPDATE": "update t set qty = 1",
        "DELETE": "delete from t",
        "TRUNCATE": "truncate t",
    }.items():
        message = refused(app, statement).message_primary
        assert message == f"Table 'public.t' to queue 'q': change not allowed ({op})"
    assert take_events(app) == []


def test_deny_does_not_stop_replication_itself(app: Session) -> None:
    attach(app, "logutriga", "deny")
    app.execute("set session_replication_role = replica")
    app.execute("insert into t values (2)")
    assert app.execute("select count(*) from t").fetchone() == (1,)


@pytest.mark.parametrize(
    "option", ["ignore=id", "pkey=id", "backup", "ev_data='x'", "when=true", "ev_extra4='x'"]
)
def test_row_options_are_illegal_for_truncate(app: Session, option: str) -> None:
    quoted = option.replace("'", "''")
    app.execute(
        "create trigger x after truncate on t"
        f" for each statement execute function pgq.logutriga('q', '{quoted}')"
    )
    assert refused(app, "truncate t").message_primary == "bad param to pgq trigger"


def test_a_row_trigger_for_each_statement_is_refused(app: Session) -> None:
    app.execute(
        "create trigger x after insert on t for each statement execute function pgq.sqltriga('q')"
    )
    assert "FOR EACH ROW" in str(refused(app, "insert into t values (1)").message_primary)


@pytest.mark.parametrize(
    ("enable", "role", "logged"),
    [
        ("enable", "origin", 1),
        ("enable", "replica", 0),
        ("enable", "local", 0),
        ("enable always", "origin", 1),
        ("enable always", "replica", 1),
        ("enable always", "local", 0),
        ("enable replica", "origin", 0),
        ("enable replica", "replica", 1),
    ],
)
@pytest.mark.parametrize("trigger", only([*TRIGGERS, "own capture"], "logutriga", "own capture"))
def test_the_replication_role_decides_whether_changes_are_logged(
    app: Session, trigger: str, enable: str, role: str, logged: int
) -> None:
    if trigger == "own capture":
        app.execute("select londiste.create_capture('q', 't')")
        for trigger in ("_londiste_q", "_londiste_q_insert"):
            app.execute(f"alter table t {enable} trigger {trigger}")
    else:
        attach(app, trigger)
        app.execute(f"alter table t {enable} trigger x")
    app.execute(f"set session_replication_role = {role}")
    app.execute("insert into t values (1)")
    assert len(take_events(app)) == logged
    assert app.execute("select count(*) from t").fetchone() == (1,)


def test_the_key_is_listed_in_the_order_of_the_index_without_included_columns(
    app: Session,
) -> None:
    app.execute("create table k (a int4, b int4, c int4, primary key (c, a) include (b))")
    attach(app, "jsontriga", table="k")
    app.execute("insert into k values (1, 2, 3)")
    (event,) = take_events(app)
    assert json.loads(event.type or "")["pkey"] == ["c", "a"]
