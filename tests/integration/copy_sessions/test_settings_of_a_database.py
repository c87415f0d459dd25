"""Settings of a database change neither the rows that a copy reads nor those that compare reads."""

from __future__ import annotations

from londiste.cascade.model import NodeType
from tests.fixtures.line import Line

SCHEMA = "create table t (id int primary key, tags int[])"
#: A search that returns some of the rows only, and a planner that chooses the index.
FUZZY = {
    "gin_fuzzy_search_limit": "100",
    "enable_seqscan": "off",
    "enable_indexscan": "off",
}


def test_a_filtered_copy_and_compare_read_all_rows_of_a_gin_index(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    root.database.execute(
        "insert into t select i, array[1, i] from generate_series(1, 20000) i;"
        "create index on t using gin (tags); analyze t"
    )
    for name, value in FUZZY.items():
        root.database.execute(
            "do $$ begin execute format('alter database %I set"
            f" {name} = {value}', current_database()); end $$"
        )
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    line.add(root, "t")
    done = line.here(leaf, "add-table", "t", "--where", "tags @> array[1]")
    assert done.code == 0, str(done)
    line.start(leaf)
    line.wait(
        lambda: (
            line.tick(),
            leaf.database.value("select merge_state from londiste.table_info where local") == "ok",
        )[1],
        "the table in step",
    )
    assert leaf.database.value("select count(*) from t") == 20000
    line.wait_position(leaf, line.tick())
    done = line.here(leaf, "compare", "t")
    assert done.code == 0, str(done)
