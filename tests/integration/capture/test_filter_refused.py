"""Row filters and lists of columns that cannot be right are refused before anything is done."""

from __future__ import annotations

import pytest

from londiste.cascade.model import NodeType
from londiste.handlers.condition import means_the_same
from tests.fixtures.cascade import CommandLine, Node, Nodes
from tests.support.servers.kept_nodes import kept_nodes
from tests.support.suite.slow import first

COLUMNS = "(id int primary key, region text, n numeric, doc jsonb, at timestamptz)"
SCHEMA = f"create table t {COLUMNS}; create table u {COLUMNS}"
FUNCTION = (
    "create function public.f(int) returns boolean language plpgsql {}"
    " as $$ begin return true; end $$"
)


@pytest.fixture
@kept_nodes
def root(nodes_of: Nodes, londiste: CommandLine) -> Node:
    node = nodes_of.root()
    node.db.execute(SCHEMA)
    assert londiste(node.db, "add-table", "t").code == 0
    return node


@pytest.fixture
def leaf(root: Node, nodes_of: Nodes) -> Node:
    node = nodes_of.below(root, "leaf")
    node.db.execute(SCHEMA)
    return node


#: Conditions, and words of the error.
NONE = [
    ("region = ", "syntax error"),
    ("region", "must be type boolean"),
    ("true) or (true", "syntax error"),
    ("true -- all", "syntax error"),
    ("true; drop table t", "syntax error"),
    ("true); commit; drop table t; select (true", "multiple commands"),
    ("nope = 1", "does not exist"),
    ("at > now()", "IMMUTABLE"),
    ("n > (select 1)", "subquery"),
    ("count(*) > 1", "aggregate"),
    ("n = $1", "no parameter"),
    ("t.n = 1", "missing FROM-clause"),
]


def test_what_is_no_condition_is_refused(leaf: Node, londiste: CommandLine) -> None:
    for where, words in NONE:
        done = londiste(leaf.db, "add-table", "t", "--where", where)
        assert done.code == 2, str(done)
        assert words.lower() in done.err.lower(), str(done)
        assert "hint:" in done.err, str(done)
        assert "Traceback" not in done.err, str(done)
        assert leaf.db.value("select count(*) from londiste.table_info where local") == 0


@pytest.mark.parametrize("option", first(["--create", "--create-full"]))
def test_what_is_no_condition_is_refused_for_a_table_that_would_be_created(
    root: Node, nodes_of: Nodes, londiste: CommandLine, option: str
) -> None:
    leaf = nodes_of.below(root, "leaf")
    for where, words in (
        ("random() < 0.5", "IMMUTABLE"),
        ("at > now()", "IMMUTABLE"),
        ("region = current_user", "IMMUTABLE"),
        ("region = current_setting('TimeZone')", "IMMUTABLE"),
        ("to_tsvector(region) @@ to_tsquery('cat')", "IMMUTABLE"),
        ("true) or (true", "syntax error"),
    ):
        done = londiste(leaf.db, "add-table", "t", "--where", where, option, "--dry-run")
        assert done.code == 2, str(done)
        assert words.lower() in done.err.lower(), where
        done = londiste(leaf.db, "add-table", "t", "--where", where, option)
        assert done.code == 2, str(done)
        assert leaf.db.value("select to_regclass('public.t') is null") is True, where


def test_functions_of_the_node_are_checked_where_the_table_is_created(
    root: Node, nodes_of: Nodes, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(root, "leaf")
    root.db.execute(FUNCTION.format("immutable"))
    leaf.db.execute(FUNCTION.format("volatile"))
    done = londiste(leaf.db, "add-table", "t", "--where", "public.f(id)", "--create")
    assert done.code == 2, str(done)
    assert "IMMUTABLE" in done.err
    assert leaf.db.value("select to_regclass('public.t') is null") is True


def test_functions_of_the_provider_are_checked_too(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute(FUNCTION.format("stable"))
    leaf.db.execute(FUNCTION.format("immutable"))
    done = londiste(leaf.db, "add-table", "t", "--where", "public.f(id)")
    assert done.code == 2, str(done)
    assert "IMMUTABLE" in done.err


def test_a_created_table_cannot_lack_a_value_that_it_requires(
    root: Node, nodes_of: Nodes, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(root, "leaf")
    root.db.execute("alter table t alter n set not null")
    done = londiste(leaf.db, "add-table", "t", "--skip-columns", "n", "--create")
    assert done.code == 2, str(done)
    assert "column n cannot be excluded" in done.err
    assert "create the table without this column" in done.err


def test_filters_that_do_not_fit_are_refused_with_a_way_out(
    root: Node, leaf: Node, nodes_of: Nodes, londiste: CommandLine
) -> None:
    branch = nodes_of.below(root, "branch", NodeType.BRANCH)
    branch.db.execute(SCHEMA)
    for node, args, words in (
        (root, ("--where", "n = 1"), "cannot exclude rows"),
        (branch, ("--where", "nope = 1"), "does not exist"),
        (leaf, ("--columns", "n"), "primary key"),
        (leaf, ("--columns", "id,nope"), "no such column"),
        (leaf, ("--skip-columns", "region", "--where", "region = 'eu'"), "reads column region"),
        (leaf, ("--columns", "id", "--skip-columns", "n"), "--columns excludes"),
        (leaf, ("--handler", "shart"), "unknown handler shart"),
        (leaf, ("--handler", "nop", "--handler-arg", "x=1"), "no option x"),
    ):
        done = londiste(node.db, "add-table", "t", *args)
        assert done.code == 2, str(done)
        assert words in done.err
        assert "hint:" in done.err
    done = londiste(root.db, "add-table", "u", "--trigger-arg", "ignore=nope doc")
    assert done.code == 0
    assert "table public.u: ignore= names nope, which it does not have" in str(done)
    done = londiste(leaf.db, "add-table", "u", "--where", "n = 1")
    assert done.code == 2
    assert "--skip-columns doc" in done.err
    assert (
        londiste(leaf.db, "add-table", "u", "--where", "n = 1", "--skip-columns", "doc").code == 0
    )


def test_a_filter_over_what_the_root_generates_is_refused(
    root: Node, leaf: Node, londiste: CommandLine
) -> None:
    root.db.execute(
        "create table g (id int primary key, h int generated always as (id * 2) stored)"
    )
    assert londiste(root.db, "add-table", "g").code == 0
    leaf.db.execute("create table g (id int primary key, h int)")
    done = londiste(leaf.db, "add-table", "g", "--where", "h > 4")
    assert done.code == 2, str(done)
    assert "reads column h, which is generated on the provider" in done.err
    assert londiste(leaf.db, "add-table", "g", "--where", "id * 2 > 4").code == 0


#: Type on the root, type on the node, whether a filter over the column is refused.
TYPES = [
    ("int", "numeric", True),
    ("numeric", "numeric(9,2)", True),
    ("numeric(5,2)", "numeric(9,2)", False),
    ("timestamp", "timestamptz", True),
    ("timestamp(3)", "timestamp", True),
    ("text", "char(8)", True),
    ("text", "varchar(8)", False),
    ("int", "bigint", False),
    ("text[]", "varchar(8)[]", True),
]


@pytest.mark.parametrize(("there", "here", "refused"), TYPES)
def test_a_filter_over_another_type_is_refused(there: str, here: str, refused: bool) -> None:
    assert means_the_same(*map(_in_full, (there, here))) is not refused


def _in_full(text: str) -> str:
    names = {"int": "integer", "varchar": "character varying", "char": "character"}
    name, bracket, rest = text.partition("(")
    return names.get(name, name) + bracket + rest


def test_a_filter_over_columns_of_other_types_names_the_column(
    root: Node, nodes_of: Nodes, londiste: CommandLine
) -> None:
    leaf = nodes_of.below(root, "leaf")
    other = COLUMNS.replace("region text", "region varchar(9)").replace("n numeric", "n int")
    leaf.db.execute(f"create table t {other}")
    shard = ["--handler", "shard", "--handler-arg", "key=n"]
    shard += ["--handler-arg", "nr=0", "--handler-arg", "count=2"]
    for args in (["--where", "n / 2 = 1"], shard):
        done = londiste(leaf.db, "add-table", "t", *args)
        assert done.code == 2, str(done)
        assert "reads column n, which is integer here and numeric at" in done.err
        assert 'hint: alter table "public"."t" alter "n" type numeric; or filter' in done.err
    assert londiste(leaf.db, "add-table", "t", "--where", "region = 'eu'").code == 0
