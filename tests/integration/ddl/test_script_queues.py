"""Scripts where several queues meet in one database: a merge, and two queues of one root."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from londiste.cascade.commands.create_node import NewNode, create_leaf, create_root
from londiste.cascade.model import NodeType
from londiste.cli import cli
from londiste.cli.errors import run as run_command
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line
from tests.fixtures.scripts import Done
from tests.support.hints import plain
from tests.support.suite.slow import first

MADE = "create table o (id int primary key, v text)"


@dataclass
class Queues:
    """Nodes of several queues; commands run in this process, by the name of a node."""

    line: Line
    capsys: pytest.CaptureFixture[str]
    configs: dict[str, Path] = field(default_factory=dict)
    queues: dict[str, tuple[str, Database]] = field(default_factory=dict)

    def node(self, name: str, queue: str, here: Database, provider: str = "") -> None:
        """Makes a root, or a leaf of ``provider``."""
        kind = NodeType.LEAF if provider else NodeType.ROOT
        new = NewNode(queue, kind, name, here.dsn, here.dsn, f"{name}_worker")
        with Connections(name="test") as sites:
            if provider:
                execute(create_leaf(sites, new, self.queues[provider][1].dsn), sites)
            else:
                execute(create_root(sites, new), sites)
        values = {
            "db": here.dsn,
            "queue_name": queue,
            "job_name": f"{name}_worker",
            "engine": "local",
        }
        path = self.configs[name] = self.line.directory / f"{name}.toml"
        lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
        path.write_text("[londiste]\n" + "\n".join(lines) + "\n")
        path.chmod(0o600)
        self.queues[name] = (queue, here)

    def run(self, node: str, *args: str) -> Done:
        self.capsys.readouterr()
        code = run_command(cli, ["-c", str(self.configs[node]), *args])
        printed = self.capsys.readouterr()
        return Done(code, printed.out, plain(printed.err))

    def fine(self, node: str, *args: str) -> Done:
        done = self.run(node, *args)
        assert done.code == 0, str(done)
        return done

    def script(self, name: str, text: str) -> str:
        path = self.line.directory / name
        path.write_text(text)
        return str(path)

    def follow(self, root: str, leaf: str) -> Done:
        queue, database = self.queues[root]
        database.execute("select pgq.force_tick(%s)", queue)
        database.execute("select pgq.ticker(%s)", queue)
        return self.run(leaf, "worker", "--once")

    def stopped(self, root: str, leaf: str) -> str:
        done = self.follow(root, leaf)
        assert done.code == 5, str(done)
        return done.err

    def rows(self, node: str, table: str = "o") -> list[tuple[object, ...]]:
        return self.queues[node][1].execute(f"select * from {table} order by id")


@pytest.fixture
def two(line: Line, capsys: pytest.CaptureFixture[str]) -> Queues:
    """Roots r1 and r2 with queues q1 and q2, and one database with their leaves l1 and l2."""
    made = Queues(line, capsys)
    target = line.make_database(pgq=True)
    target.execute(MADE)
    for number in (1, 2):
        root = line.make_database(pgq=True)
        root.execute(MADE)
        root.execute(f"insert into o values ({number}, 'a')")
        made.node(f"r{number}", f"q{number}", root)
        made.node(f"l{number}", f"q{number}", target, f"r{number}")
        made.fine(f"r{number}", "add-table", "o")
        assert made.follow(f"r{number}", f"l{number}").code == 0
    return made


def merged(two: Queues) -> None:
    two.fine("l1", "add-table", "o", "--merge-all", "--expect-sync")
    two.queues["l1"][1].execute(
        "set session_replication_role = replica; insert into o values (1, 'a'), (2, 'a')"
    )


@pytest.mark.parametrize(
    "text",
    first(
        ["delete from o where v = 'a'", "truncate o; insert into o values (7, 'new')", "truncate o"]
    ),
)
def test_rows_of_other_sources_stay(two: Queues, text: str) -> None:
    merged(two)
    two.fine("r1", "execute", two.script("d.sql", text))
    error = two.stopped("r1", "l1")
    assert "table public.o, which here queue q2 fills, too" in error
    assert two.rows("l1") == [(1, "a"), (2, "a")]
    assert two.run("l1", "execute", "mark-done", "d.sql").code == 0
    assert two.follow("r1", "l1").code == 0


def test_definitions_of_a_merged_table_change_once(two: Queues) -> None:
    merged(two)
    path = two.script("c.sql", "alter table o add column n int")
    for number in (1, 2):
        two.fine(f"r{number}", "execute", path)
        done = two.follow(f"r{number}", f"l{number}")
        assert done.code == 0, str(done)
        two.queues[f"r{number}"][1].execute(f"update o set n = {number}")
        assert two.follow(f"r{number}", f"l{number}").code == 0
    assert two.rows("l1") == [(1, "a", 1), (2, "a", 2)]


@pytest.fixture
def renamed(two: Queues) -> Queues:
    """Table o of r1 is o in the target, that of r2 is o_2."""
    two.queues["l1"][1].execute("create table o_2 (id int primary key, v text)")
    two.fine("l1", "add-table", "o", "--no-merge", "--expect-sync")
    two.fine("l2", "add-table", "o", "--no-merge", "--expect-sync", "--dest-table", "o_2")
    two.queues["l1"][1].execute(
        "set session_replication_role = replica;"
        " insert into o values (1, 'a'); insert into o_2 values (2, 'a')"
    )
    return two


def test_a_table_of_another_queue_with_the_same_name_is_not_changed(renamed: Queues) -> None:
    renamed.fine("r2", "execute", renamed.script("f.sql", "update o set v = 'by r2'"))
    error = renamed.stopped("r2", "l2")
    assert "table public.o: 1 written, 1 removed on the root, 0 written, 0 removed here" in error
    assert "table public.o, which queue q1 fills" in error
    assert renamed.rows("l1") == [(1, "a")]


def test_placeholders_are_other_tables_for_another_queue(renamed: Queues) -> None:
    path = renamed.script(
        "p.sql", "--*-- Local-Table: public.o\nupdate @public.o@ set v = v || ' marked'"
    )
    for number in (1, 2):
        renamed.fine(f"r{number}", "execute", path)
        done = renamed.follow(f"r{number}", f"l{number}")
        assert done.code == 0, str(done)
    assert renamed.rows("l1") == [(1, "a marked")]
    assert renamed.rows("l2", "o_2") == [(2, "a marked")]


def test_the_same_script_of_another_queue_has_not_changed_the_rows_of_this_one(
    renamed: Queues,
) -> None:
    path = renamed.script("s.sql", "do $$ begin update public.o set v = 'b'; end $$")
    renamed.fine("r1", "execute", path)
    assert renamed.follow("r1", "l1").code == 0
    renamed.fine("r2", "execute", path)
    error = renamed.stopped("r2", "l2")
    assert "queue q1 has brought it before" in error
    assert "londiste resync public.o" in error
    assert renamed.rows("l2", "o_2") == [(2, "a")]
    renamed.fine("l2", "execute", "mark-done", "s.sql")
    assert renamed.follow("r2", "l2").code == 0


def test_the_other_queue_of_a_root_gets_all_rows(
    line: Line, capsys: pytest.CaptureFixture[str]
) -> None:
    two = Queues(line, capsys)
    root, one, other = (line.make_database(pgq=True) for _ in range(3))
    for database in (root, one, other):
        database.execute(MADE)
    two.node("r1", "q1", root)
    two.node("r2", "q2", root)
    two.node("l1", "q1", one, "r1")
    two.node("l2", "q2", other, "r2")
    for queue in "12":
        two.fine(f"r{queue}", "add-table", "o")
        assert two.follow(f"r{queue}", f"l{queue}").code == 0
        two.fine(f"l{queue}", "add-table", "o", "--expect-sync")
    root.execute("insert into o values (1, 'a')")
    path = two.script("b.sql", "alter table o add column n int; update o set n = 5")
    refused = two.run("r1", "execute", path)
    assert refused.code == 5, str(refused)
    assert "table public.o, which queue q2 captures here, too" in refused.err
    assert two.rows("r1") == [(1, "a")]
    path = two.script("c.sql", "alter table o add column n int")
    two.fine("r1", "execute", path)
    twice = two.run("r2", "execute", path)
    assert twice.code == 3, str(twice)
    assert "through queue q1" in twice.err
    assert "londiste execute run c.sql --local" in twice.err
    two.fine("l2", "execute", path, "--local")
    root.execute("update o set n = 5")
    for queue in "12":
        assert two.follow(f"r{queue}", f"l{queue}").code == 0
        assert two.rows(f"l{queue}") == [(1, "a", 5)]
    root.execute("create table w (id int primary key)")
    two.fine("r2", "add-table", "w")
    read = two.fine("r1", "execute", two.script("w.sql", "create table copied as select from w"))
    assert "table public.w: queue q2 replicates it, so other nodes read it" in read.err
