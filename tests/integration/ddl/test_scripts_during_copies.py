"""A script that names a table during its copy keeps the rows that only this node has."""

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
