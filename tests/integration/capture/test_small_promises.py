"""Small things that have to work in every form of capture, on every table, at every command."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import psycopg
import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import CommandLine, Nodes
from tests.fixtures.line import Command, Line, LineNode
from tests.integration.forwarding.test_filtered_branch import in_step
from tests.support.waiting import wait_for

#: How a table is captured, by the name of the table.
CAPTURES = {
    "by_row": ("--form", "row"),
    "by_statement": ("--form", "statement"),
    "by_json": ("--trigger", "jsontriga"),
    "by_url": ("--trigger", "logutriga"),
    "by_sql": ("--trigger", "sqltriga"),
}
OWN = ("by_row", "by_statement")
HANDLED = {"bulk": "bulk", "spread": "bulk_direct", "plain": "direct"}


def ok(command: Command, node: LineNode, *args: str) -> None:
    answer = command(node, *args)
    assert answer.code == 0, (args, answer)


def test_key_only_tables_key_updates_and_json_events_arrive_and_are_analyzed(
    line: Line, command: Command
) -> None:
    key_only = "create table {} (a int, b text, primary key (a, b));"
    other = "create table {} (id int primary key, v text);"
    there = "".join(key_only.format(table) for table in CAPTURES)
    there += "".join(other.format(table) for table in HANDLED)
    root = line.node("root", NodeType.ROOT, schema=there + other.format("here"))
    leaf = line.node("leaf", NodeType.LEAF, root, schema=there + other.format("elsewhere"))
    for table, how in CAPTURES.items():
        ok(command, root, "add-table", table, *how)
    ok(command, root, "add-table", *HANDLED, "--trigger", "jsontriga")
    ok(command, root, "add-table", "here")
    root.database.execute("insert into here select i, i from generate_series(1, 77) i")
    ok(command, leaf, "add-table", *CAPTURES)
    for table, handler in HANDLED.items():
        ok(command, leaf, "add-table", table, "--handler", handler)
    ok(command, leaf, "add-table", "here", "--dest-table", "elsewhere", "--copy-mode", "snapshot")
    in_step(line, leaf)
    # The planner knows the table under the name that it has here.
    assert leaf.database.value("select reltuples from pg_class where relname = 'elsewhere'") == 77

    for table in CAPTURES:
        root.database.execute(f"insert into {table} values (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
        # Nothing of it changes; an UPDATE all the same.
        root.database.execute(f"update {table} set b = b; delete from {table} where a = 2")
    for table in OWN:
        root.database.execute(f"update {table} set a = a + 1, b = b || 'x' where a > 2")
    for table in set(CAPTURES) - set(OWN):
        with pytest.raises(psycopg.Error, match="primary key update not allowed"):
            root.database.execute(f"update {table} set a = 9 where a = 1")
    for table in HANDLED:
        root.database.execute(f"insert into {table} select i, i from generate_series(1, 9) i")
        root.database.execute(f"update {table} set v = 'x' where id < 4")
        root.database.execute(f"delete from {table} where id in (3, 5)")
    line.wait_position(leaf, line.tick())
    for table in (*CAPTURES, *HANDLED):
        rows = f"select * from {table} order by 1"
        assert leaf.database.execute(rows) == root.database.execute(rows) != []
    assert root.database.value("select max(a) from by_row") == 5


def test_the_log_of_a_script_names_each_statement(
    line: Line, command: Command, tmp_path: Path
) -> None:
    schema = "create table t (id int primary key)"
    root = line.node("root", NodeType.ROOT, schema=schema)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=schema)
    line.add(root, "t")
    line.add(leaf, "t")
    script = tmp_path / "named.sql"
    script.write_text("alter table public.t add column w int;\ncreate index on public.t (w);\n")
    ok(command, root, "execute", str(script))
    worker = line.start(leaf)
    line.wait_position(leaf, line.tick())
    said = worker.said()
    assert "script named.sql, statement 1: alter table public.t add column w int" in said
    assert "script named.sql, statement 2: create index on public.t (w)" in said


def test_a_command_opens_a_session_once_for_each_node(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    root.db.execute("create table t (id int primary key)")
    root.db.close()
    with root.connect(autocommit=True) as observer:

        def sessions() -> int:
            row = observer.execute(
                "select sessions from pg_stat_database where datname = current_database()"
            ).fetchone()
            assert row is not None
            return int(row[0])

        def counted(before: int) -> bool:
            return sessions() > before

        def ours() -> bool:
            row = observer.execute(
                "select exists (select from pg_stat_activity where datname = current_database()"
                " and backend_type = 'client backend' and pid <> pg_backend_pid())"
            ).fetchone()
            return row is not None and bool(row[0])

        nodes_of.sites.close()
        wait_for(lambda: not ours(), what="the sessions of before to end")
        for words in (["tables"], ["add-table", "t"], ["missing"], ["remove-table", "t"]):
            before = sessions()
            assert londiste(root.db, *words).code == 0
            wait_for(lambda: not ours(), what="the session to end")
            wait_for(partial(counted, before), what="the session to be counted")
            assert sessions() == before + 1, words


def test_nodes_are_named_anew_given_up_and_taken_back(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    leaf = nodes_of.below(root, "leaf")

    def names() -> dict[str, bool]:
        return dict(
            root.db.execute("select node_name, dead from pgq_node.get_queue_locations('q')")
        )

    for words, then in (
        (["rename-node", "leaf", "shop"], {"root": False, "shop": False}),
        (["tag-dead", "shop"], {"root": False, "shop": True}),
        (["tag-alive", "shop"], {"root": False, "shop": False}),
    ):
        planned = londiste(root.db, *words, "--dry-run")
        assert planned.code == 0, planned.err
        answer = londiste(root.db, *words)
        assert answer.code == 0, answer.err
        assert names() == then
    assert leaf.db.value("select node_name from pgq_node.node_info") == "shop"
    assert londiste(root.db, "rename-node", "nope", "x").code == 2
    # The others would read nothing from it any more.
    refused = londiste(leaf.db, "tag-dead", "root")
    assert refused.code == 3 and "root root answers" in refused.err and "hint:" in refused.err
    assert names() == then
