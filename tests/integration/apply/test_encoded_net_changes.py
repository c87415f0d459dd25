"""Rows that are never decoded end as rows written one by one: every hazard, and random changes.

The changes come as blocks of keyed events, plain and packed, go through the accumulator and are
written as the texts they are.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator

import pytest

from londiste.applier.applier import StaleShapes
from londiste.applier.plan import TableChange, TablePlan
from londiste.changes.keyed import columns_digest
from londiste.changes.types import Op, RowChange, Truncate
from londiste.db.names import TableName
from londiste.db.relation import shapes
from londiste.errors import EventError
from londiste.pgq.blocks import EventBlock
from londiste.replication.apply.accumulator import Accumulator, BatchPart
from londiste.replication.apply.routing import RoutingTable, plan_folded
from londiste.replication.model import ReplicatedTable
from tests.fixtures.cluster import Database
from tests.support.set_changes import FAILURES, HAZARDS, Target


@pytest.fixture
def target(cleared: Database) -> Iterator[Target]:
    target = Target(cleared)
    yield target
    target.conn.close()


def block(changes: Iterable[TableChange], *, packed: bool) -> EventBlock:
    """The events of the changes; packed: neighbours of one kind become one event."""
    text, count = "", 0
    for kind, group in itertools.groupby(changes, _kind):
        some = list(group)
        for part in [some] if packed and '"row"' in kind else [[one] for one in some]:
            name = str(part[0].table)
            rows = [change for change in part if isinstance(change, RowChange)]
            data = "\n".join(json.dumps(change.image) for change in rows) or "{}"
            keys = "\n".join(json.dumps([c.image[k] for k in c.key]) for c in rows)
            pack = len(rows) > 1
            fields = [
                str(part[0].event_id),
                "2024-01-01 00:00:00+00",
                "20",
                None,
                kind[:-1] + ',"pack":true}' if pack else kind,
                data,
                name,
                None,
                keys,
                None,
            ]
            text += "\t".join(map(_copied, fields)) + "\n"
            count += 1
    return EventBlock(text.encode(), count)


def _kind(change: TableChange) -> str:
    table = [change.table.schema, change.table.name]
    if isinstance(change, Truncate):
        what: dict[str, object] = {"op": "TRUNCATE", "table": table, "pkey": []}
    else:
        op = {Op.INSERT: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}[change.op]
        what = {"op": op, "table": table, "pkey": change.key, "row": columns_digest(change.image)}
        if change.state:
            what["state"] = True
    return json.dumps(what, separators=(",", ":"))


def _copied(text: str | None) -> str:
    if text is None:
        return r"\N"
    return text.replace("\\", r"\\").replace("\n", r"\n").replace("\t", r"\t")


def apply(
    target: Target, changes: list[TableChange], *, packed: bool, quick: bool = True
) -> BatchPart:
    """What the worker does with a part; not quick: row by row, in the order of the events."""
    tables = {change.table for change in changes}
    accumulator = Accumulator(
        RoutingTable.main([ReplicatedTable(name, name, True, "ok") for name in tables])
    )
    accumulator.add(block(changes, packed=packed))
    part = accumulator.take()
    with target.conn.transaction():
        target.conn.execute("select 1")
        known = shapes(target.conn, tables)
        plans = [plan_folded(folded, known[name]) for name, folded in part.folds.items()]
        assert None not in plans
        if not quick:
            plans = [TablePlan(known[name], False, None) for name in part.folds]
        target.applier.apply(
            [found for found in plans if found],
            lambda: ((known[name], change) for name, change in part.changes(tables)),
        )
    return part


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("hazard", HAZARDS)
def test_texts_end_as_events_one_by_one(target: Target, hazard: str, packed: bool) -> None:
    start, changes, expected = HAZARDS[hazard]
    target.database.execute("create table t (id int primary key, v text unique)")
    target.database.execute(f"insert into t values {start}")
    apply(target, changes(target), packed=packed)
    assert target.rows() == expected


MORE: dict[str, tuple[str, str, Callable[[Target], list[TableChange]]]] = {
    "unique constraint that is deferred": (
        "create table t (id int primary key, v text unique deferrable initially deferred)",
        "(1, 'x'), (2, 'y')",
        lambda t: [t.u(id="1", v="y"), t.u(id="2", v="x")],
    ),
    "numbers with many digits, and documents": (
        "create table t (id int primary key, v numeric, j json, b jsonb)",
        "(1, 1, null, null)",
        lambda t: [
            t.u(id="1", v="12345678901234567.123456789", j='{"b": 1,  "a":1}', b='"x"'),
            t.i(id="2", v="1.50", j="null", b=None),
        ],
    ),
    "columns in another order, and one of its own": (
        "create table t (own text default 'mine', v text, id int primary key)",
        "('theirs', 'x', 1)",
        lambda t: [t.u(id="1", v="z"), t.i(id="2", v="y"), t.s(id="3", v="w"), t.s(id="1", v="q")],
    ),
    "identity and generated columns": (
        "create table t (id int primary key, n int generated always as identity,"
        " g text generated always as (n || '!') stored)",
        "(1, 70)",
        lambda t: [t.i(id="2", n="71"), t.s(id="1", n="99"), t.s(id="3", n="72")],
    ),
    "no unique index on the key": (
        "create table t (id int, v text)",
        "(1, 'x'), (2, 'y')",
        lambda t: [t.u(id="1", v="z"), t.d(id="2"), t.s(id="1", v="a"), t.s(id="3", v="b")],
    ),
    "a parent that children point at with cascade": (
        "create table t (id int primary key, v text unique);"
        "create table child (id int primary key, t int references t on delete cascade)",
        "(1, 'x'), (2, 'y')",
        lambda t: [t.u(id="1", v="~"), t.u(id="2", v="x"), t.u(id="1", v="y")],
    ),
    "a parent that is emptied": (
        "create table t (id int primary key, v text);"
        "create table child (id int primary key, t int references t)",
        "(1, 'x'), (2, 'y')",
        lambda t: [t.u(id="1", v="z"), t.r(), t.i(id="1", v="a"), t.r(), t.i(id="2", v="b")],
    ),
}


@pytest.mark.parametrize("case", MORE)
def test_texts_and_rows_one_by_one_leave_the_same(target: Target, case: str) -> None:
    tables, start, changes = MORE[case]
    found = []
    for quick in (True, False):
        target.database.execute(tables)
        names = "(id, n) overriding system value" if "identity" in tables else ""
        target.database.execute(f"insert into t {names} values {start}")
        if "child" in tables:
            target.database.execute("insert into child values (7, 2)")
        apply(target, changes(target), packed=False, quick=quick)
        rows = [*target.rows("select t::text from t order by id")]
        if "child" in tables:
            rows += target.rows("select * from child order by id")
        found.append(rows)
        target.database.execute("drop table t cascade; drop table if exists child")
    assert found[0] == found[1]
    assert found[0]


@pytest.mark.parametrize("failure", FAILURES)
def test_texts_that_do_not_fit_name_the_event_and_leave_nothing(
    target: Target, failure: str
) -> None:
    changes, message, hint = FAILURES[failure]
    target.database.execute(
        "create table t (id int primary key, v text constraint fine check (v <> 'bad'));"
        "insert into t values (1, 'old')"
    )
    wanted = changes(target)
    if failure == "column that is missing":
        wanted = [change for change in wanted if change.event_id == 2]
    with pytest.raises(EventError) as caught:
        apply(target, wanted, packed=False)
    assert str(caught.value) == message
    assert hint in caught.value.hint
    assert caught.value.event_id == 2
    assert "secret" not in str(caught.value) + caught.value.detail
    assert target.rows() == [(1, "old")]


@pytest.mark.parametrize("cases", [40, pytest.param(2_000, marks=pytest.mark.slow)])
def test_random_changes_with_a_unique_column_end_as_they_happened(
    target: Target, cases: int
) -> None:
    target.database.execute("create table t (id int primary key, v text unique)")
    rows: dict[str, str] = {}
    pick = random.Random(cases)
    for _ in range(cases):
        changes: list[TableChange] = []
        for _ in range(pick.randint(1, 30)):
            changes.append(_happens(target, rows, pick))
        apply(target, changes, packed=pick.random() < 0.5)
        assert target.rows() == sorted((int(key), value) for key, value in rows.items())


def _happens(target: Target, rows: dict[str, str], pick: random.Random) -> TableChange:
    """One change that can happen to a table with these rows, in which it is made, too."""
    keys, values = [str(n) for n in range(8)], "abcdefghij"
    free = [value for value in values if value not in rows.values()]
    key, value = pick.choice(keys), pick.choice(free)
    what = pick.random()
    if what < 0.02:
        rows.clear()
        return target.r()
    if what < 0.3 and key in rows:
        del rows[key]
        return target.n(id=key) if what < 0.05 else target.d(id=key)
    if what < 0.1:
        return target.n(id=key)
    state = what > 0.9
    there = key in rows
    rows[key] = value
    if state:
        return target.s(id=key, v=value)
    return target.u(id=key, v=value) if there else target.i(id=key, v=value)


def test_a_table_that_others_point_at_is_emptied_at_once_the_next_time(target: Target) -> None:
    target.database.execute(
        "create table t (id int primary key); create table child (t int references t)"
    )
    for _ in range(2):
        apply(target, [target.r(), target.i(id="1")], packed=False)
    assert target.rows() == [(1,)]


def test_another_table_of_the_same_batch_is_written_though_one_is_emptied(target: Target) -> None:
    target.database.execute("create table t (id int primary key); create table u (id int)")
    other = TableName("public", "u")
    apply(target, [target.r(), target.i(id="1"), target.i(other, id="5")], packed=False)
    assert target.rows() == [(1,)]
    assert target.rows("select * from u") == [(5,)]


@pytest.mark.parametrize(
    "ddl",
    [
        "alter table t add column w int default 5",
        "alter table t alter column v type varchar(20)",
        "alter table t rename column v to x",
        "alter table t rename to old; create table t (id int primary key, v text)",
    ],
)
def test_nothing_is_written_by_a_shape_that_is_not_the_table_s_any_more(
    target: Target, ddl: str
) -> None:
    target.database.execute("create table t (id int primary key, v text)")
    change = target.i(id="1", v="x")
    shape = shapes(target.conn, {change.table})[change.table]
    target.database.execute(ddl)
    accumulator = Accumulator(
        RoutingTable.main([ReplicatedTable(change.table, change.table, True, "ok")])
    )
    accumulator.add(block([change], packed=False))
    planned = plan_folded(accumulator.take().folds[change.table], shape)
    assert planned is not None
    opened = []

    def begin() -> None:
        if not opened:
            opened.append(target.conn.transaction())
            opened[0].__enter__()

    with pytest.raises(StaleShapes, match=r"public\.t"):
        target.applier.apply([planned], begin=begin, verify=True)
    opened[0].__exit__(None, None, None)
    assert target.rows() == []


def test_a_shape_that_is_still_right_is_used(target: Target) -> None:
    target.database.execute("create table t (id int primary key, v text)")
    change = target.i(id="1", v="x")
    shape = shapes(target.conn, {change.table})[change.table]
    accumulator = Accumulator(
        RoutingTable.main([ReplicatedTable(change.table, change.table, True, "ok")])
    )
    accumulator.add(block([change], packed=False))
    planned = plan_folded(accumulator.take().folds[change.table], shape)
    assert planned is not None
    with target.conn.transaction():
        target.applier.apply([planned], verify=True)
    assert target.rows() == [(1, "x")]
