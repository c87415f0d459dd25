"""Events that conflict with local rows, under each policy: the tables end as a model predicts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from londiste.applier.applier import Applier
from londiste.changes.types import Op, RowChange
from londiste.db.connection import Connection
from londiste.db.names import TableName
from londiste.db.relation import shapes
from londiste.errors import EventError
from londiste.metrics.collect import cascade
from londiste.monitor.place import Place
from londiste.replication.apply.routing import plan
from tests.fixtures.cluster import Database
from tests.fixtures.nodes import make_leaf
from tests.support.suite.slow import first

T = TableName("public", "t")
Rows = dict[int, int | None]


class Target:
    """A leaf with a table; every call of ``apply`` is a batch."""

    def __init__(self, database: Database) -> None:
        self.database = database
        make_leaf(database)
        self.conn: Connection = database.connect(replica=True, lock_timeout_ms=500)
        self.applier = Applier(self.conn, node="n2", queue="q", keep=5)
        self.number = 0

    def change(self, op: Op, **image: str | None) -> RowChange:
        self.number += 1
        return RowChange(self.number, 1, T, op, ("id",), image)

    def apply(self, policy: str, *changes: RowChange, where: str = "") -> int:
        """Writes a batch; how often the policy has decided."""
        known = {
            name: replace(shape, on_error=policy, where=where)
            for name, shape in shapes(self.conn, [T]).items()
        }
        with self.conn.transaction():
            self.applier.begin()
            self.applier.apply(plan({T: list(changes)}, known, node="n2"))
            self.applier.conflicts.write()
        return self.applier.conflicts.counts.total()

    def rows(self) -> Rows:
        return {row[0]: row[1] for row in self.database.execute("select id, n from t")}


@pytest.fixture
def target(pgq_db: Database) -> Iterator[Target]:
    target = Target(pgq_db)
    yield target
    target.conn.close()


def model(rows: Rows, policy: str, op: Op, id: int, n: int | None) -> tuple[Rows, int] | None:
    """The table after an event, and the number of conflicts; None: it halts."""
    there = id in rows
    bad = op is not Op.DELETE and (n is None or n < 0)
    if bad and (op is Op.INSERT or there or policy == "overwrite"):
        return None if policy in {"halt", "overwrite"} else (rows, 1)
    conflict = int(there == (op is Op.INSERT))
    if conflict and policy == "halt":
        return None
    if conflict and (policy != "overwrite" or op is Op.DELETE):
        return rows, 1
    rest = {key: value for key, value in rows.items() if key != id}
    return (rest if op is Op.DELETE else {**rest, id: n}), conflict


@pytest.mark.parametrize("rounds", first([20, 60]))
@pytest.mark.parametrize("policy", ["halt", "keep", "overwrite", "log"])
def test_random_conflicts_end_as_the_model_says(target: Target, policy: str, rounds: int) -> None:
    target.database.execute("create table t (id int primary key, n int not null check (n >= 0))")
    target.database.execute("insert into t select i, i from generate_series(1, 20) i")
    chance = random.Random(policy)
    conflicts = 0
    for _ in range(rounds):
        before = rows = target.rows()
        batch, halts, expected = [], False, 0
        for id in chance.sample(range(1, 40), 8):
            op = chance.choice(list(Op))
            n = chance.choice([None, -1, *range(20)])
            image = {"id": str(id)} if op is Op.DELETE else {"id": str(id), "n": n and str(n)}
            if n == 0:
                image["n"] = "0"
            batch.append(target.change(op, **image))
            after = model(rows, policy, op, id, n)
            if after is None:
                halts = True
                break
            rows, expected = after[0], expected + after[1]
        if halts:
            with pytest.raises(EventError) as caught:
                target.apply(policy, *batch)
            assert caught.value.event_id == batch[-1].event_id
            assert caught.value.finding is not None
            assert target.rows() == before
        else:
            assert target.apply(policy, *batch) == expected
            assert target.rows() == rows
            conflicts += expected
    if policy == "halt":
        assert conflicts == 0
    else:
        assert conflicts > 10
    counted = target.database.value(
        "select coalesce(sum(times), 0)::int from londiste.get_conflicts('q')"
    )
    assert counted == conflicts
    logged = target.database.value("select count(*) from londiste.get_conflict_log('q', 100)")
    assert logged == (5 if policy == "log" else 0)


def test_events_of_one_key_in_a_batch_are_decided_one_after_the_other(target: Target) -> None:
    target.database.execute("create table t (id int primary key, n int)")
    target.database.execute("insert into t values (1, 1), (3, 3)")
    insert, update, delete = Op.INSERT, Op.UPDATE, Op.DELETE
    c = target.change
    batch = [
        c(insert, id="1", n="10"),
        c(update, id="1", n="11"),
        c(update, id="2", n="20"),
        c(insert, id="2", n="21"),
        c(delete, id="3"),
        c(delete, id="3"),
    ]
    assert target.apply("overwrite", *batch) == 4
    assert target.rows() == {1: 11, 2: 21}


def test_a_row_stays_where_the_event_meets_another_rows_value(target: Target) -> None:
    target.database.execute("create table t (id int primary key, n int, code text unique)")
    target.database.execute("insert into t values (1, 1, 'one'), (2, 2, 'mine')")
    update = target.change(Op.UPDATE, id="1", n="5", code="mine")
    insert = target.change(Op.INSERT, id="7", n="7", code="mine")
    for policy in ("halt", "overwrite"):
        with pytest.raises(EventError, match="unique constraint") as caught:
            target.apply(policy, update)
        assert caught.value.finding is not None
        assert caught.value.finding.kind == "constraint"
        assert caught.value.finding.here == '{"id":2,"n":2,"code":"mine"}'
    assert target.apply("log", update, insert) == 2
    assert target.database.execute("select * from t order by id") == [
        (1, 1, "one"),
        (2, 2, "mine"),
    ]
    logged = target.database.execute(
        "select event_id, kind, op, row_image, here_row from londiste.get_conflict_log('q', 9)"
    )
    here = '{"id":2,"n":2,"code":"mine"}'
    assert logged == [
        (2, "constraint", "insert", '{"id": "7", "n": "7", "code": "mine"}', here),
        (1, "constraint", "update", '{"id": "1", "n": "5", "code": "mine"}', here),
    ]


def test_unique_values_that_move_within_a_batch_are_no_conflict(target: Target) -> None:
    target.database.execute("create table t (id int primary key, n int, code text unique)")
    target.database.execute("insert into t values (1, 1, 'a'), (2, 2, 'b')")
    swap = [
        target.change(Op.UPDATE, id="1", n="1", code="b"),
        target.change(Op.UPDATE, id="2", n="2", code="a"),
        # and one that is a conflict, so that all are written one by one
        target.change(Op.DELETE, id="9"),
    ]
    assert target.apply("keep", *swap) == 1
    assert target.database.execute("select id, code from t order by id") == [(1, "b"), (2, "a")]


def test_a_row_filter_and_a_policy_go_together(target: Target) -> None:
    target.database.execute("create table t (id int primary key, n int)")
    target.database.execute("insert into t values (1, 1), (2, 2)")
    kept = target.change(Op.INSERT, id="1", n="10")
    not_kept = target.change(Op.INSERT, id="2", n="-10")
    assert target.apply("overwrite", kept, not_kept, where="n > 0") == 1
    # Row 2 is not the filter's: the event of a row that is not kept says nothing about it.
    assert target.rows() == {1: 10, 2: 2}


def test_many_conflicts_are_counted_in_the_transaction_of_their_rows(target: Target) -> None:
    target.database.execute("create table t (id int primary key, n int)")
    target.database.execute("insert into t select i, 0 from generate_series(1, 600) i")
    # More than are counted at a time.
    inserts = [target.change(Op.INSERT, id=str(i), n="1") for i in range(1, 651)]
    assert target.apply("keep", *inserts) == 600
    assert target.database.execute("select n, count(*) from t group by n order by n") == [
        (0, 600),
        (1, 50),
    ]
    assert target.database.execute(
        "select table_name, kind, policy, times, last_event from londiste.get_conflicts('q')"
    ) == [("public.t", "exists", "keep", 600, 600)]
    assert target.apply("keep", target.change(Op.UPDATE, id="9999", n="1")) == 1
    found = cascade([Place(target.database.dsn, "q")], only_local=True)
    assert found.measures["n2"].conflicts == {"exists": 600, "missing": 1}
