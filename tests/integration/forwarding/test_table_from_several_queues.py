"""One table of a leaf's database that is filled from several queues."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from londiste.cascade.commands.create_node import NewNode, create_leaf, create_root
from londiste.cascade.model import NodeType
from londiste.orchestration.connections import Connections
from londiste.orchestration.steps import execute
from tests.fixtures.cluster import Database
from tests.fixtures.line import Line
from tests.support.scenarios.processes import Done, Process

MADE = "create table t (part text, id int, v text, primary key (part, id))"
PARTS = ("one", "two", "three")


class Merge:
    """Three roots, each with a queue of its own, and one database with a leaf of each."""

    def __init__(self, line: Line, directory: Path) -> None:
        self.line = line
        self.roots: dict[str, Database] = {}
        self.target = line.make_database(pgq=True)
        self.target.execute(MADE)
        self.configs: dict[tuple[str, str], Path] = {}
        for part in PARTS:
            root = self.roots[part] = line.make_database(pgq=True)
            root.execute(MADE)
            root.execute("insert into t select %s, i, 'old' from generate_series(1, 800) i", part)
            with Connections(name="test") as sites:
                new = NewNode(part, NodeType.ROOT, "root", root.dsn, root.dsn, "root_worker")
                execute(create_root(sites, new), sites)
                leaf = NewNode(
                    part, NodeType.LEAF, "leaf", self.target.dsn, self.target.dsn, f"{part}_leaf"
                )
                execute(create_leaf(sites, leaf, root.dsn), sites)
            for kind, database in (("root", root), ("leaf", self.target)):
                keys = {
                    "db": database.dsn,
                    "queue_name": part,
                    "job_name": f"{part}_{kind}",
                    "engine": "local",
                    "poll_interval": 0.1,
                    "max_retry_delay": 0.3,
                    "copy_chunk_bytes": 1 << 14,
                }
                config = directory / f"{part}_{kind}.toml"
                lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
                config.write_text("[londiste]\n" + "\n".join(lines) + "\n")
                config.chmod(0o600)
                self.configs[part, kind] = config
            assert self.run(part, "root", "add-table", "t").code == 0

    def run(self, part: str, kind: str, *args: str) -> Done:
        config = str(self.configs[part, kind])
        return self.line.processes.run(
            [sys.executable, "-m", "londiste", "-c", config, *args], None
        )

    def start(self, part: str, **env: str) -> Process:
        config = str(self.configs[part, "leaf"])
        argv = [sys.executable, "-m", "londiste", "-c", config, "worker"]
        return self.line.processes.start(f"{part}_leaf", argv, env)

    def write(self, number: int) -> None:
        for root, part in zip(self.roots.values(), PARTS, strict=True):
            root.execute("update t set v = %s where id %% 10 = %s", f"n{number}", number % 10)
            root.execute("insert into t values (%s, %s, 'fresh')", part, 10_000 + number)
            root.execute("delete from t where id = %s", number)
            root.execute("select pgq.force_tick(%s)", part)
            root.execute("select pgq.ticker(%s)", part)

    def rows(self) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for root in self.roots.values():
            found += root.execute("select part, id, v from t")
        return sorted(found, key=repr)

    def states(self) -> list[object]:
        query = "select merge_state from londiste.table_info where local order by queue_name"
        return [state for (state,) in self.target.execute(query)]


@pytest.fixture
def merge(line: Line, tmp_path: Path) -> Merge:
    return Merge(line, tmp_path)


def test_three_queues_fill_one_table(merge: Merge, tmp_path: Path) -> None:
    merge.target.execute("insert into t values ('nobody', 1, 'goes away')")
    for part in PARTS[1:]:
        # The node of each part learns which tables there are.
        merge.target.execute("select londiste.global_add_table(%s, 't')", part)
    refused = merge.run("one", "leaf", "add-table", "t")
    assert refused.code == 3
    assert refused.err.startswith(
        "error: table public.t is also in queue three, two, whose leaves are in this database\n"
    )
    add = "londiste add-table public.t"
    assert (
        f"hint: {add} --merge-all fills it from all of them, {add} --no-merge from queue one"
        in (refused.err)
    )
    assert merge.states() == []
    shown = merge.run("one", "leaf", "add-table", "t", "--merge-all", "--dry-run")
    assert "empty table public.t and add table public.t" in shown.out
    both = merge.run("one", "leaf", "add-table", "t", "--merge-all", "--no-merge")
    assert both.code == 2
    done = merge.run("one", "leaf", "add-table", "t", "--merge-all", "--max-parallel-copy", "2")
    assert done.code == 0, str(done)
    assert merge.states() == [None, None, None]
    mark = tmp_path / "crashed"
    workers = [
        merge.start("one", LONDISTE_CRASH="copy.all-chunks", LONDISTE_CRASH_MARK=str(mark)),
        merge.start("two"),
        merge.start("three"),
    ]
    number = 0

    def ok() -> bool:
        nonlocal number
        number += 1
        merge.write(number)
        return merge.states() == ["ok"] * 3

    merge.line.wait(ok, "all parts to be ok", 90)
    assert mark.exists()
    merge.write(number + 1)

    def equal() -> bool:
        here = merge.target.execute("select part, id, v from t")
        return sorted(here, key=repr) == merge.rows()

    merge.line.wait(equal, "the rows of all parts", 30)
    keys = "select count(*) from pg_index where indrelid = 't'::regclass and indisprimary"
    assert merge.target.value(keys) == 1
    compared = merge.run("one", "leaf", "compare", "t")
    assert compared.code != 0
    assert "also filled from" in compared.err
    for worker in workers:
        assert worker.stop() == 0


def test_the_hint_of_a_refused_resync_copies_all_parts_again(merge: Merge) -> None:
    for part in PARTS[1:]:
        merge.target.execute("select londiste.global_add_table(%s, 't')", part)
    added = merge.run("one", "leaf", "add-table", "t", "--merge-all", "--expect-sync")
    assert added.code == 0, str(added)
    refused = merge.run("one", "leaf", "resync", "t")
    assert refused.code == 3 and "also filled from queue three, two" in refused.err, str(refused)
    assert "--skip-truncate" not in refused.err
    words = "of each part: londiste remove-table t; then: londiste add-table t --merge-all"
    assert words in refused.err.replace("public.", "")
    for part in PARTS:
        assert merge.run(part, "leaf", "remove-table", "t").code == 0
    assert merge.run("one", "leaf", "add-table", "t", "--merge-all").code == 0
    assert merge.states() == [None, None, None]


def test_a_copy_never_empties_a_table_of_another_queue(merge: Merge) -> None:
    for part in PARTS[:2]:
        merge.target.execute("select londiste.global_add_table(%s, 't')", part)
    assert merge.run("one", "leaf", "add-table", "t", "--no-merge", "--expect-sync").code == 0
    merge.target.execute(
        "set session_replication_role = replica; insert into t values ('one', 1, 'mine');"
        " reset session_replication_role"
    )
    for options in ([], ["--no-merge"], ["--merge-all"], ["--skip-truncate"]):
        early = merge.run("two", "leaf", "add-table", "t", *options)
        assert early.code == 3 and "is filled from queue one already" in early.err, str(early)
        assert "add-table public.t --no-merge --skip-truncate, after you have deleted" in early.err
    assert merge.states() == ["ok"]
    # The copy does not rely on the command.
    added = "select ret_code from londiste.local_add_table('two', 't', '{no_merge}')"
    assert merge.target.value(added) == 200
    worker = merge.start("two")

    number = 0

    def refused() -> bool:
        nonlocal number
        number += 1
        merge.write(number)
        errors = merge.target.execute("select cur_error from pgq_node.local_state")
        return any("also filled from" in (text or "") for (text,) in errors)

    merge.line.wait(refused, "the copy to be refused", 40)
    assert merge.target.value("select count(*) from t where v = 'mine'") == 1
    # The orders of its hint: the part is copied beside the other rows.
    error = merge.target.value(
        "select cur_error from pgq_node.local_state where cur_error like '%also%'"
    )
    for order in error.partition(" first); ")[2].split("; then "):
        done = merge.run("two", "leaf", *shlex.split(order.removeprefix("londiste ")))
        assert done.code == 0, str(done)
    assert "(1 row) of this node is also filled from public.t of queue one" in done.err, str(done)

    def copied() -> bool:
        nonlocal number
        number += 1
        merge.write(number)
        return merge.states() == ["ok", "ok"]

    merge.line.wait(copied, "the copy beside the other rows", 60)
    assert merge.target.value("select count(*) from t where v = 'mine'") == 1
    assert merge.target.value("select count(*) from t where part = 'two'") >= 800
    assert worker.stop() == 0


def test_a_filter_beside_other_sources_needs_keys_that_are_unique(merge: Merge) -> None:
    for part in PARTS[:2]:
        merge.target.execute("select londiste.global_add_table(%s, 't')", part)
    few = ["--where", "v = 'old'"]
    shared = "several sources fill public.t, and rows are filtered: v = 'old'"
    add = ["add-table", "t", "--no-merge", "--expect-sync"]
    merged = ["add-table", "t", "--merge-all", *few]
    asked = [("one", merged), ("two", add), ("two", [*add, *few])]
    for number, (part, args) in enumerate(asked):
        if number == 1:
            # Alone it is no danger yet.
            assert merge.run("one", "leaf", *add, *few).code == 0
        refused = merge.run(part, "leaf", *args)
        assert (refused.code, shared in refused.err) == (2, True), str(refused)
        assert "--unique-keys" in refused.err
    assert merge.states() == ["ok"]
    assert merge.run("two", "leaf", *add, "--unique-keys").code == 0
    refused = merge.run("two", "leaf", "change-handler", "t", *few)
    assert (refused.code, shared in refused.err) == (2, True), str(refused)
    assert merge.states() == ["ok", "ok"]
