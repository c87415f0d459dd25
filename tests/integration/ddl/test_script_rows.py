"""Rows that a script writes are the same on every node, or the node stops before them."""

from __future__ import annotations

import shlex

import pytest

from londiste.cascade.model import NodeType
from tests.fixtures.line import LineNode
from tests.fixtures.scripts import Tree
from tests.support.suite.slow import first

MAKE = "create table f (id int primary key, region text, v text)"
ROWS = "insert into f values (1, 'eu', 'a'), (2, 'us', 'b'), (3, 'us', 'c')"
EVERY = "select * from f order by id"


def part_of(tree: Tree, *options: str) -> LineNode:
    """A leaf of the root with table f, added with these options, and the rows of the root."""
    node = tree.line.node("part", NodeType.LEAF, tree.root, schema=MAKE, obfuscator_key="k" * 32)
    tree.root.database.execute(MAKE)
    tree.line.add(tree.root, "public.f")
    tree.line.tick()
    tree.once(node)
    done = tree.run(node, "add-table", "f", "--expect-sync", *options)
    assert done.code == 0, str(done)
    tree.root.database.execute(ROWS)
    tree.line.tick()
    tree.once(node)
    return node


def stopped(tree: Tree, node: LineNode, name: str, text: str) -> str:
    """Runs a script on the root; the node must refuse it.  Returns its error."""
    tree.fine(name, text)
    tree.line.tick()
    done = tree.run(node, "worker", "--once")
    assert done.code == 5, str(done)
    assert f"script {name} failed on node {node.name}" in done.err
    return done.err


def commands_of(error: str) -> list[list[str]]:
    """The commands of a hint, as they would be pasted."""
    (hint,) = [line for line in error.splitlines() if line.startswith("hint: ")]
    return [shlex.split(part.split(";")[0].split(", ")[0]) for part in hint.split("londiste ")[1:]]


RULES = {
    "where": (["--where", "region = 'eu'"], "a row filter"),
    "columns": (["--skip-columns", "v"], "some of its columns"),
    "mask": (
        ["--handler", "obfuscate", "--handler-arg", 'rules={"id":"keep","v":"hash"}'],
        "handler obfuscate",
    ),
    "shard": (
        ["--handler", "shard", *(f"--handler-arg={a}" for a in ("key=id", "nr=0", "count=2"))],
        "handler shard",
    ),
    "direct": (["--handler", "direct"], "handler direct"),
    "nop": (["--handler", "nop"], "handler nop"),
}


def parts_of(tree: Tree, options: dict[str, list[str]]) -> LineNode:
    """A leaf of the root with a table like f for each set of options, named by its key."""
    made = "; ".join(MAKE.replace(" f ", f" f_{name} ") for name in options)
    node = tree.line.node("part", NodeType.LEAF, tree.root, schema=made, obfuscator_key="k" * 32)
    tree.root.database.execute(made)
    tree.line.add(tree.root, *(f"public.f_{name}" for name in options))
    tree.line.tick()
    tree.once(node)
    for name, words in options.items():
        done = tree.run(node, "add-table", f"f_{name}", "--expect-sync", *words)
        assert done.code == 0, str(done)
        tree.root.database.execute(ROWS.replace(" f ", f" f_{name} "))
    tree.line.tick()
    tree.once(node)
    return node


def every(node: LineNode, name: str) -> list[tuple[object, ...]]:
    return node.database.execute(EVERY.replace(" f ", f" f_{name} "))


@pytest.mark.parametrize("names", first([["where", "mask", "nop"], ["columns", "shard", "direct"]]))
def test_a_node_with_a_rule_for_rows_stops_before_those_of_a_script_whatever_the_rule_is(
    tree: Tree, names: list[str]
) -> None:
    rules = {name: RULES[name] for name in names}
    node = parts_of(tree, {name: options for name, (options, _) in rules.items()})
    for name, (_, why) in rules.items():
        before = every(node, name)
        error = stopped(tree, node, f"{name}.sql", f"insert into f_{name} values (9, 'us', 'x')")
        assert f"table public.f_{name}" in error
        assert why in error
        assert every(node, name) == before
        assert commands_of(error)[0] == ["execute", "mark-done", f"{name}.sql"]
        assert tree.run(node, "execute", "mark-done", f"{name}.sql").code == 0
    # A script without rows is for this node, too.
    tree.fine(
        "c.sql",
        "; ".join(
            f"alter table f_{name} add column n int default 7; create index on f_{name} (n)"
            for name in rules
        ),
    )
    tree.line.tick()
    tree.once(node)
    columns = "select count(*) from pg_attribute where attname = 'n' and attrelid::regclass::text"
    assert node.database.value(f"{columns} ~ '^f_[a-z]+$'") == len(rules)


def test_the_hint_of_a_filtered_table_leads_to_the_rows_of_the_root(tree: Tree) -> None:
    node = part_of(tree, "--where", "region = 'eu'")
    error = stopped(tree, node, "u.sql", "update f set region = 'eu' where id = 2")
    for words in commands_of(error):
        done = tree.run(node, *words)
        assert done.code == 0, f"{words}: {done}"
    worker = tree.line.start(node)
    state = "select merge_state from londiste.table_info where table_name = 'public.f'"
    tree.line.wait(
        lambda: (tree.line.tick(), node.database.value(state) == "ok")[1], "the copy of f"
    )
    assert worker.stop() == 0
    assert node.database.execute(EVERY) == [(1, "eu", "a"), (2, "eu", "b")]


def test_rows_that_a_foreign_key_or_a_trigger_of_the_root_writes(tree: Tree) -> None:
    for node in tree.nodes:
        node.database.execute(
            "create table p (id int primary key); create table c (id int"
            " primary key, p int); create table log (id int primary key)"
        )
    tree.root.database.execute(
        "alter table c add foreign key (p) references p on delete cascade;"
        " create function note() returns trigger language plpgsql as"
        " $$ begin insert into public.log values (new.id); return null; end $$;"
        " create trigger note after insert on p for each row execute function note()"
    )
    tree.line.add(tree.root, "public.p", "public.c", "public.log")
    tree.catch_up()
    for node in (tree.branch, tree.leaf):
        tree.line.add(node, "public.p", "public.c", "public.log")
    tree.root.database.execute("insert into p values (1), (2); insert into c values (5, 1)")
    tree.catch_up()
    error = stopped(tree, tree.branch, "p.sql", "delete from p where id = 1")
    assert "table public.c" in error
    assert "0 written, 1 removed on the root" in error
    assert "0 written, 0 removed here" in error
    assert tree.branch.database.execute("select * from c") == [(5, 1)]
    tree.branch.database.execute(
        "set session_replication_role = replica; delete from c; delete from p where id = 1"
    )
    assert tree.run(tree.branch, "execute", "mark-done", "p.sql").code == 0
    error = stopped(tree, tree.branch, "t.sql", "insert into p values (3)")
    assert "table public.log" in error


def test_the_same_rows_on_equal_nodes_need_no_decision(tree: Tree) -> None:
    for node in tree.nodes:
        parts = "" if node is tree.branch else " partition by list (r)"
        node.database.execute(f"create table q (id int, r int, v text, primary key (id, r)){parts}")
        if parts:
            for r in range(3):
                node.database.execute(f"create table q_{r} partition of q for values in ({r})")
    tree.line.add(tree.root, "public.q")
    tree.catch_up()
    for node in (tree.branch, tree.leaf):
        tree.line.add(node, "public.q")
    tree.root.database.execute("insert into q select g, g % 3, 'v' from generate_series(1, 9) g")
    tree.root.database.execute("insert into t values (1, 'a'), (2, 'b')")
    tree.fine(
        "m.sql",
        "alter table q add column n int;\nupdate q set n = id;\nupdate q set r = 2 where r = 1;\n"
        "delete from q where id = 9;\ninsert into t values (3, 'c') on conflict do nothing;\n"
        "insert into t values (1, 'x') on conflict (id) do update set v = 'y'",
    )
    tree.fine(
        "e.sql",
        "truncate t;\ninsert into t select id, v from q where id < 4;"
        "\ndo $$ begin update public.t set v = v || '!'; end $$",
    )
    tree.catch_up()
    assert tree.states("m.sql") == tree.states("e.sql") == ["done"] * 3
    assert len(tree.rows("select * from q order by id")) == 8
    assert tree.rows("select * from t order by id") == [(1, "v!"), (2, "v!"), (3, "v!")]


def test_a_script_that_is_skipped_on_a_node_must_have_no_rows_for_it(tree: Tree) -> None:
    tree.root.database.execute("create schema reports; insert into t values (1, 'a')")
    tree.catch_up()
    error = stopped(
        tree, tree.branch, "n.sql", "--*-- Need-Schema: reports\nupdate t set v = 'changed'"
    )
    assert "table public.t" in error


def test_a_script_for_one_node_writes_no_replicated_rows(tree: Tree) -> None:
    tree.root.database.execute("insert into t values (1, 'a')")
    tree.catch_up()
    done = tree.execute("l.sql", "update t set v = 'here'", "--local", node=tree.leaf)
    assert done.code == 5, str(done)
    assert "public.t" in done.err
    assert "psql" in done.err
    assert tree.rows("select v from t") == [("a",)]


def test_counts_are_needed(tree: Tree) -> None:
    tree.root.database.execute(
        'alter database "{}" set track_counts = off'.format(
            tree.root.database.value("select current_database()")
        )
    )
    done = tree.execute("x.sql", "alter table t add column n int")
    assert done.code == 5, str(done)
    assert "track_counts" in done.err


MASKED = [
    "--handler",
    "obfuscate",
    "--handler-arg",
    'rules={"id":"keep","region":"hash","v":"keep"}',
]
RENAMES = {
    "columns": (["--columns", "id,v"], "v"),
    "skip": (["--skip-columns", "region"], "region"),
    "mask": (
        ["--handler", "obfuscate", "--handler-arg", 'rules={"id":"keep","v":"hash"}'],
        "v",
    ),
    "fields": (["--handler", "direct", "--handler-arg", "fields=id,v"], "v"),
}


@pytest.mark.parametrize("names", first([["skip", "mask"], ["columns", "fields"]]))
def test_a_renamed_column_that_a_rule_names_stops_the_node_whatever_the_rule_is(
    tree: Tree, names: list[str]
) -> None:
    rules = {name: RENAMES[name] for name in names}
    node = parts_of(tree, {name: options for name, (options, _) in rules.items()})
    for name, (_, column) in rules.items():
        before = every(node, name)
        text = f"alter table f_{name} rename column {column} to other"
        error = stopped(tree, node, f"{name}.sql", text)
        assert f"it renames or replaces column {column}, which the rule of this node names" in error
        assert "(column other is not named)" in error
        assert every(node, name) == before
        checked = tree.run(tree.root, "check", "--all-nodes")
        wrong = f"table public.f_{name}: its rule names {column}, which node root does not have"
        assert wrong in checked.out
        assert tree.run(node, "execute", "mark-done", f"{name}.sql").code == 0


SWAP = (
    "alter table f rename {0} to tmp; alter table f rename {1} to {0};"
    " alter table f rename tmp to {1}"
)
AGAIN = "alter table f rename {0} to other; alter table f add {0} text"


def refused(tree: Tree, node: LineNode, name: str, text: str, table: str) -> str:
    """The error of a node that a script stops which gives a column of its rule to another one."""
    before = node.database.execute(EVERY.replace(" f ", f" {table} "))
    tree.fine(name, text)
    # The worker must not write this value in clear.
    tree.root.database.execute(f"update {table} set v = 'secret', region = 'secret'")
    tree.line.tick()
    done = tree.run(node, "worker", "--once")
    assert done.code == 5, str(done)
    assert "column" in done.err and "region" in done.err
    assert "which the rule of this node names" in done.err
    assert node.database.execute(EVERY.replace(" f ", f" {table} ")) == before
    return done.err


@pytest.mark.parametrize("text", first([SWAP, AGAIN]), ids=["swap", "again"])
def test_a_name_that_another_column_gets_stops_a_node_with_a_row_filter(
    tree: Tree, text: str
) -> None:
    node = part_of(tree, "--where", "region = 'us'")
    first, second = commands_of(refused(tree, node, "r.sql", text.format("region", "v"), "f"))
    name = "v" if text == SWAP else "other"
    assert first == ["change-handler", "public.f", "--where", f"\"{name}\" = 'us'"]
    assert second == ["execute", "mark-done", "r.sql"]
    node.database.execute("set session_replication_role = replica; " + text.format("region", "v"))
    for words in (first, second):
        assert tree.run(node, *words).code == 0, words


@pytest.mark.parametrize("turn", first([0, 1]))
def test_a_name_that_another_column_gets_stops_a_node_that_masks_or_skips_it(
    tree: Tree, turn: int
) -> None:
    rules = {"mask": MASKED, "skip": RENAMES["skip"][0]}
    forms = [("swap", SWAP), ("again", AGAIN)]
    cases = list(zip(rules, forms[::-1] if turn else forms, strict=True))
    node = parts_of(tree, {f"{rule}_{form}": rules[rule] for rule, (form, _) in cases})
    for rule, (form, pattern) in cases:
        table = f"f_{rule}_{form}"
        text = pattern.replace("table f ", f"table {table} ").format("region", "v")
        refused(tree, node, f"{table}.sql", text, table)
        # The next table has its turn.
        for words in (("remove-table", table), ("execute", "mark-done", f"{table}.sql")):
            assert tree.run(node, *words).code == 0, words


def test_a_rule_that_names_both_columns_follows_the_script(tree: Tree) -> None:
    node = part_of(tree, "--skip-columns", "region")
    error = stopped(tree, node, "r.sql", "alter table f rename column region to other")
    for words in commands_of(error)[:2]:
        done = tree.run(node, *words)
        assert done.code == 0, f"{words}: {done}"
    tree.root.database.execute("update f set other = 'secret'; insert into f values (7, 'secret')")
    worker = tree.line.start(node)
    state = "select merge_state from londiste.table_info where table_name = 'public.f'"
    rows = "select id, other from f order by id"
    every = [(1, None), (2, None), (3, None), (7, None)]

    def there() -> bool:
        tree.line.tick()
        return node.database.value(state) == "ok" and node.database.execute(rows) == every

    tree.line.wait(there, "the rows without the column", 60)
    # A column that is only dropped has no values for anybody.
    tree.fine("e.sql", "alter table f drop column other")
    columns = (
        "select count(*) from pg_attribute where attrelid = 'f'::regclass and attname = 'other'"
    )
    tree.line.wait(lambda: (tree.line.tick(), node.database.value(columns) == 0)[1], "the script")
    assert worker.stop() == 0
