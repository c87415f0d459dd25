"""Arguments of a trigger with which every write would fail are refused, and found later."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.fixtures.cluster import Database
from tests.support.queue_events import take_events, writer

Session = psycopg.Connection[tuple[object, ...]]
MAKE = "select ret_code from londiste.create_trigger('q', 't', %s, 't', 'root')"

#: Arguments, and words of the error; with the native capture, too.
BROKEN = [
    ("when=nocol > 1", 'column "nocol" does not exist'),
    ("when=id", "boolean"),
    ("when=id > 1;", "syntax error|mismatched"),
    ("when=id >", "syntax error"),
    ("when=date '2024-01-01' < at", "columns of the table, as written: at, date"),
    ("when=nocol > 'it''s' -- it's", 'column "nocol" does not exist'),
    ("when=nosuch(id)", "nosuch"),
    ("when=name > date_trunc('day', at)", "operator does not exist"),
    ("ev_extra3=nocol", 'column "nocol" does not exist'),
    ("ev_extra2=id, name", "one column"),
    ("pkey=nocol", "nocol"),
    ("badarg", "badarg"),
]
#: Arguments with which writes succeed.
GOOD = [
    "when=at > timestamp '2024-01-01' + interval '1 day'",
    "when=at > timestamp with time zone '2024-01-01 00:00+00'",
    "when=name like 'a;%' or id = any ('{1,2}') or name is null",
    "when=boolean 'true' and B'101' = B'101' and U&'\\0061' = $$a$$",
    "when=id in (select 1 union select id) and not exists (select from pg_class where oid = 0)",
    "ev_extra3=case when id > 1 then 'x''' else E'\\'' end /* it's */",
    "ev_extra2=array['a', 'b']::text[] || name",
    "ev_extra2=extract(year from at) || position('a' in name)::text",
]


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue and an empty table."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        conn.execute("create table t (id int4 primary key, name text, at timestamp, date date)")
        yield conn


@pytest.mark.parametrize("flags", ["L", "C"])
def test_arguments_that_break_each_write_are_refused_and_others_are_not(
    app: Session, flags: str
) -> None:
    for argument, words in BROKEN:
        with pytest.raises(psycopg.Error) as caught:
            app.execute(MAKE, [[f"tgflags={flags}", argument]])
        diag = caught.value.diag
        told = f"{diag.message_primary} {diag.message_detail} {diag.message_hint}"
        assert diag.sqlstate == "LD005", argument
        assert any(word in told for word in words.split("|")), told
        assert (
            app.execute("select 1 from pg_trigger where tgrelid = 't'::regclass").fetchall() == []
        )
    for place, argument in enumerate(GOOD):
        assert app.execute(MAKE, [[f"tgflags={flags}", argument]]).fetchone() == (200,), argument
        app.execute("insert into t values (%s, 'a', now(), now())", [place])
    left = "select name from pg_prepared_statements where starts_with(name, 'londiste')"
    assert app.execute(left).fetchall() == []


def test_a_column_of_ignore_that_does_not_exist_is_named(app: Session) -> None:
    told: list[str] = []
    app.add_notice_handler(lambda diag: told.append(str(diag.message_primary)))
    for flags in "LC":
        app.execute(MAKE, [[f"tgflags={flags}", "ignore=name nocol"]])
    assert told == ["ignore= names nocol, which is no column of public.t"] * 2


def test_a_check_of_arguments_runs_no_code_of_them(app: Session) -> None:
    app.execute(
        "create function code() returns boolean language plpgsql immutable as"
        " $$ begin raise exception 'executed'; end $$;"
        " create domain d as int check (code());"
        " create type pair as (a d);"
    )
    for argument in (
        "when=code()",
        "when='{1}'::d[] is null",
        "when=d '1' is null",
        "when='(1)'::pair is null",
        "when=$$(1)$$::pair is null",
        "when=1::d is null",
        "when=true); end; begin perform code(); perform (true",
        "when=true)) as x; do $a$ begin perform code(); end $a$; select ((true",
    ):
        for flags in "LC":
            try:
                app.execute(MAKE, [[f"tgflags={flags}", argument]])
            except psycopg.Error as error:
                assert "executed" not in str(error), argument


def test_a_capture_of_an_unchanged_table_is_not_fine_when_its_argument_is_not(app: Session) -> None:
    app.execute("create function ok(text) returns boolean language sql as 'select true'")
    app.execute(MAKE, [["tgflags=C", "when=ok(name)"]])
    assert app.execute("select londiste.refresh_capture('q', 't')").fetchone() == (False,)
    app.execute("drop function ok")
    with pytest.raises(psycopg.Error, match=r"function ok\(text\) does not exist"):
        app.execute("select londiste.refresh_capture('q', 't')")


def test_a_lock_of_a_table_that_an_argument_names_costs_a_moment_and_is_told(
    app: Session, pgq_db: Database
) -> None:
    app.execute("create table lookup (id int)")
    named = "when=exists (select from public.lookup as l where l.id = id)"
    for table in "abcd":
        app.execute(f"create table {table} (id int4 primary key, v text)")
        app.execute("select londiste.create_capture('q', %s, %s)", [table, [named]])
    app.execute("select londiste.create_capture('q', 't', array['when=name is null'])")
    app.execute("alter table t rename name to word; set lock_timeout = 0")
    # A wait for the lock ends with an error that nothing catches.
    app.execute("set statement_timeout = '20s'")
    with pgq_db.connect().transaction() as other:
        other.connection.execute("lock public.lookup in access exclusive mode")
        found = app.execute(
            "select table_name, argument, fault from londiste.broken_captures('q')"
        ).fetchall()
    unknown = [(f"public.{table}", named, None) for table in "abcd"]
    broken = ("public.t", "when=name is null", 'column "name" does not exist')
    assert sorted(found, key=str) == [*unknown, broken]
    assert app.execute("show lock_timeout").fetchone() == ("0",)


@pytest.mark.parametrize("flags", ["B", "C"])
def test_a_renamed_column_is_found_and_the_statement_helps(app: Session, flags: str) -> None:
    app.execute("select pgq_node.register_location('q', 'root', 'dbname=root', false)")
    app.execute("select pgq_node.create_node('q', 'root', 'root', 'w', null, null, null)")
    app.execute(
        "select londiste.local_add_table('q', 't', %s)",
        [[f"tgflags={flags}IU", "when=name is not null"]],
    )
    broken = "select table_name, argument, fault, help from londiste.broken_captures('q')"
    assert app.execute(broken).fetchall() == []
    app.execute("alter table t rename name to word")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        app.execute("insert into t values (1, 'a')")
    ((table, argument, fault, text),) = app.execute(broken).fetchall()
    assert (table, argument) == ("public.t", "when=name is not null")
    assert fault == 'column "name" does not exist'
    if flags == "C":
        with pytest.raises(psycopg.Error, match="does not exist"):
            app.execute("select londiste.refresh_capture('q', 't')")
    app.execute(str(text).replace("name is", "word is"))
    assert app.execute(broken).fetchall() == []
    app.execute("insert into t values (1, 'a'), (2, null)")
    app.execute("delete from t")
    assert [event.extra1 for event in take_events(app)].count("public.t") == 1
