"""Handlers of tables whose rows replication leaves alone, and changing handlers."""

from __future__ import annotations

import pytest

from londiste.cascade.types import NodeType
from tests.fix_line import Line, LineNode

SCHEMA = "create table a (id int primary key, v text); create table b (id int primary key);"


@pytest.fixture
def nodes(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    return root, leaf


def must(line: Line, node: LineNode, *args: str) -> str:
    done = line.run(node, *args)
    assert done.code == 0, str(done)
    return done.out


def test_nop_leaves_the_rows_alone_until_the_handler_is_changed(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    root.database.execute("insert into a values (1, 'root'), (2, 'root')")
    leaf.database.execute("insert into a values (1, 'mine')")
    line.add(root, "a", "b")
    must(line, leaf, "add-table", "a", "--handler", "nop")
    must(line, leaf, "add-table", "b", "--expect-sync")
    root.database.execute("update a set v = 'new'; delete from a where id = 2; truncate a")
    root.database.execute("insert into a values (3, 'x'); insert into b values (1)")
    line.start(leaf)
    line.wait_position(leaf, line.tick())
    assert leaf.database.execute("select id, v from a") == [(1, "mine")]
    assert leaf.database.execute("select id from b") == [(1,)]
    assert line.run(leaf, "compare").code == 0
    for command in ("resync", "compare"):
        done = line.run(leaf, command, "a")
        assert done.code == 3
        assert "leaves its rows here alone" in done.err
    must(line, leaf, "change-handler", "a")
    line.wait(
        lambda: (line.tick(), leaf.database.execute("select id, v from a") == [(3, "x")])[1],
        "the copy",
    )


def test_a_virtual_table_need_not_be_there(line: Line, nodes: tuple[LineNode, LineNode]) -> None:
    root, leaf = nodes
    line.add(root, "a")
    leaf.database.execute("drop table a")
    must(line, leaf, "add-table", "a", "--handler", "vtable")
    root.database.execute("insert into a values (1, 'x')")
    line.tick()
    line.once(leaf)
    assert line.position(leaf) > 1
    done = line.run(leaf, "change-handler", "a")
    assert done.code == 2
    assert "does not exist" in done.err
    leaf.database.execute("create table a (id int primary key, v text)")
    must(line, leaf, "change-handler", "a")
    line.start(leaf)
    line.wait(
        lambda: (line.tick(), leaf.database.execute("select id, v from a") == [(1, "x")])[1],
        "the copy",
    )


def test_a_queue_table_keeps_no_row_anywhere(line: Line, nodes: tuple[LineNode, LineNode]) -> None:
    root, leaf = nodes
    must(line, root, "add-table", "a", "--handler", "qtable")
    leaf.database.execute("drop table a")
    must(line, leaf, "add-table", "a", "--handler", "qtable")
    root.database.execute("insert into a values (1, 'x')")
    assert root.database.execute("select * from a") == []
    events = root.database.execute(
        "select ev_data from pgq.event_template where ev_extra1 = 'public.a'"
    )
    assert len(events) == 1
    assert '"x"' in events[0][0]
    line.tick()
    line.once(leaf)
    must(line, root, "change-handler", "a")
    root.database.execute("insert into a values (2, 'y'); update a set v = 'z'")
    assert root.database.execute("select id, v from a") == [(2, "z")]


def test_a_changed_handler_keeps_the_arguments_of_the_trigger(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, _ = nodes
    triggers = (
        "select string_agg(t.tgname || encode(t.tgargs, 'escape') || t.tgtype, ' ' order by 1)"
        " from (select * from pg_trigger order by tgname) t"
        " where tgrelid = 'a'::regclass and not tgisinternal"
    )
    for options in (
        {"trigger_args": ("pkey=id", "ignore=v"), "form": "row"},
        {"trigger": "logutriga", "trigger_args": ("pkey=id",), "trigger_flags": "IU"},
        {"trigger": "jsontriga", "trigger_args": ("backup",)},
    ):
        line.add(root, "a", **options)
        before = root.database.value(triggers)
        must(
            line,
            root,
            "change-handler",
            "a",
            "--handler",
            "londiste",
            "--handler-arg",
            "ignore_truncate=1",
        )
        assert root.database.value(triggers) == before
        must(line, root, "remove-table", "a")


def test_truncate_is_passed_over_on_request(line: Line, nodes: tuple[LineNode, LineNode]) -> None:
    root, leaf = nodes
    line.add(root, "a", "b")
    must(
        line,
        leaf,
        "add-table",
        "a",
        "--handler",
        "londiste",
        "--handler-arg",
        "ignore_truncate=1",
        "--expect-sync",
    )
    root.database.execute("insert into a values (1, 'x')")
    root.database.execute("truncate a")
    root.database.execute("insert into a values (2, 'y')")
    line.tick()
    line.once(leaf)
    assert leaf.database.execute("select id from a order by id") == [(1,), (2,)]


def test_the_worker_stops_at_a_handler_that_it_does_not_know(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    line.add(root, "a")
    must(line, leaf, "add-table", "a", "--expect-sync")
    leaf.database.execute(
        "update londiste.table_info set table_attrs = 'handler=rot13' where table_name = 'public.a'"
    )
    root.database.execute("insert into a values (1, 'x')")
    tick = line.tick()
    done = line.run(leaf, "worker", "--once")
    assert done.code != 0
    assert "no handler rot13" in done.err
    assert line.position(leaf) < tick
    assert leaf.database.execute("select * from a") == []


def test_nobody_can_copy_from_a_branch_that_keeps_no_rows(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, _ = nodes
    branch = line.node("branch", NodeType.BRANCH, root, schema=SCHEMA)
    below = line.node("below", NodeType.LEAF, branch, schema=SCHEMA)
    line.add(root, "a")
    must(line, branch, "add-table", "a", "--handler", "vtable")
    done = line.run(below, "add-table", "a")
    assert done.code == 3
    assert "keeps no rows" in done.err
    must(line, below, "add-table", "a", "--expect-sync")
