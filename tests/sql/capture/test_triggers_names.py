"""Native capture of tables, columns and queues with unusual names, and rights of the writers."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.changes.decode import decode
from londiste.changes.types import RowChange
from tests.fixtures.cluster import Database
from tests.sql.capture.test_triggers_capture import Session, told
from tests.support.queue_events import as_event, take_events, writer
from tests.support.suite.slow import first


@pytest.fixture
def app(pgq_db: Database) -> Iterator[Session]:
    """A session of an application on a database with a queue."""
    with writer(pgq_db.dsn) as conn:
        conn.execute("select pgq.create_queue('q')")
        yield conn


ODD_NAMES = [
    'x"; drop table t; --',
    "$$ $capture$ ' \\",
    "new\nline",
    "%s %% {} %I",
    "é" * 31,
    "r",
    "new",
    "tg_op",
    "v_parts",
    "select",
]


@pytest.mark.parametrize("key", first(["primary key", "primary key deferrable"]))
def test_odd_names_of_queues_tables_and_columns(app: Session, key: str) -> None:
    for name in ODD_NAMES:
        quoted = '"' + name.replace('"', '""') + '"'
        doubled = quoted.replace("%", "%%")
        queue = (name * 3)[:60]
        app.execute("select pgq.create_queue(%s)", [queue])
        app.execute(f"create schema {quoted.replace('.', '_')}".replace("%", "%%"), [])
        app.execute(f"create table {doubled}.{doubled} ({doubled} int4 {key}, v text)", [])
        app.execute("select londiste.create_capture(%s, %s)", [queue, f"{name}.{name}"])
        app.execute(f"insert into {doubled}.{doubled} values (1, 'x')", [])
        app.execute(f"update {doubled}.{doubled} set {doubled} = 2", [])
        app.execute(f"alter table {doubled}.{doubled} add column added int4", [])
        app.execute(f"update {doubled}.{doubled} set {doubled} = 3", [])
        app.execute(f"truncate {doubled}.{doubled}", [])
        events = [decode(as_event(event)) for event in take_events(app)]
        assert {str(change.table) for change in events if hasattr(change, "table")} == {
            f"{name}.{name}"
        }
        late = key.endswith("deferrable")
        assert [change.image for change in events if isinstance(change, RowChange)] == [
            image
            for statement in (
                [{name: "1", "v": "x"}],
                [{name: "1"}, {name: "2", "v": "x"}],
                [{name: "2"}, {name: "3", "v": "x", "added": None}],
            )
            # Once more at commit.
            for image in (1 + late) * statement
        ]
        assert len(events) == 5 * (1 + late) + 1
        app.execute("select londiste.refresh_capture(%s, %s)", [queue, f"{name}.{name}"])
        assert app.execute(
            "select londiste.drop_capture(%s, %s)", [queue, f"{name}.{name}"]
        ).fetchone() == (3 if late else 5,)


def test_columns_named_like_words_of_sql_or_plpgsql(app: Session) -> None:
    # Words that quote_ident() leaves bare are words of PL/pgSQL nevertheless: new.by.
    words = [word for (word,) in app.execute("select word from pg_get_keywords()").fetchall()]
    words += ["foreach", "while", "loop", "exit", "new", "old", "found", "sqlerrm", "tg_op"]
    names = [f'"{word}"' for word in sorted(set(words))]
    app.execute(f'create table t ({" int, ".join(names)} int, primary key ("by", "if"))')
    app.execute(
        "select londiste.create_capture('q', 't',"
        " array['ignore=loop', 'when=coalesce(\"begin\", 0) = 0'])"
    )
    app.execute('insert into t ("by", "if") values (1, 1)')
    app.execute('update t set "declare" = 1')
    app.execute('update t set "by" = 2')
    app.execute("delete from t")
    assert [(op, row["by"], row.get("declare")) for op, row in told(app)] == [
        ("I", "1", None),
        ("U", "1", "1"),
        ("D*", "1", None),
        ("I*", "2", "1"),
        ("D", "2", "1"),
    ]


def test_long_names_do_not_collide(app: Session) -> None:
    for suffix in ("a", "b"):
        app.execute("select pgq.create_queue(%s)", ["queue" * 12 + suffix])
    app.execute("create table t (id int4 primary key)")
    for suffix in ("a", "b"):
        app.execute("select londiste.create_capture(%s, 't')", ["queue" * 12 + suffix])
    app.execute("insert into t values (1)")
    assert len(take_events(app)) == 2
    lengths = app.execute(
        "select octet_length(londiste.trigger_name(%s, 'truncate'))", ["é" * 60]
    ).fetchone()
    assert lengths is not None
    assert isinstance(lengths[0], int)
    assert lengths[0] <= 63


def test_captures_of_lookalike_names_have_functions_of_their_own(app: Session) -> None:
    app.execute("select pgq.create_queue('q_a')")
    app.execute("create schema a_b")
    app.execute("create schema b")
    app.execute("create table a_b.t (id int4 primary key)")
    app.execute("create table b.t (id int4 primary key)")
    app.execute("select londiste.create_capture('q', 'a_b.t')")
    app.execute("select londiste.create_capture('q_a', 'b.t')")
    app.execute("insert into a_b.t values (1)")
    app.execute("insert into b.t values (1)")
    assert [event.extra1 for event in take_events(app)] == ["a_b.t", "b.t"]


def test_writers_need_no_rights_on_the_queue(app: Session) -> None:
    app.execute("create table t (id int4 primary key)")
    app.execute("select londiste.create_capture('q', 't')")
    app.execute("create role fix_writer")
    try:
        app.execute("grant insert on t to fix_writer")
        app.execute("set role fix_writer")
        app.execute("insert into t values (1)")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute("select pgq.insert_event('q', 'forged', 'x')")
        app.execute("create temp table mine (id int4)")
        function = app.execute(
            "select proname from pg_proc where prorettype = 'trigger'::regtype"
            " and proname like '\\_capture\\_%%'"
        ).fetchone()
        assert function is not None
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute(
                "create trigger forge after insert on mine"
                f" for each row execute function londiste_capture.{function[0]}('q', 'public.t')"
            )
        app.execute("reset role")
        assert len(take_events(app)) == 1
    finally:
        app.execute("reset role")
        app.execute("drop owned by fix_writer")
        app.execute("drop role fix_writer")


def test_expressions_run_with_the_rights_of_the_writer(app: Session) -> None:
    app.execute("create table t (id int4 primary key)")
    app.execute("select londiste.create_capture('q', 't', '{ev_extra2=current_user}')")
    app.execute("create role fix_writer")
    try:
        app.execute("grant insert on t to fix_writer")
        app.execute("grant pgq_writer to fix_writer")
        app.execute("set role fix_writer")
        app.execute("insert into t values (1)")
        app.execute("reset role")
        app.execute("alter table t add column v int4")
        app.execute("set role fix_writer")
        app.execute("insert into t values (2)")
        app.execute("reset role")
        assert [event.extra2 for event in take_events(app)] == ["fix_writer"] * 2
    finally:
        app.execute("reset role")
        app.execute("drop owned by fix_writer")
        app.execute("drop role fix_writer")
