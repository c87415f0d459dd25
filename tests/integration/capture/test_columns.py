"""Tables that were changed by hand: columns that a node lacks, and tables with another name."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.support.servers.kept_nodes import kept_nodes

MORE = "alter table t " + ", ".join(
    f"add column c{i} {kind}"
    for i, kind in enumerate(
        ["int", "varchar(7)", "numeric(8,2) default 3", "mood", "timestamptz", "text[]", "jsonb"]
    )
)


@pytest.fixture
@kept_nodes
def pair(nodes_of: Nodes, londiste: CommandLine) -> tuple[Node, Node]:
    root = nodes_of.root()
    below = nodes_of.below(root, "branch", NodeType.BRANCH)
    for node in (root, below):
        node.db.execute(
            "create type mood as enum ('good', 'bad');"
            "create table t (id int primary key, v text); create table u (id int primary key)"
        )
    assert londiste(root.db, "add-table", "t", "u").code == 0
    assert londiste(below.db, "add-table", "t", "u", "--expect-sync").code == 0
    return root, below


def run_worker(node: Node, londiste: CommandLine) -> str:
    return londiste(node.db, "--set", f"job_name={node.worker}", "worker", "--once").err


def test_all_columns_that_are_missing_are_named_and_added_by_one_command(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, below = pair
    root.db.execute(MORE)
    root.db.execute("alter table t add column twice int generated always as (id * 2) stored")
    below.db.execute("alter table t add column mine oid; alter table u alter id type bigint")
    shown = londiste(below.db, "columns", "--json")
    assert shown.code == 3
    states = {(row["table"], row["column"]): row["state"] for row in shown.json["columns"]}
    assert states == {
        **{("public.t", name): "missing here" for name in [f"c{i}" for i in range(7)] + ["twice"]},
        ("public.t", "mine"): "here alone",
        ("public.u", "id"): "other type",
    }
    explained = londiste(below.db, "columns", "--dry-run")
    assert explained.code == 0
    assert "add columns c0, c1, c2, c3, c4, c5, c6, twice to table public.t" in explained.out
    done = londiste(below.db, "columns", "t", "--add")
    assert done.code == 0, done.err
    assert "londiste compare public.t" in done.err
    types = (
        "select attname::text, format_type(atttypid, atttypmod), attgenerated::text"
        " from pg_attribute where attrelid = 't'::regclass and attname ~ '^(c|tw)' order by 1"
    )
    assert below.db.execute(types) == root.db.execute(types)
    # The capture knows them, too.
    assert below.db.execute("select * from londiste.stale_captures(%s)", QUEUE) == []
    # Until they are compared, nobody takes its old rows for equal.
    changed = "select table_name from londiste.rewritten_tables(%s)"
    assert ("public.t",) in below.db.execute(changed, QUEUE)
    assert londiste(below.db, "columns", "t", "--add").code == 0
    assert londiste(root.db, "columns").code == 3
    assert "has no provider" in londiste(root.db, "columns").err
    assert londiste(below.db, "columns", "nope").code == 2


def test_a_column_that_was_renamed_on_the_provider_keeps_its_values_here(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, below = pair
    root.db.execute("insert into t values (1, 'kept')")
    root.tick()
    run_worker(below, londiste)
    root.db.execute("alter table t rename column v to \"New v\"; insert into t values (2, 'new')")
    root.tick()
    assert "londiste columns public.t --add" in run_worker(below, londiste)
    refused = londiste(below.db, "columns", "public.t", "--add")
    assert refused.code == 3
    assert "column New v of node root may be column v of node branch, renamed" in refused.err
    renamed, _, added = refused.err.partition("if it was renamed: ")[2].partition(
        "; if it is new: "
    )
    assert londiste(below.db, "columns", "--ignore-renames").code == 2
    words = added.split()
    assert words[:2] == ["londiste", "columns"] and words[-1] == "--ignore-renames"
    shown = londiste(below.db, *words[1:], "--dry-run")
    assert 'alter table "public"."t" add column "New v" text;' in shown.out, str(shown)
    below.db.execute(renamed)
    assert londiste(below.db, "columns", "public.t").code == 0
    run_worker(below, londiste)
    assert below.db.execute("select * from t order by 1") == [(1, "kept"), (2, "new")]


def test_the_first_stop_names_all_missing_columns_and_the_command(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, below = pair
    root.db.execute(MORE)
    root.db.execute("insert into t (id, c0) values (1, 5)")
    root.tick()
    error = run_worker(below, londiste)
    assert "the table has no columns c0, c1, c2, c3, c4, c5, c6" in error
    assert "londiste columns public.t --add" in error
    assert londiste(below.db, "columns", "public.t", "--add").code == 0
    run_worker(below, londiste)
    assert below.db.execute("select id, c0, c2 from t") == root.db.execute(
        "select id, c0, c2 from t"
    )


@pytest.mark.slow
def test_a_renamed_table_is_known_by_its_new_name_and_the_advice_works(
    pair: tuple[Node, Node], londiste: CommandLine
) -> None:
    root, below = pair
    root.db.execute("alter table t rename to page")
    root.db.execute("insert into page values (1, 'one')")
    found = londiste(root.db, "check", "--json").json["findings"]
    (one,) = [f for f in found if f["severity"] == "critical"]
    assert one["what"] == "table public.t: it was renamed to public.page"
    rows = londiste(root.db, "triggers", "t", "--json").json["triggers"]
    assert [row["state"] for row in rows] == ["renamed"]
    assert rows[0]["do"] in one["do"]
    restored = londiste(root.db, "triggers", "--restore")
    assert restored.code == 0
    assert "was renamed to public.page" in restored.err
    assert "was renamed to public.page" in londiste(root.db, "status").out
    # Its rows come under the old name until then.
    root.tick()
    run_worker(below, londiste)
    assert below.db.execute("select * from t") == [(1, "one")]
    # The first way.
    back, _, keep = one["do"].partition("; or keep the new name: ")
    root.db.execute(back)
    assert londiste(root.db, "check").code == 0
    # The second one.
    root.db.execute("alter table t rename to page")
    assert "londiste remove-table public.t, londiste add-table public.page" in keep
    assert londiste(root.db, "remove-table", "public.t").code == 0
    assert londiste(root.db, "add-table", "public.page").code == 0
    root.tick()
    run_worker(below, londiste)
    below.db.execute("alter table t rename to page")
    assert londiste(below.db, "add-table", "public.page", "--expect-sync").code == 0
    root.db.execute("insert into page values (2, 'two')")
    root.tick()
    run_worker(below, londiste)
    assert below.db.execute("select * from page order by 1") == [(1, "one"), (2, "two")]
    assert londiste(root.db, "check").code == 0


def test_columns_of_filtered_tables_are_compared_and_check_names_those_of_the_filter(
    pair: tuple[Node, Node], nodes_of: Nodes, londiste: CommandLine
) -> None:
    root, _ = pair
    tables = "create table f (id int primary key, a numeric(5,2), b int, c int);"
    root.db.execute(tables)
    leaf = nodes_of.below(root, "leaf")
    leaf.db.execute(tables)
    assert londiste(root.db, "add-table", "f").code == 0
    added = ("f", "--expect-sync", "--where", "a < 1.24", "--skip-columns", "c")
    assert londiste(leaf.db, "add-table", *added).code == 0
    assert londiste(leaf.db, "columns", "f").code == 0
    assert "filter-types" not in londiste(leaf.db, "check", "--all-nodes", "--json").out
    root.db.execute(
        "alter table f alter a type numeric, alter b type bigint, alter c type text, add d int"
    )
    shown = londiste(leaf.db, "columns", "f", "--json")
    assert shown.code == 3, str(shown)
    assert {(row["column"], row["state"]) for row in shown.json["columns"]} == {
        ("a", "other type"),
        ("b", "other type"),
        ("d", "missing here"),
    }
    checked = londiste(leaf.db, "check", "--all-nodes", "--json")
    assert "filter-types" in checked.out
    assert "the filter of table public.f reads column a" in checked.out
    assert "column b is integer, not bigint" in str(checked)


def test_columns_and_add_table_name_types_that_drop_parts_of_values(
    pair: tuple[Node, Node], nodes_of: Nodes, londiste: CommandLine
) -> None:
    root, _ = pair
    leaf = nodes_of.below(root, "leaf")
    root.db.execute("create table l (id int primary key, a text, b timestamp)")
    leaf.db.execute("create table l (id int primary key, a name, b date)")
    assert londiste(root.db, "add-table", "l").code == 0
    done = londiste(leaf.db, "add-table", "l", "--expect-sync")
    assert done.code == 0, str(done)
    shown = londiste(leaf.db, "columns", "l")
    assert shown.code == 3
    for answer in (done, shown):
        assert "column a is name here and text on" in answer.err
        assert "cut at 63 bytes" in answer.err
        assert "the time of day is dropped without a message" in answer.err


def test_columns_names_tables_that_it_cannot_compare(
    pair: tuple[Node, Node], nodes_of: Nodes, londiste: CommandLine
) -> None:
    root, _ = pair
    leaf = nodes_of.below(root, "leaf")
    leaf.db.execute("create table t (id int primary key, v text)")
    assert londiste(leaf.db, "add-table", "t", "--handler", "nop").code == 0
    shown = londiste(leaf.db, "columns", "t")
    assert "table public.t was not compared" in shown.err
    assert "no table was compared" in str(shown)
    assert "no column differs" not in str(shown)
