"""Changing the handler of a table, and tables whose rows are not replicated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from londiste.cascade.model import NodeType
from londiste.handlers import registry
from tests.fixtures.line import Command, Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes

SCHEMA = "create table a (id int primary key, v text); create table b (id int primary key);"


@pytest.fixture
@kept_nodes
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
        assert "its rows" in done.err
    must(line, leaf, "change-handler", "a")
    line.wait(
        lambda: (line.tick(), leaf.database.execute("select id, v from a") == [(3, "x")])[1],
        "the copy",
    )


def test_a_handler_that_takes_every_event_ends_the_copy_mode_resumable(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    root.database.execute("insert into a values (1, 'root')")
    line.add(root, "a")
    must(line, leaf, "add-table", "a", "--copy-mode", "resumable")
    line.start(leaf)
    line.wait(lambda: (line.tick(), _state(leaf) == "ok")[1], "the resumable copy")
    must(line, leaf, "change-handler", "a", "--handler", "direct")
    line.wait(lambda: (line.tick(), _state(leaf) == "ok")[1], "the copy with the handler")
    assert line.error(leaf) is None
    assert leaf.database.execute("select id, v from a") == [(1, "root")]


def _state(node: LineNode) -> object:
    return node.database.value("select merge_state from londiste.table_info")


def test_rules_that_no_type_of_the_column_takes_are_refused_before_the_copy(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    line.configure(leaf, obfuscator_key="k3y-of-test")
    types = {"v": "text[]", "s": "smallint", "c": "varchar(9)", "d": "date", "e": "text[]"}
    wrong = {"v": "hash", "s": "hash32", "c": "hash", "d": "bool", "e": {"x": "keep"}}
    right = {
        "id": "hash64",
        "v": "keep",
        "u": "hash",
        "t": "bool",
        "n": "hash32",
        "j": {"x": "hash"},
    }
    schema = (
        "drop table a; create table a (id bigint primary key, u uuid, t text, n numeric, j json"
    )
    for node in nodes:
        node.database.execute(schema + "".join(f", {n} {t}" for n, t in types.items()) + ")")
    line.add(root, "a")

    def given(rules: dict[str, object]) -> list[str]:
        return ["a", "--handler", "obfuscate", "--handler-arg", f"rules={json.dumps(rules)}"]

    for name, rule in wrong.items():
        done = line.run(leaf, "add-table", *given({"id": "keep", name: rule}))
        assert done.code == 2
        assert f"column {name} is {types[name].replace('varchar', 'character varying')}" in done.err
    must(line, leaf, "add-table", *given(right))


def test_a_table_whose_copy_fails_is_corrected_by_adding_it_again(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    line.add(root, "a", "b")
    must(line, leaf, "add-table", "a", "b")
    leaf.database.execute("update londiste.table_info set merge_state = 'in-copy'")
    leaf.database.execute(
        "insert into pgq_node.local_state (queue_name, consumer_name, provider_node, last_tick_id,"
        " cur_error) select queue_name, worker_name || '.copy.public.a', 'root', 1, 'E1: no array'"
        " from pgq_node.node_info"
    )
    hints = {"a": "londiste remove-table public.a, then londiste add-table", "b": "wait-sync"}
    for table, hint in hints.items():
        done = line.run(leaf, "change-handler", table, "--handler", "nop")
        assert done.code == 3
        assert hint in done.err
        assert ("E1: no array" in done.err) is (table == "a")


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
    assert "unknown handler rot13" in done.err
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
    assert "stores no rows" in done.err
    must(line, below, "add-table", "a", "--expect-sync")
    # From partitions no copy reads either; the root's own table has all rows.
    line.add(root, "b")
    assert line.here(branch, "add-table", "b", "--handler", "daily_batch").code == 0
    done = line.here(below, "add-table", "b")
    assert done.code == 3
    assert "in partitions" in done.err
    done = line.here(below, "add-table", "b", "--find-copy-node", "--dry-run")
    assert done.code == 0, str(done)


#: A handler, its arguments in Londiste 3, and what to write instead.
FORMER: list[tuple[str, list[str], str]] = [
    ("shard", ["key=id"], "--handler-arg nr=0 --handler-arg count=4"),
    ("part", ["hash_key=id", "nr=0"], "hash_func=partconf.get_hash_raw"),
    ("obfuscate", [], "--handler-arg 'rules={"),
    ("qtable", ["queue=mails"], "--handler qsplitter --handler-arg queue="),
    ("multimaster", ["timefield=at", "ignore=a"], "--handler-arg func_conf="),
    ("dispatch", ["hash_key=id"], "handler shard"),
    ("bulk_daily_event", ["key=id"], "handler shard"),
    ("londiste", ["encoding=latin1"], "leave it out"),
    ("dispatch", ["encoding=latin1"], "leave it out"),
    ("multimaster", ["timefield=at", "encoding=latin1"], "leave it out"),
]


def test_arguments_of_londiste_3_that_are_none_here_are_refused_with_what_to_write(
    line: Line, nodes: tuple[LineNode, LineNode], command: Command
) -> None:
    root, leaf = nodes
    line.add(root, "a")
    for handler, arguments, instead in FORMER:
        given = [word for argument in arguments for word in ("--handler-arg", argument)]
        done = command(leaf, "add-table", "a", "--handler", handler, *given)
        assert done.code == 2, handler
        hint = done.err.partition("hint: ")[2]
        assert instead in hint, handler
        assert "docs/howto/coming-from-londiste.md#handler-arguments" in done.err, handler
        assert not leaf.database.value("select count(*) from londiste.table_info where local")


def test_every_argument_of_the_page_is_refused_where_it_says_so() -> None:
    page = Path("docs/howto/coming-from-londiste.md").read_text(encoding="utf-8")
    table = page.partition("### Handler arguments")[2].partition("\n## ")[0]
    for name in registry.names():
        for argument in registry.find(name).OF_LONDISTE_3:
            words = (f"`{argument}=", f"`'{argument}=")
            assert "other arguments" in table if argument == "*" else any(w in table for w in words)


def test_what_the_hint_says_of_shard_is_taken(
    line: Line, nodes: tuple[LineNode, LineNode], command: Command
) -> None:
    root, leaf = nodes
    line.add(root, "a")
    leaf.database.execute(
        "create schema partconf; create function partconf.get_hash_raw(int4) returns int4"
        " language sql immutable as 'select $1'"
    )
    root.database.execute(
        "create schema partconf; create function partconf.get_hash_raw(int4) returns int4"
        " language sql immutable as 'select $1'; insert into a select generate_series(1, 8)"
    )
    hint = command(
        leaf, "add-table", "a", "--handler", "shard", "--handler-arg", "key=id"
    ).err.partition("partconf.conf: ")[2]
    words = hint.partition(";")[0].replace("key=…", "key=id").split()
    done = command(leaf, "add-table", "a", *words)
    assert done.code == 0, done.err
    line.start(leaf)
    line.wait(
        lambda: (
            line.tick(),
            leaf.database.execute("select id from a order by id") == [(4,), (8,)],
        )[1],
        "the copy of one part",
    )
