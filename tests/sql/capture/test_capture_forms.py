"""The two capture modes of native capture: choice, reason and change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import groupby

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.restore import dump, restore
from tests.support.queue_events import Fields, take_events, writer
from tests.support.suite.slow import first, pairs

Session = psycopg.Connection[tuple[object, ...]]

TABLES = """
create table plain (id int4 primary key, v text);
create table nokey (a int4);
create table late (id int4 primary key deferrable);
create table floats (id float8 primary key, v text);
create table parts (id int4 primary key) partition by range (id);
create table part partition of parts for values from (0) to (10);
create table parent (id int4 primary key);
create table child (primary key (id)) inherits (parent);
create table tree (id int4 primary key, top int4 references tree on delete set null);
create table safe (id int4 primary key, top int4 references safe);
create table a (id int4 primary key);
create table b (id int4 primary key, a int4 references a on update cascade);
create table leaf (id int4 primary key, top int4 references tree on delete cascade);
alter table a add b int4 references b on delete cascade;
"""


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue and a table of each kind."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute(TABLES)
        yield conn


def form(conn: Session, table: str) -> tuple[str, str]:
    rows = conn.execute(
        "select form, reason from londiste.capture_forms('q') where table_name = %s",
        [f"public.{table}"],
    ).fetchall()
    ((chosen, reason),) = rows
    return str(chosen), str(reason)


def event_type(event: Fields) -> dict[str, object]:
    return dict(json.loads(event.type or ""))


#: Table, options, the form that is taken, and why.
TAKEN = [
    ("plain", "{}", "statement", "many rows in one event"),
    ("plain", "{form=row}", "row", "asked for"),
    ("plain", "{form=statement}", "statement", "asked for"),
    ("plain", "{ops=ID}", "statement", "many rows in one event"),
    ("plain", "{backup}", "row", "backup"),
    ("plain", "{ignore=v}", "row", "ignore="),
    ("plain", '{"when=id > 1"}', "row", "when="),
    ("plain", "{ev_extra4=v}", "row", "expression"),
    ("nokey", "{}", "statement", "many rows"),
    ("nokey", "{pkey=a}", "statement", "many rows"),
    ("late", "{}", "row", "checked at commit"),
    ("late", "{form=statement}", "row", "checked at commit"),
    ("floats", "{}", "row", "settings of the session"),
    ("floats", "{form=statement}", "row", "settings of the session"),
    ("parts", "{}", "row", "partitioned"),
    ("part", "{}", "row", "partition"),
    ("parent", "{}", "row", "inherit"),
    ("child", "{}", "row", "inherit"),
    ("tree", "{}", "row", "foreign keys"),
    ("a", "{form=statement}", "row", "foreign keys"),
    ("leaf", "{}", "row", "foreign keys"),
    ("safe", "{}", "statement", "many rows"),
]


def test_the_statement_form_is_taken_where_it_is_safe(app: Session) -> None:
    for table, options, chosen, why in TAKEN:
        with app.transaction(force_rollback=True):
            app.execute("select londiste.create_capture('q', %s, %s)", [table, options])
            got, reason = form(app, table)
            assert got == chosen and why in reason, (table, options, got, reason)
            stale = app.execute("select count(*) from londiste.stale_captures('q')").fetchone()
            assert stale == (0,), (table, options)


def test_the_form_is_changed_and_other_options_stay(app: Session) -> None:
    app.execute("select londiste.create_capture('q', 'plain', '{pkey=id}', 'x.y')")
    for asked, expected in (("row", "row"), ("statement", "statement"), ("auto", "statement")):
        app.execute("select londiste.change_form('q', 'plain', %s)", [asked])
        assert form(app, "plain")[0] == expected
        app.execute("insert into plain values (1, 'a'); delete from plain")
        assert [event.extra1 for event in take_events(app)] == ["x.y", "x.y"]


def test_a_table_that_becomes_a_partition_is_named_as_stale_and_gets_the_row_form(
    app: Session,
) -> None:
    app.execute("select londiste.create_capture('q', 'plain')")
    # Somebody helps himself.
    app.execute("drop trigger _londiste_q_no_partition on plain")
    app.execute("create table top (id int4 not null, v text) partition by range (id)")
    app.execute("alter table top attach partition plain for values from (0) to (100)")
    assert app.execute("select table_name from londiste.stale_captures('q')").fetchall() == [
        ("public.plain",)
    ]
    assert "row form after refresh_capture()" in form(app, "plain")[1]
    app.execute("select londiste.refresh_capture('q', 'plain')")
    assert form(app, "plain")[0] == "row"
    app.execute("insert into top values (1, 'a')")
    assert len(take_events(app)) == 1


def test_a_statement_that_touches_no_row_writes_nothing(app: Session) -> None:
    app.execute("select londiste.create_capture('q', 'plain')")
    with app.transaction():
        app.execute(
            "update plain set v = 'x'; delete from plain; insert into plain select 1 where false"
        )
        assert app.execute("select txid_current_if_assigned()").fetchone() == (None,)
    assert take_events(app) == []


@pytest.mark.parametrize("key", first(["primary key (id)", "unique (id)"]))
@pytest.mark.parametrize(
    ("chosen", "kind"), pairs(["statement", "row"], ["json", "text", "app.composite"])
)
def test_a_column_may_have_the_name_of_anything_in_the_function(
    app: Session, chosen: str, kind: str, key: str
) -> None:
    app.execute("create schema app; create type app.composite as (id int4, ev_id int4)")
    app.execute(f"create table words (id int4 not null, {key})")
    create = "select londiste.create_capture('q', 'words', %s)"
    app.execute(create, [[f"form={chosen}", *(["pkey=id"] if "unique" in key else [])]])
    source = app.execute(
        "select prosrc from pg_proc where proname ~ '^_capture_.*words'"
    ).fetchone()
    # xmin and xmax are columns of every table
    words = set(re.findall(r"[a-z_]+", str(source))) - {"id", "xmin", "xmax"}
    own = {"row": {"v_way", "new"}, "statement": {"v_way", "v_done", "new_rows"}}
    assert {"v_txid", "tg_op", "ev_txid", "r"} | own[chosen] <= words
    # A row holds about so many columns that are not null.
    assert len(words) < 1000
    app.execute("drop table words cascade")
    columns = ", ".join(f'"{word}" {kind}' for word in sorted(words))
    app.execute(f"create table words (id int4 not null, {columns}, {key})")
    app.execute(create, [[f"form={chosen}", *(["pkey=id"] if "unique" in key else [])]])
    for statement in (
        "insert into words select g from generate_series(1, 20) as g",
        "update words set v_txid = null",
        "update words set id = -id where id = 3",
        "update words set tg_op = null where id = 4",
        "delete from words where id < 10",
        "truncate words",
        "insert into words values (7)",
        "alter table words add more int4",
        "update words set id = 8",
        "delete from words",
    ):
        app.execute(statement)
        assert take_events(app) or statement.startswith("alter"), statement


@pytest.mark.parametrize("chosen", ["row", "statement"])
def test_a_change_without_a_key_is_refused_whatever_the_columns_are_called(
    app: Session, chosen: str
) -> None:
    app.execute("create table bare (tg_op int4, tg_argv int4)")
    app.execute("select londiste.create_capture('q', 'bare', %s)", [[f"form={chosen}"]])
    app.execute("insert into bare values (1, 2)")
    app.execute("delete from bare where tg_op = 3")
    with pytest.raises(psycopg.errors.DatabaseError, match="without pkey") as caught:
        app.execute("delete from bare")
    assert caught.value.sqlstate == "LD100"


def test_a_key_is_changed_while_the_capture_has_the_row_form(app: Session) -> None:
    app.execute("create table orders (id int4 primary key, nr int4 not null)")
    app.execute("select londiste.create_capture('q', 'orders')")
    app.execute("insert into orders values (1, 101)")
    app.execute("select londiste.change_form('q', 'public.orders', 'row')")
    app.execute("alter table orders alter id type int8")
    app.execute("alter table orders drop constraint orders_pkey, add primary key (nr)")
    take_events(app)
    app.execute("update orders set nr = -nr")
    gone, there = take_events(app)
    assert (gone.extra3, there.extra3) == ("101", "-101")
    app.execute("select londiste.change_form('q', 'public.orders', 'auto')")
    assert form(app, "orders")[0] == "statement"
    app.execute("update orders set nr = -nr")
    assert {event.extra3 for event in take_events(app)} == {"101", "-101"}


def test_the_key_of_a_captured_table_is_altered_like_any_column(app: Session) -> None:
    app.execute("select londiste.create_capture('q', 'plain')")
    app.execute("insert into plain select g, 'x' from generate_series(1, 20) as g")
    app.execute("update plain set id = id + 100 where id = 1")
    for change, key in (
        ("alter table plain alter column id type int8", "id"),
        ("alter table plain rename column id to nr", "nr"),
        ("alter table plain alter column nr type numeric", "nr"),
        ("alter table plain alter column nr type int4", "nr"),
    ):
        app.execute(change)
        for refreshed in (False, True):
            if refreshed:
                app.execute("select londiste.refresh_capture('q', 'plain')")
            take_events(app)
            app.execute("update plain set v = v || 'y'")
            assert {event_type(event)["op"] for event in take_events(app)} == {"UPDATE"}, change
            app.execute(f"update plain set {key} = {key} + 200 where {key} = 5")
            app.execute(f"update plain set {key} = {key} - 200 where {key} = 205")
            types = [event_type(event) for event in take_events(app)]
            assert all(each.get("state") for each in types)
            # 1.0 equals 1.00: for such types the old text goes first, once more for the new row
            assert [op for op, _ in groupby(each["op"] for each in types)] == [
                "DELETE",
                "INSERT",
            ] * 2, (change, refreshed)
    app.execute("alter table plain drop column nr")
    app.execute("insert into plain values ('without key')")
    assert [event_type(event)["op"] for event in take_events(app)] == ["INSERT"]
    app.execute("select londiste.refresh_capture('q', 'plain')")
    app.execute("drop table plain")
    app.execute("select londiste.drop_capture('q', 'plain')")
    assert app.execute(
        "select count(*) from pg_proc where proname like '\\_key\\_changed\\_%'"
        " and prorettype = 'bool'::regtype and proargtypes[0] = 'anyelement'::regtype"
    ).fetchone() == (0,)


def test_a_primary_key_replaced_behind_our_back_is_the_key_of_the_next_change(app: Session) -> None:
    app.execute("alter table plain add other int4; select londiste.create_capture('q', 'plain')")
    app.execute("insert into plain values (1, 'a', 10), (2, 'b', 20)")
    app.execute("update plain set v = 'c'")
    app.execute("alter table plain drop constraint plain_pkey, add primary key (other)")
    take_events(app)
    app.execute("update plain set id = id + 1")
    events = take_events(app)
    assert [(event_type(event)["op"], event_type(event).get("state")) for event in events] == [
        ("UPDATE", None)
    ] * 2
    app.execute("update plain set other = 30 where other = 10")
    gone, there = take_events(app)
    assert (event_type(gone)["op"], gone.extra3) == ("DELETE", "10")
    assert (event_type(there)["op"], there.extra3) == ("INSERT", "30")
    assert event_type(gone)["pkey"] == event_type(there)["pkey"] == ["other"]


@pytest.mark.parametrize("asked", ["row", "statement"])
def test_maintenance_renews_the_capture_of_a_changed_table_without_a_lock_on_it(
    app: Session, pgq_db: Database, asked: str
) -> None:
    stale = "select count(*) from londiste.stale_captures('q')"
    app.execute("select londiste.create_capture('q', 'plain', array['form=' || %s])", [asked])
    app.execute("alter table plain add more text default 'm', alter id type int8")
    assert app.execute(stale).fetchone() == (1,)
    with writer(pgq_db.dsn) as other, other.transaction():
        other.execute("insert into plain values (1, 'a')")
        app.execute("set lock_timeout = '5s'")
        app.execute("select londiste.periodic_maintenance()")
    assert app.execute(stale).fetchone() == (0,)
    app.execute("update plain set id = 2")
    app.execute("update plain set more = 'x'")
    assert [event_type(event)["op"] for event in take_events(app)] == [
        "INSERT",
        "DELETE",
        "INSERT",
        "UPDATE",
    ]
    app.execute("alter table plain drop constraint plain_pkey")
    app.execute("select londiste.periodic_maintenance()")
    assert app.execute(stale).fetchone() == (0,)


def test_triggers_that_know_other_transition_tables_are_left_to_a_refresh(app: Session) -> None:
    app.execute("select londiste.create_capture('q', 'plain')")
    app.execute("insert into plain values (1, 'a')")
    function = app.execute(
        "select distinct tgfoid::regproc::text from pg_trigger"
        " where tgrelid = 'plain'::regclass and tgfoid::regproc::text ~ '_capture_'"
    ).fetchone()
    assert function is not None
    app.execute("drop trigger _londiste_q on plain")
    app.execute(
        "create trigger _londiste_q after update on plain referencing new table as new_rows"
        f" for each statement execute function {function[0]}('q', 'public.plain')"
    )
    app.execute("alter table plain add more int4")
    before = app.execute("select prosrc from pg_proc where oid = %s::regproc", function).fetchone()
    app.execute("select londiste.periodic_maintenance()")
    after = app.execute("select prosrc from pg_proc where oid = %s::regproc", function).fetchone()
    assert before == after
    app.execute("select londiste.refresh_capture('q', 'plain')")
    take_events(app)
    app.execute("update plain set more = 1")
    assert [event_type(event)["op"] for event in take_events(app)] == ["UPDATE"]


def test_the_statement_form_has_no_trigger_for_rows_and_the_plain_name_on_one(app: Session) -> None:
    for ops, events in (("IUD", {16, 4, 8, 32}), ("ID", {4, 8, 32}), ("D", {8, 32})):
        app.execute("select londiste.create_capture('q', 'plain', array['ops=' || %s])", [ops])
        found = app.execute(
            "select tgname, tgtype from pg_trigger"
            " where tgrelid = 'plain'::regclass and tgenabled = 'O'"
        ).fetchall()
        assert {kind for _, kind in found} == events
        assert "_londiste_q" in {name for name, _ in found}
        app.execute("insert into plain values (1, 'a'); delete from plain")
        assert "DELETE" in {event_type(event)["op"] for event in take_events(app)}


@pytest.mark.parametrize("enabled", [False, True])
def test_a_table_in_the_statement_form_is_made_no_partition_and_no_heir_before_its_form_is_changed(
    app: Session, enabled: bool
) -> None:
    app.execute("create table whole (like plain including all) partition by range (id)")
    app.execute("create table ancestor (like plain including all)")
    app.execute("select londiste.create_capture('q', 'plain')")
    if enabled:
        # as programs do that load data
        app.execute("alter table plain disable trigger all; alter table plain enable trigger all")
    attach = "alter table whole attach partition plain for values from (0) to (100)"
    inherit = "alter table plain inherit ancestor"
    for statement in (attach, inherit):
        with pytest.raises(psycopg.errors.DatabaseError, match="_londiste_q_no_partition"):
            app.execute(statement.encode())
    app.execute("insert into plain select g, 'a' from generate_series(1, 20) g; delete from plain")
    take_events(app)
    app.execute("select londiste.change_form('q', 'plain', 'row')")
    app.execute(attach.encode())
    app.execute("insert into whole values (1, 'a')")
    assert [event_type(event)["op"] for event in take_events(app)] == ["INSERT"]


def test_rows_of_tables_that_inherit_later_are_no_changes_of_the_table(app: Session) -> None:
    app.execute("select londiste.create_capture('q', 'plain')")
    app.execute("insert into plain select g, 'a' from generate_series(1, 20) g")
    app.execute("create table heir () inherits (plain)")
    app.execute("insert into heir select g, 'of the heir' from generate_series(15, 30) g")
    take_events(app)
    app.execute("update plain set v = v || '!'")
    told = take_events(app)
    assert not any("of the heir" in (event.data or "") for event in told)
    assert sum((event.data or "").count("a!") for event in told) >= 20
    app.execute("select londiste.refresh_capture('q', 'plain')")
    assert form(app, "plain")[0] == "row"
    app.execute("update plain set v = 'b'")
    assert len(take_events(app)) == 20


@pytest.mark.parametrize("chosen", first(["statement", "row"]))
def test_a_capture_that_comes_out_of_a_dump_finds_its_table(
    app: Session, pgq_db: Database, new_database: Callable[..., Database], chosen: str
) -> None:
    app.execute("select londiste.create_capture('q', 'plain', array['form=' || %s])", [chosen])
    app.execute("select londiste.create_capture('q', 'parts')")
    dumped = dump(pgq_db)
    # By its first change, or by maintenance.
    for maintained in (False, True):
        other = new_database()
        restore(dumped, other)
        with writer(other.dsn) as restored:
            if maintained:
                renewed = restored.execute("select londiste._renew_captures()").fetchone()
                assert renewed == (2,)
            restored.execute("insert into plain select g, 'a' from generate_series(1, 2) g")
            restored.execute("update plain set v = 'b' where id = 1; delete from plain")
            restored.execute("insert into parts values (5); delete from parts")
            told = [(event_type(event), event) for event in take_events(restored)]
            assert [(k["op"], k["table"], k["pkey"], e.extra3) for k, e in told] == [
                ("INSERT", ["public", "plain"], ["id"], "1"),
                ("INSERT", ["public", "plain"], ["id"], "2"),
                ("UPDATE", ["public", "plain"], ["id"], "1"),
                ("DELETE", ["public", "plain"], ["id"], "2"),
                ("DELETE", ["public", "plain"], ["id"], "1"),
                ("INSERT", ["public", "parts"], ["id"], "5"),
                ("DELETE", ["public", "parts"], ["id"], "5"),
            ]
            assert json.loads(told[2][1].data or "") == {"id": 1, "v": "b"}
            assert restored.execute("select londiste._renew_captures()").fetchone() == (0,)


def test_a_queue_that_was_dropped_and_made_anew_gets_its_events_after_maintenance(
    app: Session,
) -> None:
    app.execute("select londiste.create_capture('q', 'plain')")
    app.execute("select pgq.drop_queue('q', true)")
    app.execute("select londiste._renew_captures()")
    app.execute("select pgq.create_queue('q')")
    assert app.execute("select londiste._renew_captures()").fetchone() == (1,)
    app.execute("insert into plain values (1, 'a')")
    assert len(take_events(app)) == 1


@pytest.mark.parametrize("kind", ["", "_insert", "_delete", "_truncate"])
def test_a_kind_of_change_that_is_told_no_more_is_a_lost_capture(app: Session, kind: str) -> None:
    app.execute("select londiste.create_capture('q', 'plain')")
    app.execute(
        "select pgq_node.register_location('q', 'n', 'dbname=x', false);"
        "select pgq_node.create_node('q', 'root', 'n', 'w', null, null, null)"
    )
    app.execute(
        "insert into londiste.table_info (queue_name, table_name, local)"
        " values ('q', 'public.plain', true)"
    )
    lost = "select reason from londiste.lost_captures('q')"
    assert app.execute(lost).fetchall() == []
    app.execute(f"alter table plain disable trigger _londiste_q{kind}".encode())
    assert app.execute(lost).fetchall() == [("has its capture trigger disabled",)]
    app.execute(f"drop trigger _londiste_q{kind} on plain".encode())
    assert app.execute(lost).fetchall() == [("has lost its capture trigger",)]
    app.execute("select londiste.create_capture('q', 'plain', '{ops=I}')")
    assert app.execute(lost).fetchall() == []
