"""``add-table --where``: a leaf has the rows of the root for which the condition is true."""

from __future__ import annotations

from typing import Any

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line, LineNode
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import first

SCHEMA = """
create table t (
    id int primary key, region text, n numeric unique, doc jsonb, "Odd name" text,
    at timestamptz not null default '2026-01-01'
);
"""
WHERE = "region = 'eu' and (doc->>'gone') is null and \"Odd name\" is distinct from 'no'"
ROWS = "select t::text from t {} order by id"


def here(node: LineNode) -> list[Any]:
    return node.database.execute(ROWS.format(""))


def wanted(root: LineNode, where: str = WHERE) -> list[Any]:
    return root.database.execute(ROWS.format(f"where {where}"))


@pytest.fixture
@kept_nodes
def nodes(line: Line) -> tuple[LineNode, LineNode]:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA, parallel_apply_min_events=2500)
    line.add(root, "t", form="row")
    root.database.execute(
        "insert into t select i, (array['eu', 'us', null])[i % 3 + 1], i, '{}' "
        "from generate_series(1, 300) i"
    )
    return root, leaf


def add(line: Line, leaf: LineNode, *args: str) -> None:
    done = line.here(leaf, "add-table", "t", *args)
    assert done.code == 0, str(done)


def in_step(line: Line, leaf: LineNode) -> None:
    line.start(leaf)
    line.wait(
        lambda: (
            line.tick(),
            leaf.database.value("select merge_state from londiste.table_info where local") == "ok",
        )[1],
        "the table in step",
    )
    line.wait_position(leaf, line.tick())


@pytest.mark.parametrize("mode", first(["resumable", "snapshot"]))
def test_rows_enter_and_leave_the_filter(
    line: Line, nodes: tuple[LineNode, LineNode], mode: str
) -> None:
    root, leaf = nodes
    add(line, leaf, "--where", WHERE, "--copy-mode", mode)
    in_step(line, leaf)
    assert here(leaf) == wanted(root) != []
    root.database.execute("update t set region = 'eu' where id in (1, 4)")
    root.database.execute("update t set region = 'us' where id in (3, 6)")
    root.database.execute("update t set doc = '{\"gone\": 1}' where id = 9")
    root.database.execute("update t set \"Odd name\" = 'no' where id = 12")
    root.database.execute("update t set id = 1000 + id where id in (15, 16)")
    root.database.execute("delete from t where id in (18, 19)")
    root.database.execute("insert into t values (2001, 'eu', 2001), (2002, 'us', 2002)")
    # A unique value goes from a row that leaves to one that enters.
    root.database.execute(
        "update t set n = -1 where id = 21; update t set region = 'us' where id = 21;"
        "update t set n = 21, region = 'eu' where id = 22"
    )
    line.wait_position(leaf, line.tick())
    assert here(leaf) == wanted(root)
    # Enough new rows for COPY, and then for tasks.
    new = "insert into t select i, case when i % 2 = 0 then 'eu' end, i from generate_series({}) i"
    for more in ("3000, 5000", "6000, 9000"):
        root.database.execute(new.format(more))
        line.wait_position(leaf, line.tick())
        assert here(leaf) == wanted(root)
    root.database.execute("update t set region = case when id % 3 = 0 then 'eu' else 'us' end")
    line.wait_position(leaf, line.tick())
    assert here(leaf) == wanted(root)
    assert leaf.database.value("select way from londiste.get_large_batch('line')") == "job"
    assert line.here(leaf, "compare").code == 0
    root.database.execute("truncate t; insert into t values (1, 'eu', 1), (2, 'us', 2)")
    line.wait_position(leaf, line.tick())
    assert here(leaf) == wanted(root)
    leaf.database.execute("set session_replication_role = replica; insert into t values (5, 'us')")
    assert line.here(leaf, "compare").code == 3


def test_columns_that_are_left_out_stay_this_nodes_own(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    leaf.database.execute(
        "alter table t drop column doc; alter table t alter region set default 'mine'"
    )
    add(line, leaf, "--columns", "id,n")
    in_step(line, leaf)
    leaf.database.execute(
        "set session_replication_role = replica; update t set region = 'own' where id = 5"
    )
    root.database.execute("update t set n = -5, region = 'eu' where id = 5")
    root.database.execute("insert into t (id, n, region, doc) values (999, 999, 'eu', '{}')")
    root.database.execute("update t set region = 'us' where id = 6")
    line.wait_position(leaf, line.tick())
    rows = leaf.database.execute("select id, n, region from t where id in (5, 6, 999) order by id")
    assert rows == [(5, -5, "own"), (6, 6, "mine"), (999, 999, "mine")]
    assert line.here(leaf, "compare").code == 0
    assert line.here(leaf, "resync", "t").code == 0
    in_step(line, leaf)
    assert line.here(leaf, "compare").code == 0


def test_a_filtered_table_is_made_and_filled_by_one_command(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    leaf.database.execute("drop table t")
    done = line.here(leaf, "add-table", "t", "--create", "--where", "n > now()::text::numeric")
    assert done.code == 2
    assert leaf.database.value("select to_regclass('public.t')") is None
    add(line, leaf, "--create", "--where", "n > 100", "--dest-table", "big")
    in_step(line, leaf)
    assert leaf.database.execute("select t::text from big t order by id") == wanted(root, "n > 100")
    assert line.here(leaf, "compare").code == 0
    shown = line.here(leaf, "tables")
    assert "where=n > 100" in shown.out


def test_events_that_do_not_tell_whole_rows_stop_the_worker(
    line: Line, nodes: tuple[LineNode, LineNode]
) -> None:
    root, leaf = nodes
    line.here(root, "remove-table", "t")
    line.add(root, "t", trigger="sqltriga")
    # The leaf hears that the table was removed before it is added there.
    line.tick()
    line.once(leaf)
    done = line.here(leaf, "add-table", "t", "--where", "region = 'eu'")
    assert done.code == 0, str(done)
    assert "stops node leaf; on the root: londiste change-form public.t --trigger" in done.err
    in_step(line, leaf)
    withheld = "select count(*) from t where region is distinct from 'eu'"
    root.database.execute("update t set region = 'eu' where id = 2")
    line.tick()
    line.wait(lambda: "row image" in (line.error(leaf) or ""), "the error of the worker")
    # The remedy as printed: each command where it says, the filter remains.
    remedy = (
        "on the root: londiste change-form public.t --trigger capture; then on node leaf: londiste"
        " resync public.t"
    )
    assert f"do:  {remedy}\n" in line.here(leaf, "check").out
    assert line.here(root, "change-form", "public.t", "--trigger", "capture").code == 0
    assert line.here(leaf, "resync", "public.t").code == 0
    in_step(line, leaf)
    assert leaf.database.value(withheld) == 0
    assert here(leaf) == wanted(root, "region = 'eu'")
    done = line.here(leaf, "change-handler", "t", "--where", "region = 'us'")
    assert done.code == 0 and "change-form" not in done.err, str(done)


def test_a_handler_of_the_users_own_and_back(line: Line, nodes: tuple[LineNode, LineNode]) -> None:
    root, leaf = nodes
    assert line.run(leaf, "add-table", "t", "--handler", "region").code == 2
    line.configure(leaf, handler_modules=["tests.integration.capture.region_handler"])
    shown = line.run(leaf, "show-handlers", "region")
    assert "name = a text (required): the region whose rows are kept" in shown.out
    added = ("add-table", "t", "--handler", "region", "--handler-arg", "name=us")
    assert line.run(leaf, *added).code == 0
    in_step(line, leaf)
    root.database.execute("update t set region = 'us' where id = 2")
    line.wait_position(leaf, line.tick())
    ids = "select id from t {} order by id"
    assert leaf.database.execute(ids.format("")) == root.database.execute(
        ids.format("where region = 'us'")
    )
    assert line.run(leaf, "compare").code == 0
    done = line.run(leaf, "change-handler", "t")
    assert done.code == 0, str(done)
    in_step(line, leaf)
    assert here(leaf) == wanted(root, "true")
    done = line.run(leaf, "change-handler", "t")
    assert "nothing to do" in done.err
