"""Columns too narrow for the provider's values are reported when the table is added."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line


def test_narrower_columns_are_named_and_added_all_the_same(line: Line) -> None:
    root = line.node(
        "root",
        NodeType.ROOT,
        schema="create table t (id int8 primary key, a varchar(20), b text, c numeric(10, 2),"
        " d timestamptz, same varchar(3), wider int, dropped text, sum numeric)",
    )
    leaf = line.node(
        "leaf",
        NodeType.LEAF,
        root,
        schema="create table copy_of_t (id int primary key, a varchar(10), b text, c numeric(9, 1),"
        " d timestamptz(0), same varchar(3), wider int8, dropped varchar(1), sum numeric)",
    )
    line.add(root, "t")
    args = ("add-table", "t", "--dest-table", "copy_of_t", "--skip-columns", "dropped")
    for more in (("--dry-run",), ()):
        done = line.run(leaf, *args, *more)
        assert done.code == 0, str(done)
        told = [text for text in done.err.splitlines() if "warning: " in text]
        assert len(told) == 4, str(done)
        for column, what in (
            ("id is integer here and bigint", "blocks the worker"),
            ("a is character varying(10) here and character varying(20)", "blocks the worker"),
            ("c is numeric(9,1) here and numeric(10,2)", "rounded"),
            ("d is timestamp(0) with time zone here and timestamp with time zone", "rounded"),
        ):
            (found,) = [text for text in told if f"column {column} on node root" in text]
            assert what in found


def test_whole_row_wants_a_trigger_that_tells_the_old_row(line: Line) -> None:
    root = line.node(
        "root", NodeType.ROOT, schema="create table t (v text); create table k (id int primary key)"
    )
    for option, letter in (("--trigger", "logutriga"), ("--trigger-flags", "J")):
        done = line.run(root, "add-table", "t", "--whole-row", option, letter)
        assert done.code == 2, str(done)
        assert "does not work with a compatible trigger" in done.err
        assert "--trigger capture" in done.err
    assert root.database.value("select count(*) from londiste.table_info") == 0
    # Of a table with a key the option says nothing.
    done = line.run(root, "add-table", "k", "--whole-row", "--trigger", "logutriga")
    assert done.code == 0, str(done)
    root.database.execute("insert into t select i from generate_series(1, 200000) i; analyze t")
    done = line.run(root, "add-table", "t", "--whole-row")
    assert done.code == 0, str(done)
    assert "table public.t: about 200000 rows" in done.err
