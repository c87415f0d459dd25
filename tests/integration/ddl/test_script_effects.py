"""Effects of a script that its words do not show: deferred work, and tables that it empties."""

from __future__ import annotations

import json

import pytest

from londiste.db.names import TableName
from tests.fixtures.line import QUEUE
from tests.fixtures.scripts import Tree
from tests.integration.ddl.test_script_rows import stopped
from tests.support.suite.slow import first, only

PARENT = "create table p (id int primary key); create table c (id int primary key, p int)"
LOG = "create table log (id int primary key, x text)"
NOTE = """
create function note() returns trigger language plpgsql as
    $$ begin insert into public.log values (new.id, 'noted'); return null; end $$;
create constraint trigger note after insert or update on t deferrable initially deferred
    for each row execute function note()
"""


def added(tree: Tree, definitions: str, *tables: str) -> None:
    """Creates tables on every node and replicates them."""
    for node in tree.nodes:
        node.database.execute(definitions)
    tree.line.add(tree.root, *tables)
    tree.catch_up()
    for node in (tree.branch, tree.leaf):
        tree.line.add(node, *tables)


@pytest.mark.parametrize("place", first(["branch", "root"]))
def test_rows_of_a_deferred_trigger_are_rows_of_the_script(tree: Tree, place: str) -> None:
    added(tree, LOG, "public.log")
    getattr(tree, place).database.execute(NOTE)
    error = stopped(tree, tree.branch, "d.sql", "insert into t values (2, 'script')")
    assert "table public.log" in error
    assert tree.branch.database.execute("select * from t") == []


def test_a_deferred_constraint_fails_the_script_on_the_root(tree: Tree) -> None:
    tree.root.database.execute(PARENT)
    tree.root.database.execute(
        "alter table c add foreign key (p) references p deferrable initially deferred"
    )
    done = tree.execute("d.sql", "insert into c values (7, 99)")
    assert done.code == 5, str(done)
    assert "script d.sql: a deferred constraint or trigger failed on node root" in done.err
    assert "(SQLSTATE 23503)" in done.err
    assert "Key (p)=(…) is not present" in done.err and "(99)" not in done.err
    tree.fine("e.sql", "insert into c values (7, 99); insert into p values (99)")


def test_a_deferred_constraint_of_a_node_waits_for_a_decision(tree: Tree) -> None:
    added(tree, PARENT, "public.p", "public.c")
    tree.branch.database.execute(
        "alter table c add foreign key (p) references p deferrable initially deferred"
    )
    tree.fine("d.sql", "insert into c values (7, 99)")
    tree.line.tick()
    done = tree.run(tree.branch, "worker", "--once")
    assert done.code == 5, str(done)
    assert "a deferred constraint or trigger failed on node branch" in done.err
    assert "Key (p)=(…) is not present" in done.err
    assert tree.states("d.sql")[:2] == ["done", "failed"]
    assert tree.run(tree.branch, "execute", "mark-done", "d.sql").code == 0
    tree.once(tree.branch)


def test_the_error_of_a_statement_shows_no_value_of_a_row(tree: Tree) -> None:
    tree.root.database.execute("insert into t values (1, 'secret'), (2, 'secret')")
    done = tree.execute("number.sql", "alter table t alter v type int using v::int")
    assert done.code == 5 and "(SQLSTATE 22P02)" in done.err, str(done)
    assert "secret" not in done.err
    done = tree.execute("unique.sql", "alter table t add unique (v)")
    assert done.code == 5 and "Key (v)=(…) is duplicated" in done.err, str(done)
    assert "secret" not in done.err


SEE = """
create table seen (id int, role text, rows int);
create function see() returns trigger language plpgsql as $$ begin
    insert into public.seen select new.id, current_setting('session_replication_role'),
        (select count(*) from public.t) + (select count(*) from public.log);
    return null; end $$;
"""


def test_rows_of_the_same_batch_are_deferred_as_their_constraints_say(tree: Tree) -> None:
    added(tree, LOG, "public.log")
    tree.branch.database.execute(SEE)
    for table in ("t", "log"):
        tree.branch.database.execute(
            f"create constraint trigger see after insert on {table} deferrable initially deferred"
            f" for each row execute function see(); alter table {table} enable always trigger see"
        )
    root = tree.root.database
    root.execute("insert into t values (1, 'x'); insert into log values (2, 'x')")
    root.execute(
        f"select londiste.execute_start('{QUEUE}', 'b.sql', 'create table b ()', true);"
        f" create table b (); select londiste.execute_finish('{QUEUE}', 'b.sql', '{{}}')"
    )
    root.execute("insert into t values (3, 'x'); insert into log values (4, 'x')")
    tree.line.tick()
    tree.once(tree.branch)
    assert tree.states("b.sql")[:2] == ["done", "done"]
    seen = tree.branch.database.execute("select id, role, rows from seen order by id")
    # Each pair at its end: the first before the script, the other at the commit.
    assert seen == [(1, "replica", 2), (2, "replica", 2), (3, "replica", 4), (4, "replica", 4)]


CASCADES = {
    "plain": "truncate p cascade",
    "refilled": "truncate p cascade; insert into c values (9, null)",
    "dynamic": "do $$ begin execute 'truncate p cascade'; end $$",
}


CASES = [(place, text) for place in ("root", "branch") for text in CASCADES]


@pytest.mark.parametrize(
    ("place", "name"), only(CASES, ("branch", "refilled"), ("root", "dynamic"))
)
def test_a_table_that_truncate_empties_through_a_foreign_key(
    tree: Tree, place: str, name: str
) -> None:
    added(tree, PARENT, "public.p", "public.c")
    getattr(tree, place).database.execute("alter table c add foreign key (p) references p")
    tree.root.database.execute("insert into p values (1), (2); insert into c values (5, 1)")
    tree.catch_up()
    error = stopped(tree, tree.branch, "tc.sql", CASCADES[name])
    assert "it does not change the same rows of table public.c" in error
    assert "emptied on the root" in error if place == "root" else "emptied here" in error
    assert tree.branch.database.execute("select * from c") == [(5, 1)]


def test_truncate_in_a_trigger_of_another_statement(tree: Tree) -> None:
    added(tree, PARENT, "public.p", "public.c")
    tree.root.database.execute(
        "create function clean() returns trigger language plpgsql as"
        " $$ begin truncate public.c; return null; end $$;"
        " create trigger clean after insert on p for each statement execute function clean()"
    )
    tree.root.database.execute("set session_replication_role = local; insert into c values (5, 1)")
    error = stopped(tree, tree.branch, "i.sql", "insert into p values (1)")
    assert "table public.c: 0 written, 0 removed, emptied on the root" in error


def test_truncate_of_another_table_of_the_same_name(tree: Tree) -> None:
    for node in tree.nodes:
        node.database.execute("create table o (id int primary key)")
    tree.branch.database.execute("create table arch (id int primary key); insert into o values (7)")
    tree.line.add(tree.root, "public.o")
    tree.catch_up()
    tree.line.add(tree.branch, "public.o", dest=TableName("public", "arch"))
    tree.root.database.execute("insert into o values (1), (2)")
    tree.line.tick()
    tree.once(tree.branch)
    assert "table public.o" in stopped(tree, tree.branch, "td.sql", "truncate o")
    assert tree.branch.database.execute("select * from o") == [(7,)]
    assert tree.branch.database.value("select count(*) from arch") == 2


def test_a_table_that_is_rewritten_was_not_emptied(tree: Tree) -> None:
    """Neither the branch rewrites it, nor the root empties it."""
    tree.branch.database.execute("alter table t alter id type bigint")
    tree.root.database.execute("insert into t values (1, 'a'), (2, 'b')")
    tree.fine(
        "r.sql",
        "alter table t alter id type bigint;\ninsert into t values (3, 'c'), (4, 'd');\n"
        "update t set v = 'u' where id = 1;\ndelete from t where id = 4",
    )
    tree.catch_up()
    assert tree.rows("select * from t order by id") == [(1, "u"), (2, "b"), (3, "c")]
    # Nor is it a change of rows when there are none.
    tree.root.database.execute("delete from t")
    tree.catch_up()
    done = tree.execute(
        "e.sql", "alter table t alter v type int using null", "--local", node=tree.leaf
    )
    assert done.code == 0, str(done)


PARTS = """
create table q (id int, r int, v text, primary key (id, r)) partition by list (r);
create table q_1 partition of q for values in (1);
create table q_2 partition of q for values in (2)
"""


def test_truncate_of_a_partition_in_a_script_is_no_event(tree: Tree) -> None:
    added(tree, PARTS, "public.q")
    tree.root.database.execute("insert into q values (1, 1), (2, 1), (3, 2)")
    tree.fine("a.sql", "insert into q values (8, 1); truncate q_1; insert into q values (1, 1)")
    tree.fine(
        "b.sql", "alter table q rename id to ident; truncate q_1; insert into q values (4, 1)"
    )
    tree.fine("c.sql", "insert into q select ident, 2, 'moved' from q_1; truncate q_1")
    tree.catch_up()
    assert tree.rows("select * from q order by 1, 2") == [(3, 2, None), (4, 2, "moved")]
    # Without a script it is one.
    tree.root.database.execute("insert into q values (5, 1); truncate q_2")
    tree.catch_up()
    assert tree.rows("select * from q") == [(5, 1, None)]


def test_a_partition_that_a_node_does_not_have(tree: Tree) -> None:
    whole = "create table q (id int, r int, v text, primary key (id, r)); create table q_1 ()"
    for node in tree.nodes:
        node.database.execute(PARTS if node is tree.root else whole)
    tree.line.add(tree.root, "public.q")
    tree.catch_up()
    tree.line.add(tree.branch, "public.q")
    tree.root.database.execute("insert into q values (1, 1), (3, 2)")
    tree.line.tick()
    tree.once(tree.branch)
    error = stopped(tree, tree.branch, "p.sql", "truncate q_1")
    assert "table public.q: 0 written, 0 removed, emptied in part on the root" in error


def test_a_dry_run_names_all_tables_that_truncate_empties(tree: Tree) -> None:
    tree.root.database.execute(PARENT)
    tree.root.database.execute(
        "alter table c add foreign key (p) references p; create table other (id int);"
        "alter table t add p int references p"
    )
    found = {}
    for text in ("truncate table only other, t", "truncate p cascade", "truncate p"):
        done = tree.run(tree.root, "execute", "--dry-run", "--json", "--sql", text)
        assert done.code == 0, str(done)
        (script,) = json.loads(done.out)["scripts"]
        (statement,) = script["statements"]
        found[text] = statement["table"], statement["replicated"]
    assert found == {
        "truncate table only other, t": ("other, t", True),
        "truncate p cascade": ("p, public.c, public.t", True),
        "truncate p": ("p", False),
    }
