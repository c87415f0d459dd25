"""Copies from a node further up than the provider, which passes a table on and keeps none."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from londiste.cascade.model import NodeType
from londiste.replication.forwarding.upstream_filters import held_above
from tests.fixtures.cascade import CommandLine, Nodes
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.support.suite.slow import first

SCHEMA = "create table a (id int8 primary key, v text)"
ROWS = "select id, v from a order by id"

POINTS = [
    "copy.registered",
    "copy.prepared",
    "copy.all-chunks",
    "copy.mid-catch-up",
    "copy.wanna-sync",
    "copy.before-ok",
]
QUICK = {"copy.all-chunks"}


@pytest.fixture
def leaf(line: Line) -> LineNode:
    """root, branch without the table, leaf below it that has it from nobody yet."""
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    root.database.execute("insert into a select i, 'old' from generate_series(1, 3000) i")
    line.add(root, "public.a")
    # Transaction ids far from the root's: a snapshot of one says nothing about the other.
    branch = line.node("branch", NodeType.BRANCH, root)
    branch.database.execute(
        "do $$ begin for i in 1..3000 loop perform txid_current(); commit; end loop; end $$"
    )
    line.start(branch)
    line.wait_position(branch, line.tick())
    return line.node("leaf", NodeType.LEAF, branch)


def write(line: Line, number: int) -> None:
    root = line.nodes["root"]
    root.database.execute("update a set v = %s where id %% 10 = %s", f"new {number}", number % 10)
    root.database.execute("insert into a values (%s, 'fresh')", 10_000 + number)
    root.database.execute("delete from a where id = %s", number)
    line.tick()


@pytest.mark.parametrize(
    "point", [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in POINTS]
)
@pytest.mark.parametrize("mode", ["snapshot", pytest.param("resumable", marks=pytest.mark.slow)])
def test_a_copy_from_the_root_is_exact_below_a_branch_without_the_table(
    line: Line, leaf: LineNode, tmp_path: Path, point: str, mode: str
) -> None:
    root, branch = line.nodes["root"], line.nodes["branch"]
    line.configure(leaf, copy_chunk_bytes=1 << 16)
    done = line.here(leaf, "add-table", "a", "--create", "--find-copy-node", "--copy-mode", mode)
    assert done.code == 0, str(done)
    mark = tmp_path / "crashed"
    line.start(leaf, LONDISTE_CRASH=point, LONDISTE_CRASH_MARK=str(mark))
    number = 0

    def ok() -> bool:
        nonlocal number
        number += 1
        write(line, number)
        return leaf.database.value("select merge_state from londiste.table_info") == "ok"

    line.wait(ok, "the table to be ok", 90)
    # A copy that is done before the next tick has nothing to catch up with.
    assert mark.exists() or point == "copy.mid-catch-up"
    for _ in range(5):
        number += 1
        write(line, number)
    last = line.tick()
    line.wait_position(branch, last)
    line.wait_position(leaf, last)
    assert leaf.database.execute(ROWS) == root.database.execute(ROWS)
    left = "select consumer_name from pgq.get_consumer_info() where consumer_name like '%%.copy.%%'"
    line.wait(lambda: not root.database.execute(left), "the consumer to be gone from the root")
    assert not branch.database.execute(left)
    assert leaf.database.value("select custom_snapshot from londiste.table_info") is None
    # Again, by name.
    assert line.here(leaf, "resync", "a", "--copy-node", "root").code == 0
    line.wait(ok, "the table to be ok again", 60)
    assert "copy_node=root" in line.here(leaf, "tables").out
    line.wait_position(leaf, line.tick())
    assert leaf.database.execute(ROWS) == root.database.execute(ROWS)
    for node in (branch, leaf):
        assert node.worker is not None and node.worker.stop() == 0


def test_a_snapshot_of_another_database_hides_nothing(line: Line, leaf: LineNode) -> None:
    """A worker of another program leaves one; the main worker must not filter by it."""
    root, branch = line.nodes["root"], line.nodes["branch"]
    assert line.here(leaf, "add-table", "a", "--create", "--find-copy-node").code == 0
    line.start(leaf)

    def ok() -> bool:
        line.tick()
        return leaf.database.value("select merge_state from londiste.table_info") == "ok"

    line.wait(ok, "the table to be ok", 60)
    assert leaf.worker is not None and leaf.worker.stop() == 0
    # All transactions of the branch are seen by it.
    leaf.database.execute("update londiste.table_info set custom_snapshot = '99999999:99999999:'")
    write(line, 1)
    last = line.tick()
    line.wait_position(branch, last)
    line.start(leaf)
    line.wait_position(leaf, last)
    assert leaf.database.execute(ROWS) == root.database.execute(ROWS)
    assert branch.worker is not None and branch.worker.stop() == 0
    assert leaf.worker.stop() == 0


def test_a_node_that_cannot_be_copied_from_is_refused(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    root.db.execute("create table a (id int primary key); create table b (id int primary key)")
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    other = nodes_of.below(root, "other", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    with psycopg.connect(root.dsn, autocommit=True) as conn:
        conn.execute("select londiste.global_add_table('q', 'b')")
    assert londiste(root.db, "add-table", "a").code == 0

    def refused(*options: str) -> str:
        answer = londiste(leaf.db, "add-table", *options)
        assert answer.code != 0
        assert "hint:" in answer.err
        assert "Traceback" not in answer.err
        assert leaf.db.value("select to_regclass('a') is null")
        return answer.err

    assert londiste(branch.db, "add-table", "a", "--expect-sync", "--ignore-missing").code == 2
    nodes_of.sites.at(leaf.dsn).execute("select londiste.global_add_table('q', 'a')")
    nodes_of.sites.at(branch.dsn).execute("select londiste.global_add_table('q', 'a')")
    why = "node branch does not have table public.a"
    answer = refused("a", "--create")
    assert why in answer and "--find-copy-node" in answer
    # All of them: each that cannot be copied is named, and with nothing else nothing is waited for.
    answer = londiste(leaf.db, "add-table", "--all", "--create")
    assert answer.code == 0
    assert f"{why}, skipped" in answer.err and "--find-copy-node" in answer.err
    assert "nothing to add" in answer.err
    answer = londiste(leaf.db, "add-table", "--all", "--create", "--wait-sync")
    assert answer.code == 4 and "no table is replicated" in answer.err
    (row,) = londiste(leaf.db, "missing", "--json").json["missing"]
    assert row["why"] == f"{why}: londiste add-table public.a --find-copy-node"
    assert "not between this node and the root" in refused("a", "--create", "--copy-node", "other")
    assert "does not have the rows" in refused("a", "--create", "--copy-node", "branch")
    assert "give one of the two" in refused("a", "--copy-node", "root", "--find-copy-node")
    assert "not the name of a node" in refused("a", "--copy-node", "?")
    assert "on the root" in londiste(root.db, "add-table", "b", "--find-copy-node").err
    answer = londiste(leaf.db, "add-table", "a", "--create", "--copy-node", "root", "--dry-run")
    assert "create table public.a and add table public.a (copy_node=root)" in answer.out
    assert other.db.value("select count(*) from londiste.table_info where local") == 0
    assert QUEUE


DISPATCH = ("--handler", "dispatch", "--handler-arg", "table_mode=direct", "--handler-arg")
OTHER_ROWS = [
    ((*DISPATCH, "event_types=I"), "it writes I events only"),
    ((*DISPATCH, "row_mode=keep_all"), "it stores every version of a row"),
    (("--handler", "nop"), "stores no rows"),
    ((*DISPATCH, "skip_fields=v"), "excludes columns"),
]


@pytest.mark.parametrize("turn", first([0, 1]))
def test_a_branch_whose_rows_are_not_those_of_its_events_is_no_source(
    nodes_of: Nodes, londiste: CommandLine, turn: int
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    for node in (root, branch, leaf):
        node.db.execute(SCHEMA)
    assert londiste(root.db, "add-table", "a").code == 0
    ok = "update londiste.table_info set merge_state = 'ok'"
    where = "select table_attrs from londiste.table_info"
    # The branch keeps its rows: the leaf is added and copied from it.
    for options in ((), (*DISPATCH, "row_mode=keep_latest")):
        assert londiste(branch.db, "add-table", "a", *options).code == 0
        branch.db.execute(ok)
        assert londiste(leaf.db, "add-table", "a").code == 0
        assert londiste(leaf.db, "remove-table", "a").code == 0
        assert londiste(branch.db, "remove-table", "a").code == 0
    for options, why in OTHER_ROWS[turn::2]:
        assert londiste(branch.db, "add-table", "a", *options).code == 0
        branch.db.execute(ok)
        # Its events go through it unchanged.
        assert not held_above(nodes_of.sites, "q", branch.dsn)
        refused = londiste(leaf.db, "add-table", "a")
        assert refused.code == 3 and why in refused.err, str(refused)
        assert "--find-copy-node" in refused.err
        assert londiste(leaf.db, "add-table", "a", "--copy-node", "branch").code == 3
        assert londiste(leaf.db, "add-table", "a", "--expect-sync").code == 0
        leaf.db.execute(ok)
        refused = londiste(leaf.db, "resync", "a")
        assert refused.code == 3 and why in refused.err, str(refused)
        assert "hint: londiste resync public.a --find-copy-node" in refused.err
        assert leaf.db.value("select merge_state from londiste.table_info") == "ok"
        assert londiste(leaf.db, "change-handler", "a", "--where", "id > 1").code == 3
        assert londiste(leaf.db, "resync", "a", "--find-copy-node").code == 0
        assert leaf.db.value(where) == "copy_node=%3F"
        assert londiste(leaf.db, "remove-table", "a").code == 0
        assert londiste(branch.db, "remove-table", "a").code == 0


def test_a_copy_that_a_change_asks_for_passes_a_branch_without_its_rows(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root = nodes_of.root()
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    other = nodes_of.below(root, "other", NodeType.BRANCH)
    leaf = nodes_of.below(branch, "leaf")
    for node in (root, branch, other, leaf):
        node.db.execute(SCHEMA)
        options = ("--where", "id > 1") if node is branch else ()
        options = (*DISPATCH, "event_types=I") if node is other else options
        assert londiste(node.db, "add-table", "a", *options).code == 0
        node.db.execute("update londiste.table_info set merge_state = 'ok'")
    told = "leaf: copy table public.a again from the nearest node that has it"
    to_other = ("change-provider", "--provider", "other", "--dry-run")
    assert londiste(leaf.db, *to_other).code == 3
    assert told in londiste(leaf.db, *to_other, "--allow-resync").out
    # What the branch has excluded comes with the next event, when it stores no rows.
    refused = londiste(branch.db, "change-handler", "a", "--handler", "nop", "--where", "")
    assert refused.code == 3 and "is replicated on node leaf, below" in refused.err, str(refused)
    done = londiste(branch.db, "change-handler", "a", *DISPATCH, "skip_fields=v", "--where", "")
    assert done.code == 0 and told in done.err, str(done)
    assert leaf.db.execute("select merge_state, table_attrs from londiste.table_info") == [
        (None, "copy_node=%3F")
    ]
    # All events pass both branches: only a copy that is under way has to end.
    assert londiste(leaf.db, *to_other).code == 0
    leaf.db.execute("update londiste.table_info set table_attrs = null")
    refused = londiste(leaf.db, *to_other)
    assert refused.code == 3 and "which cannot be copied from other" in refused.err, str(refused)
    assert "londiste resync public.a --find-copy-node" in refused.err


@pytest.mark.slow
def test_a_refused_copy_continues_from_the_node_that_its_hint_finds(
    line: Line, leaf: LineNode
) -> None:
    branch = line.nodes["branch"]
    assert line.here(leaf, "add-table", "a", "--create", "--find-copy-node").code == 0
    assert line.here(branch, "add-table", "a", "--handler", "vtable").code == 0
    leaf.database.execute("update londiste.table_info set table_attrs = null")
    line.start(leaf)
    error = "select cur_error from pgq_node.local_state where cur_error like '%%--find-copy-node'"
    line.wait(lambda: (line.tick(), leaf.database.value(error))[1], "the refusal", 60)
    assert line.here(leaf, "resync", "a", "--find-copy-node").code == 0
    state = "select merge_state = 'ok' from londiste.table_info"
    line.wait(lambda: (line.tick(), leaf.database.value(state))[1], "the table to be ok", 60)
    assert leaf.database.execute(ROWS) == line.nodes["root"].database.execute(ROWS)
