"""Tables without a key whose updates and deletes find a row by all its columns."""

from __future__ import annotations

import random
from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = """
create table w (v text, n numeric, doc json, at point, b bytea, half float8, gen int generated
    always as (1) stored);
create table logged (line text);
"""
ROWS = "select w::text, count(*) from w group by 1 order by 1"


def rows(node: LineNode, query: str = ROWS) -> list[Any]:
    return node.database.execute(query)


@pytest.fixture
@kept_nodes
def root(line: Line) -> LineNode:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    line.add(root, "w", whole_row=True)
    line.add(root, "logged", insert_only=True)
    return root


def leaf_of(line: Line, root: LineNode, schema: str = SCHEMA, **keys: object) -> LineNode:
    return line.node("leaf", NodeType.LEAF, root, schema=schema, **keys)


def change(root: LineNode, chance: random.Random) -> None:
    """One random transaction."""
    values = "(select (array['a', '', null, 'x\"y'])[%s], (array[1.0, 1, null])[%s], %s::json,"
    values += " '(1,2)'::point, '\\x00ff'::bytea, (array[0, '-0'::float8, 'NaN'])[%s])"
    doc = chance.choice([None, '{"a": 1}', '{"a":1}'])
    picks = [chance.randint(1, 4), chance.randint(1, 3), doc, chance.randint(1, 3)]
    match chance.randint(0, 4):
        case 0 | 1:
            root.database.execute(f"insert into w {values} union all {values}", *picks, *picks)
        case 2:
            root.database.execute(
                "delete from w where ctid in (select ctid from w order by random() limit 2)"
            )
        case 3:
            root.database.execute(
                "update w set n = coalesce(n, 0) + 1 where ctid in"
                " (select ctid from w order by random() limit 3)"
            )
        case 4:
            root.database.execute("update w set v = v; update w set v = 'moved' where v = 'a'")


@pytest.mark.parametrize("way", ["worker", pytest.param("job", marks=pytest.mark.slow)])
def test_random_changes_keep_every_duplicate(line: Line, root: LineNode, way: str) -> None:
    leaf = leaf_of(line, root, **({"parallel_apply_min_events": 2} if way == "job" else {}))
    line.tick()
    line.once(leaf)
    done = line.here(leaf, "add-table", "w", "--expect-sync")
    assert done.code == 0, str(done)
    chance = random.Random(way)
    for _ in range(4):
        for _ in range(25):
            change(root, chance)
        line.tick()
        line.once(leaf)
        assert rows(leaf) == rows(root)
    assert max(count for _, count in rows(root)) > 1
    root.database.execute("truncate w; insert into w (v) values ('one'), ('one'), ('one')")
    root.database.execute("delete from w where ctid = (select min(ctid) from w)")
    line.tick()
    line.once(leaf)
    assert rows(leaf, "select v, gen, count(*) from w group by 1, 2") == [("one", 1, 2)]
    # A row that is missing halts, and is named whole.
    leaf.database.execute(
        "set session_replication_role = replica;"
        "delete from w where ctid = (select min(ctid) from w)"
    )
    root.database.execute("delete from w")
    line.tick()
    done = line.here(leaf, "worker", "--once")
    assert done.code == 5
    assert "(delete of table public.w) cannot be applied on node leaf: no row" in done.err
    assert line.here(leaf, "change-policy", "w", "overwrite").code == 0
    line.once(leaf)
    assert rows(leaf) == []


def test_it_is_copied_while_it_is_written(line: Line, root: LineNode) -> None:
    chance = random.Random(1)
    for _ in range(30):
        change(root, chance)
    leaf = leaf_of(line, root)
    done = line.here(leaf, "add-table", "w")
    assert done.code == 0, str(done)
    line.start(leaf)

    def step() -> bool:
        change(root, chance)
        line.tick()
        state = leaf.database.value("select merge_state from londiste.table_info where local")
        return bool(state == "ok")

    line.wait(step, "the table in step")
    for _ in range(10):
        change(root, chance)
    line.wait_position(leaf, line.tick())
    assert rows(leaf) == rows(root)


#: Of whose owner a table that is not theirs has a column; and padded, where a cast drops blanks.
CAST = """
    create type mood as enum ('sad', 'glad');
    create function evil(mood) returns text language plpgsql immutable as
        'begin raise exception ''called''; end';
    create cast (mood as text) with function evil(mood);
    create table felt (m mood, c char(5), t varchar(3));
"""


def test_a_row_is_found_without_casts_of_its_types(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=CAST)
    line.add(root, "felt", whole_row=True)
    leaf = leaf_of(line, root, CAST)
    line.add(leaf, "felt", expect_sync=True)
    root.database.execute("insert into felt values ('sad', 'a', 'x'), ('glad', 'a', null)")
    line.tick()
    line.once(leaf)
    root.database.execute("delete from felt where m = 'sad'; update felt set c = 'b', t = ''")
    line.tick()
    line.once(leaf)
    assert rows(leaf, "select * from felt") == [("glad", "b    ", "")]


def test_a_filter_keeps_its_rows(line: Line, root: LineNode) -> None:
    leaf = leaf_of(line, root)
    line.tick()
    line.once(leaf)
    done = line.here(leaf, "add-table", "w", "--expect-sync", "--where", "n > 1 and v <> ''")
    assert done.code == 0, str(done)
    chance = random.Random(2)
    for _ in range(60):
        change(root, chance)
    line.tick()
    line.once(leaf)
    wanted = "select w::text, count(*) from w where n > 1 and v <> '' group by 1 order by 1"
    assert rows(leaf) == rows(root, wanted) != []


def test_columns_that_come_later_are_told(line: Line, root: LineNode) -> None:
    leaf = leaf_of(line, root)
    line.tick()
    line.once(leaf)
    line.add(leaf, "w")
    root.database.execute("insert into w (v) values ('a'), ('a'), ('b')")
    for node in (leaf, root):
        node.database.execute("alter table w add column more text default 'd'")
    # The capture is not made anew yet.
    root.database.execute("update w set more = 'e' where ctid = (select min(ctid) from w)")
    root.database.execute("delete from w where v = 'b'")
    line.tick()
    line.once(leaf)
    assert rows(leaf) == rows(root)
    root.database.execute("select londiste.refresh_capture('line', 'public.w')")
    root.database.execute("update w set v = 'z' where more = 'd'")
    line.tick()
    line.once(leaf)
    assert rows(leaf) == rows(root)
    forms = root.database.execute(
        "select form from londiste.capture_forms('line') where table_name = 'public.w'"
    )
    assert forms == [("row",)]


def test_without_it_rows_are_only_inserted(root: LineNode) -> None:
    root.database.execute("insert into logged values ('x')")
    with pytest.raises(Exception, match="without pkey"):
        root.database.execute("delete from logged")
