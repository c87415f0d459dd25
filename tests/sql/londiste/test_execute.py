"""Scripts in SQL: once per node and queue, sent by the root, with decisions by the operator."""

from __future__ import annotations

import pytest

from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf, make_root, ret

START, FINISH = "londiste.execute_start", "londiste.execute_finish"


def events(db: Database) -> list[tuple[object, ...]]:
    return db.execute(
        "select ev_type, ev_data, ev_extra1, ev_extra2 from pgq.event_template order by ev_id"
    )


def scripts(db: Database) -> list[tuple[object, ...]]:
    return db.execute("select execute_file, state from londiste.get_scripts('q')")


def test_the_root_sends_a_script_when_it_has_run(pgq_db: Database) -> None:
    make_root(pgq_db)
    assert ret(pgq_db, START, "q", "a.sql", "select 1", True)[0] == 200
    assert events(pgq_db) == []
    assert ret(pgq_db, FINISH, "q", "a.sql")[0] == 200
    assert events(pgq_db) == [("EXECUTE", "select 1", "a.sql", None)]
    assert ret(pgq_db, START, "q", "a.sql", "select 1", True, "need-table=x")[0] == 201
    assert scripts(pgq_db) == [("a.sql", "done")]


def test_other_nodes_note_it_and_send_nothing(pgq_db: Database) -> None:
    make_leaf(pgq_db)
    assert ret(pgq_db, START, "q", "a.sql", "select 1", True)[0] == 401
    assert ret(pgq_db, START, "q", "a.sql", "select 1", False, "need-table=x")[0] == 200
    assert ret(pgq_db, FINISH, "q", "a.sql")[0] == 200
    assert ret(pgq_db, FINISH, "q", "b.sql")[0] == 404
    assert ret(pgq_db, START, "nope", "a.sql", "", False)[0] == 404
    assert scripts(pgq_db) == [("a.sql", "done")]


def test_queues_with_scripts_of_one_name_do_not_hide_each_other(pgq_db: Database) -> None:
    make_root(pgq_db)
    make_root(pgq_db, "q2")
    for queue in ("q", "q2"):
        assert ret(pgq_db, START, queue, "a.sql", f"select '{queue}'", True)[0] == 200
    leaf = "q3"
    make_leaf(pgq_db, leaf)
    make_leaf(pgq_db, "q4")
    assert ret(pgq_db, START, leaf, "a.sql", "select 3", False)[0] == 200
    # Two sources of one target bring the same script: once is enough.
    assert ret(pgq_db, START, "q4", "a.sql", "select 3", False)[0] == 201
    assert ret(pgq_db, START, "q4", "a.sql", "select 3", False)[0] == 201


@pytest.mark.parametrize(
    ("decision", "state"), [("retry", "retry"), ("skip", "skipped"), ("mark-done", "marked")]
)
def test_a_person_decides_about_a_script_that_failed(
    pgq_db: Database, decision: str, state: str
) -> None:
    make_leaf(pgq_db)
    decide = "londiste.decide_script"
    assert ret(pgq_db, decide, "q", "a.sql", decision)[0] == 404
    pgq_db.execute(
        "select londiste.set_script_state('q', 'a.sql', 'failed', 'batch', 'x', null, 2, 'no')"
    )
    assert scripts(pgq_db) == [("a.sql", "failed")]
    assert ret(pgq_db, decide, "q", "a.sql", decision)[0] == 200
    assert scripts(pgq_db) == [("a.sql", state)]
    assert ret(pgq_db, START, "q", "a.sql", "x", False)[0] == (200 if state == "retry" else 201)
    if state != "retry":
        assert ret(pgq_db, decide, "q", "a.sql", "retry")[0] == 403
        pgq_db.execute(
            "select londiste.set_script_state('q', 'a.sql', 'failed', 'batch', 'x', null, 2, 'no')"
        )
        assert scripts(pgq_db) == [("a.sql", state)]


@pytest.mark.parametrize(("decision", "sent"), [("skip", 0), ("mark-done", 1)])
def test_on_the_root_what_is_marked_is_sent(pgq_db: Database, decision: str, sent: int) -> None:
    make_root(pgq_db)
    pgq_db.execute(
        "select londiste.set_script_state('q', 'a.sql', 'failed', 'after', 'x', null, 1, 'no')"
    )
    assert ret(pgq_db, "londiste.decide_script", "q", "a.sql", decision)[0] == 200
    assert len(events(pgq_db)) == sent


def test_a_node_says_what_it_has(pgq_db: Database) -> None:
    make_root(pgq_db)
    pgq_db.execute(
        'create schema "Re p"; create table "Re p".t (id int primary key);'
        " create view v as select 1; create sequence s;"
        " create function f(a int, b text) returns int language sql as 'select 1'"
    )
    ret(pgq_db, "londiste.local_add_table", "q", "Re p.t")
    for condition, value, there in (
        ("need-table", "Re p.t", True),
        ("need-table", "v", False),
        ("need-view", "v", True),
        ("need-schema", "Re p", True),
        ("need-schema", "re p", False),
        ("need-sequence", "s", True),
        ("need-function", "f(2)", True),
        ("need-function", "public.f ( 2 )", True),
        ("need-function", "f(1)", False),
        ("local-table", "Re p.t", True),
        ("local-destination", "Re p.t", True),
        ("local-table", "v", False),
        ("local-sequence", "s", False),
    ):
        assert pgq_db.value("select londiste.script_has('q', %s, %s)", condition, value) is there, (
            condition,
            value,
        )
