"""Values of type "char" above 127, which PostgreSQL 14 writes as a byte that is no text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cluster import Server
from tests.fixtures.line import QUEUE, Line
from tests.integration.compare.test_compare import damage

SCHEMA = """
create domain letter as "char";
create table t (id int primary key, v "char", d letter);
create table arrays (id int primary key, v "char"[]);
"""
#: The same byte on every release.
BYTE = '((-61)::int4)::"char"'
SHOWN = "select id, v::int4, d::int4 from t order by id"


def pair(line: Line, server_of: Callable[[int], Server], above: int, below: int) -> Any:
    root = line.node("root", NodeType.ROOT, on=server_of(above), schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, on=server_of(below), schema=SCHEMA)
    return root, leaf


@pytest.mark.parametrize(
    "options",
    [
        {"form": "row"},
        {"form": "statement"},
        {"trigger": "logutriga"},
        {"trigger": "jsontriga"},
    ],
    ids=str,
)
def test_a_source_of_postgresql_14_writes_them_as_later_ones_do(
    line: Line, server_of: Callable[[int], Server], options: dict[str, str]
) -> None:
    root, leaf = pair(line, server_of, 14, 18)
    line.add(root, "t", **options)
    line.add(leaf, "t")
    line.once(leaf)
    root.database.execute(
        f"insert into t values (1, {BYTE}, {BYTE}), (2, 'a', '\\'), (3, '', null)"
    )
    line.tick()
    line.once(leaf)
    root.database.execute(f"update t set v = {BYTE} where id = 2")
    line.tick()
    line.once(leaf)
    expected = root.database.execute(SHOWN)
    assert expected[0] == (1, -61, -61)
    assert leaf.database.execute(SHOWN) == expected


def test_an_array_of_them_is_an_error_that_can_be_skipped(
    line: Line, server_of: Callable[[int], Server]
) -> None:
    root, leaf = pair(line, server_of, 14, 18)
    line.add(root, "arrays")
    line.add(leaf, "arrays")
    line.once(leaf)
    root.database.execute(f"insert into arrays values (1, array[{BYTE}])")
    root.database.execute("insert into arrays values (2, array['a'])")
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5, str(done)
    assert "contains bytes that are no text" in done.err
    bad = root.database.value(
        "select min(ev_id) from pgq.event_template where ev_extra1 like '%arrays'"
    )
    assert "\\xc3" in line.here(root, "queue", "events", QUEUE, "--id", str(bad)).out
    assert line.here(leaf, "events", "skip", str(bad), "--reason", "no text").code == 0
    line.once(leaf)
    assert leaf.database.execute("select id from arrays") == [(2,)]


@pytest.mark.parametrize("above", [14, 18])
def test_they_arrive_on_postgresql_14(
    line: Line, server_of: Callable[[int], Server], above: int
) -> None:
    root, leaf = pair(line, server_of, above, 14)
    line.add(root, "t", "arrays")
    line.add(leaf, "t", "arrays")
    line.once(leaf)
    many = f"insert into t select i, {BYTE}, {BYTE} from generate_series(10, 1000) i"
    rows = f"(1, {BYTE}, {BYTE}), (2, 'a', '\\'), (3, '', null)"
    for statement in (f"insert into t values {rows}", many, "delete from t where id > 20"):
        root.database.execute(statement)
        line.tick()
        line.once(leaf)
        assert leaf.database.execute(SHOWN) == root.database.execute(SHOWN)
    root.database.execute("""insert into arrays values (1, array['a', '\\']::"char"[])""")
    line.tick()
    line.once(leaf)
    root.database.execute(f"insert into arrays values (2, array[{BYTE}])")
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5, str(done)
    assert leaf.database.execute("select id, v::text[] from arrays") == [(1, ["a", "\\"])]


def test_a_copy_that_would_change_them_is_refused(
    line: Line, server_of: Callable[[int], Server]
) -> None:
    root, leaf = pair(line, server_of, 18, 14)
    root.database.execute(f"insert into t values (1, {BYTE}, {BYTE})")
    line.add(root, "t")
    line.add(leaf, "t", expect_sync=False)
    line.start(leaf)
    newest = "select cur_error from pgq_node.local_state where cur_error like '%char%'"

    def refused() -> bool:
        line.tick()
        return bool(leaf.database.value(newest)) or "cannot be copied" in line.processes.report()

    line.wait(refused, "the error of the copy")
    for name in ("v", "d"):
        leaf.database.execute(f"alter table t alter column {name} type text")
    line.wait(
        lambda: line.tick() and leaf.database.execute("table t") == [(1, "\\303", "\\303")],
        "the copy as text",
    )


@pytest.mark.parametrize(("above", "below"), [(14, 18), (18, 14)])
def test_a_comparison_reads_them_alike(
    line: Line, server_of: Callable[[int], Server], above: int, below: int
) -> None:
    root, leaf = pair(line, server_of, above, below)
    for node in (root, leaf):
        node.database.execute(f"insert into t values (1, {BYTE}, {BYTE}), (2, 'a', null)")
        node.database.execute(f"insert into arrays values (1, array[{BYTE}])")
        line.add(node, "t", "arrays", expect_sync=True)
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    assert line.here(leaf, "compare", "t").code == 0
    damage(leaf, "update t set v = 'x' where id = 1")
    done = line.here(leaf, "compare", "t")
    assert done.code == 3, str(done)
    assert "v '\\\\303' here 'x'" in done.err, done.err
    done = line.here(leaf, "compare", "arrays")
    assert done.code == 3, str(done)
    assert "unexpected" not in done.err
    assert "a row contains bytes that are no text" in done.err
