"""Effects of a script that its words do not show: deferred work, and tables that it empties."""

from __future__ import annotations

import pytest

from tests.fixtures.line import QUEUE
from tests.fixtures.scripts import Tree
from tests.integration.ddl.test_script_rows import stopped

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


@pytest.mark.parametrize("place", ["root", "branch"])
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
    assert tree.states("d.sql")[:2] == ["done", "failed"]
    assert tree.run(tree.branch, "execute", "mark-done", "d.sql").code == 0
    tree.once(tree.branch)


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
