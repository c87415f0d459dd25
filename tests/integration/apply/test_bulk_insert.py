"""Rows written by COPY equal rows written by statements, for any values."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from londiste.applier import copy_insert
from londiste.applier.plan import RowSet, TablePlan, Verb
from londiste.changes.types import RowChange
from londiste.db.relation import shapes
from londiste.errors import EventError
from tests.fixtures.cluster import Database
from tests.support.set_changes import FAILURES, HAZARDS, T, Target


@pytest.fixture
def target(cleared: Database) -> Iterator[Target]:
    target = Target(cleared)
    yield target
    target.conn.close()


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[RowSet]:
    """Every insert is for COPY; the sets that it has read."""
    found: list[RowSet] = []

    def csv(rows: RowSet) -> Iterator[str]:
        found.append(rows)
        return made(rows)

    made = copy_insert.csv
    monkeypatch.setattr(copy_insert, "FROM_ROWS", 1)
    monkeypatch.setattr(copy_insert, "csv", csv)
    return found


def write(target: Target, rows: RowSet, changes: list[RowChange] | None = None) -> None:
    """Writes a set of rows of the table ``t``; changes -- what they are event by event."""
    with target.conn.transaction():
        target.conn.execute("select 1")
        shape = shapes(target.conn, [T])[T]
        target.applier.apply(
            [TablePlan(shape, False, [rows])], lambda: ((shape, one) for one in changes or [])
        )


@pytest.mark.parametrize("hazard", HAZARDS)
def test_copied_rows_end_as_events_one_by_one(
    target: Target, copied: list[RowSet], hazard: str
) -> None:
    start, changes, expected = HAZARDS[hazard]
    target.database.execute("create table t (id int primary key, v text unique)")
    target.database.execute(f"insert into t values {start}")
    target.apply(*changes(target))
    assert target.rows() == expected


@pytest.mark.parametrize("failure", FAILURES)
def test_copied_rows_that_do_not_fit_name_the_event_and_leave_nothing(
    target: Target, copied: list[RowSet], failure: str
) -> None:
    changes, message, _ = FAILURES[failure]
    target.database.execute(
        "create table t (id int primary key, v text constraint fine check (v <> 'bad'));"
        "insert into t values (1, 'old')"
    )
    with pytest.raises(EventError) as caught:
        target.apply(*changes(target))
    assert str(caught.value) == message
    assert target.rows() == [(1, "old")]


def test_many_rows_are_copied_and_few_are_not(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[int] = []
    made = copy_insert.copy_sql
    monkeypatch.setattr(copy_insert, "copy_sql", lambda *of: used.append(1) or made(*of))
    target.database.execute("create table t (id int primary key, v text)")
    for first, count in ((0, copy_insert.FROM_ROWS - 1), (10_000, copy_insert.FROM_ROWS)):
        target.apply(*(target.i(id=str(first + n), v="x") for n in range(count)))
    assert used == [1]
    assert target.rows("select count(*) from t") == [(2 * copy_insert.FROM_ROWS - 1,)]


def test_every_value_that_the_server_writes_as_json_comes_back(
    target: Target, copied: list[RowSet]
) -> None:
    target.database.execute(
        "create type pair as (a int, b text); create type mood as enum ('so', 'so, \"so\"');"
        "create table t (id int8 primary key, v text, c char(5), n numeric(12, 3), f float8,"
        " at timestamptz, b bool, raw bytea, j json, k jsonb, l text[], p pair, m mood)"
    )
    pieces = [
        *(
            "",
            "null",
            "NULL",
            ",",
            '"',
            '""',
            "\\",
            "\\.",
            "\\N",
            "\n",
            "\r",
            "\t",
            "\b\f\v",
            "\x01",
        ),
        *(
            "\x7f",
            "\u2028",
            "é",
            "\U0001f600",
            '","v":',
            '}\n{"id":',
            "}",
            "{",
            "\\n",
            "\\u0041",
            "/",
        ),
    ]
    rnd = random.Random(4)
    texts = pieces + ["".join(rnd.choices(pieces, k=rnd.randint(2, 12))) for _ in range(600)]
    rows = [
        (number, text, number % 3 or None, json.dumps({"x": text}))
        for number, text in enumerate(texts)
    ]
    target.database.execute("create table o (like t)")
    with target.conn.cursor() as cursor:
        cursor.executemany(
            "insert into public.o values (%s, %s, 'a\\', %s::int / 7.0, 'NaN', 'epoch',"
            " %s::int > 1, '\\x00ff5c22', %s, %s, array[%s, null, 'null'],"
            " row(1, %s), 'so, \"so\"')",
            [(n, v, x, x, j, j, v, v) for n, v, x, j in rows],
        )
    # As capture has it: documents, arrays and all else that JSON knows otherwise are texts.
    lines = [
        line
        for (line,) in target.conn.execute(
            "select row_to_json(x)::text from (select id, v, c, n::text, f::text, at, b,"
            " raw::text, j::text, k::text, l::text, p::text, m::text from public.o) x"
        )
    ]
    columns = tuple(json.loads(lines[0]))
    packs = ["\n".join(lines[at : at + 50]) for at in range(300, len(lines), 50)]
    write(target, RowSet(Verb.INSERT, ("id",), columns, lines[:300], packs, len(lines)))
    assert len(copied) == 1
    differ = "select count(*) from (select t::text from t except all select o::text from o) x"
    assert target.rows(differ) == [(0,)]
    assert target.rows("select count(*) from t") == [(len(texts),)]


def test_copied_rows_go_where_an_insert_puts_them(target: Target, copied: list[RowSet]) -> None:
    target.database.execute(
        "create table t (own text default 'mine', v text, id int generated always as identity,"
        " primary key (id)) partition by range (id);"
        "create table t1 partition of t for values from (0) to (10);"
        "create table t2 partition of t for values from (10) to (20)"
    )
    target.apply(target.i(id="1", v="x"), target.i(id="11", v="y"))
    assert target.rows() == [("mine", "x", 1), ("mine", "y", 11)]
    assert target.rows("select id from t2") == [(11,)]
    assert copied


STATEMENTS: dict[str, str] = {
    "a rule": "create table u (like t); create rule r as on insert to t do also"
    " insert into u values (new.id, new.v, 0); alter table t enable always rule r",
    "a column that the server computes here": "alter table t drop column g;"
    " alter table t add column g int generated always as (id * 2) stored",
}


@pytest.mark.parametrize("why", STATEMENTS)
def test_what_copy_would_do_differently_is_a_statement(
    target: Target, copied: list[RowSet], why: str
) -> None:
    target.database.execute("create table t (id int primary key, v text, g int)")
    target.database.execute(STATEMENTS[why])
    target.apply(target.i(id="1", v="x", g="2"), target.i(id="2", v="y", g="4"))
    assert target.rows() == [(1, "x", 2), (2, "y", 4)]
    assert not copied
    if why == "a rule":
        assert target.rows("select id from u order by 1") == [(1,), (2,)]


@pytest.mark.parametrize(
    "lines",
    [
        ['{"id":1,"v":"x"}', '{"v":"y","id":2}'],
        ['{"id":1,"v":"x"}', '{"id": 2, "v": "y"}'],
        ['{"id":1,"v":"x","w":3}', '{"id":2,"v":"y"}'],
    ],
    ids=["order", "blanks", "another column"],
)
def test_images_of_another_form_than_their_set_are_read_by_name(
    target: Target, copied: list[RowSet], lines: list[str]
) -> None:
    target.database.execute("create table t (id int primary key, v text)")
    write(target, RowSet(Verb.INSERT, ("id",), ("id", "v"), lines, [], 2))
    assert target.rows() == [(1, "x"), (2, "y")]
    # From then on they are not tried.
    write(target, RowSet(Verb.INSERT, ("id",), ("id", "v"), ['{"id":3,"v":"z"}'], [], 1))
    assert len(copied) == 1
    assert target.rows("select count(*) from t") == [(3,)]


def test_rows_that_a_trigger_of_the_target_leaves_out_are_missed(
    target: Target, copied: list[RowSet]
) -> None:
    target.database.execute(
        "create table t (id int primary key, v text);"
        "create function f() returns trigger language plpgsql as $$ begin"
        " return case when new.id = 1 then new end; end $$;"
        "create trigger f before insert on t for each row execute function f();"
        "alter table t enable always trigger f"
    )
    with pytest.raises(EventError, match="event 2 "):
        target.apply(target.i(id="1", v="x"), target.i(id="2", v="y"))
    assert copied
    assert target.rows() == []
