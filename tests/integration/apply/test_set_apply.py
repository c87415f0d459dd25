"""Changes applied as a set end like changes applied one by one, or write nothing."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from londiste.db.names import TableName
from londiste.db.relation import shapes, versions
from londiste.errors import EventError, LockTimeout
from londiste.replication.apply.routing import plan
from tests.fixtures.cluster import Database
from tests.fixtures.owners import give_tables_away
from tests.support.set_changes import CONFLICTS, FAILURES, HAZARDS, T, Target


@pytest.fixture(params=["the worker's own tables", "tables of another role"])
def target(request: pytest.FixtureRequest, cleared_pgq_db: Database) -> Iterator[Target]:
    if request.param == "tables of another role":
        give_tables_away(cleared_pgq_db)
    target = Target(cleared_pgq_db)
    yield target
    target.conn.close()


@pytest.mark.parametrize("hazard", HAZARDS)
def test_set_apply_equals_single_events(target: Target, hazard: str) -> None:
    start, changes, expected = HAZARDS[hazard]
    target.database.execute("create table t (id int primary key, v text unique)")
    target.database.execute(f"insert into t values {start}")
    target.apply(*changes(target))
    assert target.rows() == expected


def test_repeated_swap_is_written_as_delete_and_insert(
    target: Target, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    target.database.execute("create table t (id int primary key, v text unique)")
    target.database.execute("insert into t values (1, 'x'), (2, 'y')")
    for one, two in (("y", "x"), ("x", "y"), ("y", "x")):
        target.apply(target.u(id="1", v="~"), target.u(id="2", v=two), target.u(id="1", v=one))
        assert target.rows() == [(1, one), (2, two)]
    assert len([r for r in caplog.records if "written again as delete" in r.message]) == 1
    assert not [r for r in caplog.records if "one by one" in r.message]


def test_swap_keeps_extra_target_columns(target: Target, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    target.database.execute("create table t (id int primary key, v text unique, own text)")
    target.database.execute("insert into t values (1, 'x', 'mine'), (2, 'y', 'too')")
    target.apply(target.u(id="1", v="~"), target.u(id="2", v="x"), target.u(id="1", v="y"))
    assert target.rows() == [(1, "y", "mine"), (2, "x", "too")]
    assert [r for r in caplog.records if "one by one" in r.message]


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_row_waits_for_a_unique_value_to_be_released(target: Target, conflict: str) -> None:
    columns, start, changes, expected = CONFLICTS[conflict]
    target.database.execute(f"create table t ({columns})")
    target.database.execute(f"insert into t values {start}")
    target.apply(*changes(target))
    assert target.rows() == expected


@pytest.mark.parametrize(
    ("type_", "was", "becomes"),
    [("numeric", "1.0", "1.00"), ("float8", "0", "-0"), ("interval", "1 day", "24:00:00")],
)
@pytest.mark.parametrize("state", [False, True])
def test_a_key_that_is_equal_with_another_text_gets_that_text(
    target: Target, type_: str, was: str, becomes: str, state: bool
) -> None:
    target.database.execute(f"create table t (id {type_} primary key, v text)")
    target.database.execute(f"insert into t values ('{was}', 'x')")
    change = target.s if state else target.u
    target.apply(change(id=becomes, v="y"))
    assert target.database.execute("select id::text, v from t") == [(becomes, "y")]
    target.apply(target.u(id=was))
    assert target.database.value("select id::text from t") == was


@pytest.mark.parametrize("key", ["int", "float8"])
def test_conflict_within_a_transaction_is_deferred(target: Target, key: str) -> None:
    target.database.execute(f"create table t (id {key} primary key, u int unique, own text)")
    target.database.execute("insert into t values (1, 1, 'one'), (2, 2, 'two')")
    with target.conn.transaction():
        target.conn.execute("select 1")
        for change, more in (
            (target.s(id="1", u="2"), True),
            (target.u(id="1", u="2"), True),
            (target.s(id="2", u="1"), False),
        ):
            known = shapes(target.conn, [T])
            target.applier.apply(plan({T: [change]}, known, node="leaf"), more=more)
    assert target.rows() == [(1, 2, "one"), (2, 1, "two")]


@pytest.mark.parametrize("key", ["int", "float8"])
def test_lasting_unique_conflict_is_an_error_of_the_event(target: Target, key: str) -> None:
    target.database.execute(f"create table t (id {key} primary key, u int unique)")
    target.database.execute("insert into t values (1, 1), (2, 2)")
    with pytest.raises(EventError) as caught:
        target.apply(target.u(id="2", u="7"), target.s(id="3", u="1"), target.u(id="2", u="8"))
    assert str(caught.value) == (
        "event 2 (insert of table public.t) cannot be applied on node leaf: duplicate key value"
        ' violates unique constraint "t_u_key"'
    )
    assert target.rows() == [(1, 1), (2, 2)]
    target.applier.begin()
    target.apply(target.u(id="2", u="9"))
    assert target.rows() == [(1, 1), (2, 9)]


def test_missing_row_is_named_with_table_and_key(target: Target) -> None:
    target.database.execute("create table t (a int, b text, v text, primary key (a, b))")
    for change in (target.u(a="7", b="x", v="secret"), target.d(a="7", b="x")):
        with pytest.raises(EventError, match=r"public\.t.*no row matches the key") as caught:
            target.apply(change._replace(key=("a", "b")))
        assert caught.value.detail.startswith("key (a, b), SQL: ")
        assert "secret" not in caught.value.detail


def test_duplicate_rows_are_named_with_table_and_key(target: Target) -> None:
    target.database.execute("create table t (id int, v text); insert into t values (1), (1), (2)")
    for change in (target.u(id="1", v="x"), target.d(id="1"), target.s(id="1", v="x")):
        with pytest.raises(EventError, match=r"public\.t.*2 rows match the key") as caught:
            target.apply(target.u(id="2", v="y"), change)
        assert caught.value.event_id == change.event_id
        assert caught.value.detail.startswith("key (id), SQL: ")
        assert target.rows() == [(1, None), (1, None), (2, None)]


def test_numbers_keep_every_digit(target: Target) -> None:
    target.database.execute("create table t (id int8 primary key, n numeric, f float8, r float4)")
    values = {
        "id": "9223372036854775807",
        "n": "12345678901234567890.123456789012345678900",
        "f": "0.30000000000000004",
        "r": "1e-45",
    }
    target.apply(target.i(**values), target.i(id="1", n="NaN", f="-0", r="Infinity"))
    assert target.rows("select id::text, n::text, f::text, r::text from t order by id desc") == [
        tuple(values.values()),
        ("1", "NaN", "-0", "Infinity"),
    ]


def test_documents_keep_every_byte(target: Target) -> None:
    target.database.execute(
        "create domain doc as json;"
        "create table t (id int primary key, j json, b jsonb, d doc, ja json[])"
    )
    text = '{"b": 1,  "a":[1e400, "\\u00e9"], "b": 2}'
    target.apply(
        target.i(id="1", j=text, b="null", d=" 1 ", ja='{"{\\"x\\": 1}",NULL}'),
        target.i(id="2", j='"text"', b='{"x": "y"}', d=None, ja=None),
        target.u(id="2", j="null", b='["z"]', d="2", ja="{}"),
    )
    assert target.rows("select id, j::text, b::text, d::text, ja::text from t order by id") == [
        (1, text, "null", " 1 ", '{"{\\"x\\": 1}",NULL}'),
        (2, "null", '["z"]', "2", "{}"),
    ]


def test_null_empty_and_special_texts_are_distinct(target: Target) -> None:
    target.database.execute("create table t (id int primary key, v text)")
    odd: list[str | None] = [None, "", "NULL", "\\N", "a\tb\n\r\\", "'\"%s{}$1", "\U0001f600é", " "]
    target.apply(*(target.i(id=str(n), v=value) for n, value in enumerate(odd)))
    assert [row[1] for row in target.rows()] == odd


def test_generated_and_identity_columns_are_no_obstacle(target: Target) -> None:
    target.database.execute(
        "create table t (id int generated always as identity primary key, a int,"
        " g int generated always as (a * 2) stored, n int generated always as identity)"
    )
    target.apply(
        target.i(id="7", a="1", g="2", n="50"),
        target.i(id="8", a="1", g="2", n="51"),
        target.u(id="7", a="5", g="10", n="50"),
    )
    assert target.rows() == [(7, 5, 10, 50), (8, 1, 2, 51)]
    target.apply(target.u(id="7", a="6", g="12", n="99"), target.d(id="8"))
    assert target.rows() == [(7, 6, 12, 99)]


def test_target_columns_in_other_order_and_number(target: Target) -> None:
    target.database.execute(
        "create table t (extra text default 'mine', v text, id int primary key, gone int);"
        "alter table t drop column gone"
    )
    target.apply(target.i(id="1", v="x"), target.i(id="2", v="y"))
    target.apply(target.u(id="1", v="z"), target.d(id="2"))
    assert target.rows() == [("mine", "z", 1)]


def test_a_table_that_is_nothing_but_key(target: Target) -> None:
    target.database.execute("create table t (a int, b int, primary key (a, b))")
    key = ("a", "b")
    both = [target.i(a="1", b="2"), target.i(a="3", b="4"), target.u(a="1", b="2")]
    target.apply(*(change._replace(key=key) for change in both))
    target.apply(target.u(a="3", b="4")._replace(key=key), target.d(a="1", b="2")._replace(key=key))
    assert target.rows() == [(3, 4)]
    with pytest.raises(EventError, match="no row matches the key"):
        target.apply(target.u(a="1", b="2")._replace(key=key))


def test_columns_that_domains_forbid_to_be_null_do_not_matter_to_a_delete(target: Target) -> None:
    target.database.execute(
        "create domain must as text not null;"
        "create table t (id int primary key, v must); insert into t values (1, 'x')"
    )
    target.apply(target.d(id="1"))
    assert target.rows() == []


def test_keys_without_unique_text_are_applied_row_by_row(target: Target) -> None:
    target.database.execute("create table t (id float8 primary key, v text)")
    target.apply(target.i(id="0", v="a"), target.u(id="-0", v="b"), target.i(id="1e3", v="c"))
    target.apply(target.d(id="1000"))
    assert target.rows() == [(0.0, "b")]


def test_a_partial_update_leaves_other_columns_alone(target: Target) -> None:
    target.database.execute("create table t (id int primary key, a text, b text)")
    target.apply(
        target.i(id="1", a="x", b="y"),
        target.u(id="1", a="z")._replace(partial=True),
        target.u(id="1", b=None)._replace(partial=True),
    )
    assert target.rows() == [(1, "z", None)]


def test_upsert_needs_no_index_and_keeps_extra_columns(target: Target) -> None:
    target.database.execute(
        "create table t (id int, v text, n int generated always as identity,"
        " g text generated always as (v || '!') stored, own text default 'new');"
        "insert into t (id, v, own) values (1, 'a', 'mine')"
    )
    target.apply(target.s(id="1", v="b"), target.s(id="2", v="c"))
    rows = "select id, v, g, own from t order by 1"
    assert target.rows(rows) == [(1, "b", "b!", "mine"), (2, "c", "c!", "new")]
    # one by one, because of the key
    target.database.execute("alter table t alter id type float8")
    target.apply(
        target.s(id="1", v="x"), target.s(id="3", v="y"), target.n(id="2"), target.n(id="9")
    )
    assert target.rows(rows) == [(1.0, "x", "x!", "mine"), (3.0, "y", "y!", "new")]


def test_upsert_of_a_row_with_key_columns_only(target: Target) -> None:
    target.database.execute("create table t (id int primary key); insert into t values (1)")
    target.apply(target.s(id="1"), target.s(id="2"))
    assert target.rows() == [(1,), (2,)]


def test_upsert_keeps_the_identity_value_of_the_provider(target: Target) -> None:
    target.database.execute(
        "create table t (id int primary key, n int generated always as identity);"
        "insert into t overriding system value values (1, 70)"
    )
    target.apply(target.s(id="1", n="70"), target.s(id="2", n="71"))
    assert target.rows() == [(1, 70), (2, 71)]
    target.apply(target.s(id="1", n="99"))
    assert target.rows() == [(1, 99), (2, 71)]


@pytest.mark.parametrize("key", ["int", "float8"])
def test_upsert_replaces_a_row_with_another_identity_value(target: Target, key: str) -> None:
    # float8: one by one
    target.database.execute(
        f"create table t (id {key} primary key, n int generated always as identity unique,"
        " v text, own text default 'new');"
        "insert into t (id, n, v, own) overriding system value"
        " values (1, 70, 'a', 'mine'), (2, 71, 'a', 'mine'), (3, 72, 'a', 'mine')"
    )
    numbers = ("70", "99", "98", "71")
    target.apply(*(target.s(id=str(i), n=n, v="b") for i, n in enumerate(numbers, 1)))
    assert target.rows() == [
        *((1, 70, "b", "mine"), (2, 99, "b", "new")),
        *((3, 98, "b", "new"), (4, 71, "b", "new")),
    ]


def test_a_table_without_key_takes_no_updates(target: Target) -> None:
    target.database.execute("create table t (v text)")
    target.apply(*(target.i(v=value)._replace(key=()) for value in ("a", "b", "a")))
    assert target.rows() == [("a",), ("a",), ("b",)]
    change = target.u(v="a")._replace(key=())
    with pytest.raises(EventError, match="needs a key") as caught:
        target.apply(change)
    assert caught.value.event_id == change.event_id
    assert "add primary key" in caught.value.hint


def test_truncate_leaves_referencing_tables_unchanged(target: Target) -> None:
    target.database.execute(
        "create table t (id int primary key); insert into t values (1), (2);"
        "create table child (id int primary key, t int references t);"
        "insert into child values (1, 1)"
    )
    target.apply(target.r(), target.i(id="1"))
    assert target.rows() == [(1,)]
    assert target.rows("select * from child") == [(1, 1)]


def test_truncate_of_parent_and_child_together(target: Target) -> None:
    target.database.execute(
        "create table t (id int primary key); insert into t values (1), (2);"
        "create table child (id int primary key, t int references t);"
        "insert into child values (1, 1)"
    )
    target.apply(target.r(), target.r(TableName("public", "child")), target.i(id="5"))
    assert target.rows() == [(5,)]
    assert target.rows("select * from child") == []


def test_foreign_keys_and_triggers_of_the_target_stay_silent(target: Target) -> None:
    target.database.execute(
        "create table t (id int primary key);"
        "create table child (id int primary key, t int references t on delete cascade);"
        "insert into t values (1); insert into child values (1, 1);"
        "create function no() returns trigger language plpgsql as"
        " $$ begin raise exception 'no'; end $$;"
        "create trigger no before insert or update or delete on t for each row"
        " execute function no()"
    )
    child = TableName("public", "child")
    target.apply(target.d(id="1"), target.i(child, id="2", t="9"), target.i(id="9"))
    assert target.rows() == [(9,)]
    assert target.rows("select * from child order by 1") == [(1, 1), (2, 9)]


def test_a_partitioned_table_moves_rows_and_an_inheriting_one_is_left_alone(
    target: Target,
) -> None:
    target.database.execute(
        "create table t (id int, p int, primary key (id, p)) partition by list (p);"
        "create table t1 partition of t for values in (1);"
        "create table t2 partition of t for values in (2);"
        "create table base (id int primary key, v text); create table sub () inherits (base);"
        "insert into base values (1, 'base'); insert into sub values (1, 'sub')"
    )
    target.apply(target.i(id="1", p="1"))
    target.apply(target.u(id="1", p="2"))
    assert target.rows("select * from t2") == [(1, 2)]
    target.apply(target.r(), target.i(id="4", p="1"))
    assert target.rows() == [(4, 1)]
    target.apply(target.u(TableName("public", "base"), id="1", v="new"))
    assert target.rows("select v from only base union all select v from sub") == [
        ("new",),
        ("sub",),
    ]


def test_odd_names_are_only_names(target: Target) -> None:
    odd = TableName("S %s", 'a.b"c$1')
    column = 'x" int); drop table u;--%(a)s'
    with target.database.connect() as conn:
        conn.execute('create schema "S %s"')
        conn.execute(
            f'create table {odd.quoted} (id int primary key, "x"" int); drop table u;--%(a)s" text)'
        )
    target.apply(target.i(odd, id="1", **{column: "a"}), target.i(odd, id="2", **{column: "b"}))
    target.apply(target.u(odd, id="1", **{column: "c"}), target.d(odd, id="2"))
    assert target.rows(f"select * from {odd.quoted}") == [(1, "c")]


def test_equality_of_types_from_extensions_is_found(target: Target) -> None:
    try:
        target.database.execute("create schema ext; create extension citext schema ext")
    except psycopg.Error as error:
        pytest.skip(f"no citext here: {error}")
    target.database.execute("create table t (id ext.citext primary key, v text)")
    target.apply(target.i(id="Anna", v="1"), target.u(id="ANNA", v="2"))
    assert target.rows("select id::text, v from t") == [("Anna", "2")]


@pytest.mark.parametrize("failure", FAILURES)
def test_failing_event_is_named_and_rolled_back(target: Target, failure: str) -> None:
    changes, message, hint = FAILURES[failure]
    target.database.execute(
        "create table t (id int primary key, v text constraint fine check (v <> 'bad'));"
        "insert into t values (1, 'old')"
    )
    with pytest.raises(EventError) as caught:
        target.apply(*changes(target))
    assert str(caught.value) == message
    assert hint in caught.value.hint
    assert caught.value.event_id == 2
    assert "secret" not in str(caught.value) + caught.value.detail
    assert "key (id), " in caught.value.detail or "no column" in message
    assert target.rows() == [(1, "old")]


def test_rows_hidden_by_row_security_are_not_missing(target: Target) -> None:
    target.database.execute(
        "create table t (id int primary key, v text); insert into t values (1, 'old');"
        " alter table t enable row level security, force row level security;"
        " create role hidden_rows; grant all on t to hidden_rows"
    )
    try:
        # The transaction has the replica role before it loses the right to it.
        with pytest.raises(EventError) as caught, target.conn.transaction():
            target.conn.execute("set local role hidden_rows")
            target.apply(target.u(id="1", v="new"))
    finally:
        target.database.execute("drop owned by hidden_rows; drop role hidden_rows")
    assert "row-level security" in str(caught.value)
    assert "no force row level security" in caught.value.hint


def test_a_missing_table_is_named(target: Target) -> None:
    with pytest.raises(EventError, match=r"table public\.t does not exist") as caught:
        target.apply(target.i(id="1"))
    assert "create the table" in caught.value.hint


def test_a_locked_row_is_worth_another_try(target: Target) -> None:
    target.database.execute("create table t (id int primary key); insert into t values (1)")
    with target.database.connect(autocommit=False) as other:
        other.execute("select * from public.t for update")
        with pytest.raises(LockTimeout):
            target.apply(target.d(id="1"))
        other.rollback()
    target.apply(target.d(id="1"))
    assert target.rows() == []


def test_the_version_of_a_table_changes_with_its_columns(target: Target) -> None:
    target.database.execute("create table t (id int primary key, v text)")
    shape = shapes(target.conn, [T])[T]
    seen = {shape.version, versions(target.conn, [shape.oid])[shape.oid]}
    assert len(seen) == 1
    for change in (
        "add column w int",
        "alter column v type jsonb using null",
        "rename column w to x",
        "drop column x",
    ):
        target.database.execute(f"alter table t {change}")
        seen.add(versions(target.conn, [shape.oid])[shape.oid])
    assert len(seen) == 5
    target.database.execute("insert into t values (1); analyze t")
    assert versions(target.conn, [shape.oid])[shape.oid] in seen
