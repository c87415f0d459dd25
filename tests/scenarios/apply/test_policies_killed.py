"""Policies about events that do not fit, in workers that are killed in the middle of a batch.

Leaves have the same rows of their own and take the same batches, two in the ordinary way and two in
jobs: of each two one is left alone and one is killed in every batch, and they must come to the same
rows and counts.  In the ordinary way, where every batch has conflicts, these are those of a model
that takes the changes one after the other; a job decides about what a batch comes to.
"""

from __future__ import annotations

import random
import signal
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from londiste.changes.types import Op
from tests.fixtures.line import QUEUE, Command, Line, LineNode
from tests.integration.apply.test_conflict_policies import Rows, model

POLICIES = ("keep", "overwrite", "log")
ROOT = """
create table told (nr bigserial, tx xid8 default pg_current_xact_id(), tbl text, op text, id int,
    n int);
create function note_told() returns trigger language plpgsql as $$
begin
    if tg_op = 'UPDATE' and old.id <> new.id then
        insert into told (tbl, op, id) values (tg_table_name, 'd', old.id);
        insert into told (tbl, op, id, n) values (tg_table_name, 'i', new.id, new.n);
    else
        insert into told (tbl, op, id, n)
        select tg_table_name, left(tg_op, 1), (r).id, (r).n
        from (select case tg_op when 'DELETE' then old else new end as r) x;
    end if;
    return new;
end $$;
"""
TABLE = "create table {0} (id int primary key, n int not null, pad text);"
NOTED = "create trigger aaa after insert or update or delete on {0} for each row"
NOTED += " execute function note_told();"
POINTS = {
    "ordinary": ("worker.mid-apply", "worker.before-commit", "worker.after-commit"),
    "jobs": ("large.begun", "large.mid-slice", "large.mid-merge", "worker.before-commit"),
}


@pytest.mark.parametrize(
    ("ways", "rounds"),
    [
        pytest.param(("ordinary",), 1, id="ordinary"),
        pytest.param(("ordinary", "jobs"), 2, id="all", marks=pytest.mark.slow),
    ],
)
@pytest.mark.timeout(900)
def test_what_policies_decide_is_done_and_counted_once(
    line: Line, command: Command, ways: tuple[str, ...], rounds: int
) -> None:
    seed = random.randrange(1 << 20)
    print(f"seed {seed}")
    chance = random.Random(seed)
    root = line.node("root", NodeType.ROOT, schema=ROOT)
    for policy in POLICIES:
        root.database.execute(
            TABLE.format(policy)
            + f"insert into {policy} select i, i from generate_series(1, 60) i;"
            + NOTED.format(policy)
        )
        line.add(root, policy)
    line.tick()
    alone, killed = {}, {}
    for way in ways:
        keys = {"parallel_apply_min_events": 5} if way == "jobs" else {}
        alone[way] = leaf(line, command, root, f"{way}_alone", **keys)
        killed[way] = leaf(line, command, root, way, **keys)
    ordinary = alone["ordinary"]
    rows = {policy: held(ordinary, policy) for policy in POLICIES}
    conflicts = dict.fromkeys(POLICIES, 0)
    points = {way: POINTS[way] * rounds for way in ways}
    for number in range(max(map(len, points.values()))):
        for policy in POLICIES:
            if number == 0:
                # Six conflicts whatever the seed is: the leaves lack every fourth row.
                root.database.execute(f"update {policy} set n = n + 1 where id % 4 = 0 and id < 25")
            root.database.execute(transaction(chance, policy, 8, keys=False))
            root.database.execute(transaction(chance, policy, 4, keys=True))
        tick = line.tick()
        for node in alone.values():
            line.once(node)
        for way, node in killed.items():
            point = points[way][number % len(points[way])]
            worker = line.start(node, LONDISTE_CRASH=point)
            if point == "large.mid-slice":
                # A task dies, and the worker makes up for it.
                line.wait_position(node, tick)
                worker.kill()
            else:
                assert worker.wait() == -signal.SIGKILL, worker.said()
            line.once(node)
            assert line.position(node) == tick
    for policy in POLICIES:
        states = None
        for tx, op, id, n in root.database.execute(
            "select tx::text, op, id, n from told where tbl = %s order by nr", policy
        ):
            states = tx if op.islower() else states
            done = ("d" if op in "dD" else "i") if states == tx else op
            rows[policy], found = decided(rows[policy], policy, done, id, n)
            conflicts[policy] += found
        assert conflicts[policy] > 5
    assert {policy: held(ordinary, policy) for policy in POLICIES} == rows
    assert counted(ordinary) == conflicts
    logged = "select count(*) from londiste.get_conflict_log(%s, 100000)"
    assert ordinary.database.value(logged, QUEUE) == conflicts["log"]
    for way in ways:
        assert told_of(killed[way]) == told_of(alone[way]), way


def decided(rows: Rows, policy: str, op: str, id: int, n: int | None) -> tuple[Rows, int]:
    """The rows after a change, and the number of conflicts.

    op -- in small letters for the two halves of a key that changes, and what comes behind it in its
        transaction: they say what the table has after them, not what it had before, so nothing but
        a constraint can be in their way.
    """
    if op.islower():
        if op == "i" and n is not None and n < 0 and policy != "overwrite":
            return rows, 1
        rest = {key: value for key, value in rows.items() if key != id}
        return (rest if op == "d" else {**rest, id: n}), 0
    after = model(rows, policy, Op(op), id, n)
    assert after is not None
    return after


def leaf(line: Line, command: Command, root: LineNode, name: str, **keys: Any) -> LineNode:
    """A leaf that lacks some rows, has some of its own, and takes no negative numbers."""
    node = line.node(name, NodeType.LEAF, root, **keys)
    line.once(node)
    for policy in POLICIES:
        checked = f"alter table {policy} add check (n >= 0);" if policy != "overwrite" else ""
        node.database.execute(
            TABLE.format(policy)
            + checked
            + f"insert into {policy} select i, i from generate_series(1, 60) i where i % 4 > 0;"
            f"insert into {policy} select i, 1000 + i from generate_series(61, 80) i"
        )
        done = command(node, "add-table", policy, "--expect-sync", "--on-error", policy)
        assert done.code == 0, done.err
    return node


def transaction(chance: random.Random, table: str, statements: int, *, keys: bool) -> str:
    """Statements of one transaction, many for one key; ``keys``: keys of rows change, too."""
    parts = []
    for _ in range(statements):
        id, n = chance.randint(1, 80), chance.randint(0, 99)
        n = -n if table != "overwrite" and chance.random() < 0.2 else n
        some = [
            f"insert into {table} values ({id}, {n}) on conflict do nothing",
            f"insert into {table} select i, {n} from generate_series({id}, {id + 4}) i"
            " on conflict do nothing",
            f"update {table} set n = {n} where id between {id} and {id + 3}",
            f"update {table} set n = n + 1 where id = {id}",
            f"delete from {table} where id between {id} and {id + 1}",
        ]
        moved = (
            f"update {table} set id = {id} where id = (select id from {table}"
            f" order by abs(id - {id}) limit 1)"
            f" and not exists (select from {table} where id = {id})"
        )
        parts.append(chance.choice([*some, moved, moved] if keys else some))
    return ";".join(parts)


def told_of(node: LineNode) -> list[Any]:
    """All rows, all counts and the events of all rows that are kept of conflicts."""
    log = (
        "select event_id, kind, op, row_image, here_row from londiste.get_conflict_log(%s, 100000)"
    )
    return [
        *(held(node, policy) for policy in POLICIES),
        counted(node),
        sorted(node.database.execute(log, QUEUE), key=repr),
    ]


def held(node: LineNode, table: str) -> Rows:
    return dict(node.database.execute(f"select id, n from {table}"))


def counted(node: LineNode) -> dict[str, int]:
    found = node.database.execute(
        "select policy, sum(times)::int from londiste.get_conflicts(%s) group by 1", QUEUE
    )
    return dict(found)
