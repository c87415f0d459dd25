"""Scripts that name or change a table during its copy."""

from __future__ import annotations

import sys

import pytest

from tests.fixtures.scripts import Tree
from tests.integration.ddl.test_execute import REPLICA, leaf_worker
from tests.support.suite.slow import first

#: As if the copy of t were under way, beside rows that only the leaf has.
BESIDE = (
    "update londiste.table_info set table_attrs = 'skip_truncate=1', merge_state = '{}';"
    " set session_replication_role = replica;"
    " insert into t select g, 'own' from generate_series(101, 105) g"
)


def test_rows_of_the_node_stay_and_those_of_the_copy_go(tree: Tree) -> None:
    leaf = tree.leaf.database
    leaf.execute(BESIDE.format("in-copy"))
    # One transaction is a chunk of an attempt that was interrupted.
    leaf.execute(
        REPLICA + "insert into londiste.copy_attempt (queue_name, table_name, attempt)"
        " values ('line', 'public.t', 1);"
        " insert into londiste.copy_chunk (queue_name, table_name, attempt, chunk)"
        " values ('line', 'public.t', 1, 0); insert into t values (1, 'copied')"
    )
    tree.fine("a.sql", "alter table t add column n int")
    tree.line.tick()
    tree.once(tree.branch)
    with leaf_worker(tree, sys.executable, "-c", "") as worker:
        tree.line.wait(lambda: (worker.unit(), tree.states("a.sql")[2] == "done")[1], "the script")
    assert leaf.execute("select v, count(*) from t group by v") == [("own", 5)]


@pytest.mark.parametrize(
    "script",
    first(
        [
            "do $$ begin execute 'alter table ' || chr(116) || ' add column n int'; end $$",
            "alter table t add column n int",
        ]
    ),
    ids=["hidden", "named"],
)
def test_a_script_stops_where_another_copy_would_double_rows(tree: Tree, script: str) -> None:
    leaf = tree.leaf.database
    leaf.execute(BESIDE.format("catching-up"))
    tree.fine("b.sql", script)
    tree.line.tick()
    tree.once(tree.branch)
    with leaf_worker(tree, sys.executable, "-c", "") as worker:

        def failed() -> bool:
            try:
                worker.unit()
            except Exception:
                return tree.states("b.sql")[2] == "failed"
            return False

        tree.line.wait(failed, "the failure")
    shown = tree.run(tree.leaf, "execute", "status").out
    assert "table public.t was added with --skip-truncate" in shown
    assert leaf.execute("select v, count(*) from t group by v") == [("own", 5)]
    assert leaf.value("select merge_state from londiste.table_info") == "catching-up"


def test_a_table_that_changes_while_it_is_copied_is_copied_again_with_its_new_columns(
    tree: Tree,
) -> None:
    root, leaf = tree.root.database, tree.leaf.database
    root.execute("insert into t select i, 'x' from generate_series(1, 100) i")
    tree.catch_up()
    # As if its copy were under way: its key is taken off, some rows are there.
    leaf.execute(
        REPLICA + "alter table t drop constraint t_pkey; delete from t where id > 10;"
        " update londiste.table_info set merge_state = 'in-copy',"
        " dropped_ddl = 'alter table public.t add constraint t_pkey primary key (id);'"
    )
    tree.fine("n.sql", "alter table t add column n int default 7; update t set n = id")
    tree.line.tick()
    tree.once(tree.branch)
    with leaf_worker(tree, sys.executable, "-c", "") as worker:
        tree.line.wait(lambda: (worker.unit(), tree.states("n.sql")[2] == "done")[1], "the script")
    assert leaf.execute("select count(*), max(n) from t") == [(0, None)]
    assert leaf.value("select dropped_ddl from londiste.table_info") is None
    root.execute("update t set n = 8 where id = 5")
    copy = (sys.executable, "-m", "londiste", "-c", str(tree.leaf.config), "copy")
    with leaf_worker(tree, *copy) as worker:
        # A copy below a branch waits for a tick of the root behind its snapshot.
        tree.line.wait(
            lambda: (
                tree.line.tick(),
                tree.once(tree.branch),
                worker.unit(),
                leaf.value("select merge_state from londiste.table_info") == "ok",
            )[-1],
            "the copy",
            seconds=120,
        )
    assert tree.rows("select count(*), sum(n) from t") == [(100, 5053)]
    assert leaf.value("select count(*) from pg_constraint where conname = 't_pkey'") == 1
