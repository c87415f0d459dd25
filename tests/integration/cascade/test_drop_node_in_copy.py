"""A node is dropped while its tables are copied: nothing that the copy dropped is lost."""

from __future__ import annotations

import psycopg
import pytest

from londiste.cascade.commands.endpoint import endpoint
from londiste.cascade.model import NodeType
from londiste.copy.prepare import prepare
from londiste.db.names import TableName
from londiste.orchestration.steps import execute
from londiste.replicate import remove
from londiste.replicate.databases import ReplicateSettings, Replication
from londiste.replication import sqlapi as tables
from tests.fixtures.cascade import QUEUE, CommandLine, Node, Nodes
from tests.fixtures.line import Line
from tests.support.suite.slow import first

TABLE = TableName("public", "t")
SCHEMA = """
create table t (id int primary key, v text);
create index ti on t (v);
create table c (id int primary key, tid int references t);
"""
KEYS = (
    "select conname, convalidated from pg_constraint"
    " where contype = 'f' and connamespace = 'public'::regnamespace order by 1"
)
INDEXES = (
    "select indexrelid::regclass::text from pg_index where indrelid = 't'::regclass order by 1"
)


def copying(nodes_of: Nodes, londiste: CommandLine, kind: NodeType) -> tuple[Node, Node]:
    """A root, and a node whose copy of t was killed behind the first of its rows."""
    root = nodes_of.root()
    node = nodes_of.below(root, "node", kind)
    for db in (root.db, node.db):
        db.execute(SCHEMA)
        assert londiste(db, "add-table", "t", "c", "--expect-sync").code == 0
    node.db.execute(
        "set session_replication_role = replica;"
        " insert into t values (1, 'old'); insert into c values (1, 1)"
    )
    assert londiste(node.db, "resync", "t").code == 0
    with node.connect(replica=True) as conn:
        tables.local_set_table_state(conn, QUEUE, TABLE, None, "in-copy")
        (table,) = (t for t in tables.get_table_list(conn, QUEUE) if t.name == TABLE)
        prepare(conn, QUEUE, table, ())
    node.db.execute("set session_replication_role = replica; insert into t values (7, 'half')")
    assert node.db.execute(INDEXES) == []
    assert node.db.execute(KEYS) == []
    return root, node


@pytest.mark.parametrize("kind", first([NodeType.BRANCH, NodeType.LEAF]))
def test_what_the_copy_has_dropped_is_there_again(
    nodes_of: Nodes, londiste: CommandLine, kind: NodeType, caplog: pytest.LogCaptureFixture
) -> None:
    root, node = copying(nodes_of, londiste, kind)
    answer = londiste(node.db, "drop-node", "node")
    assert answer.code == 0, answer.err
    assert node.db.execute(INDEXES) == [("t_pkey",), ("ti",)]
    assert node.db.value("select count(*) from t") == 0
    # Rows of c may have lost theirs in t: the key holds for new ones, and the operator is told.
    assert node.db.execute(KEYS) == [("c_tid_fkey", False)]
    assert "ALTER TABLE public.c VALIDATE CONSTRAINT c_tid_fkey;" in caplog.text
    assert node.db.value("select count(*) from londiste.pending_fkeys") == 0
    assert node.db.value("select count(*) from londiste.copy_attempt") == 0
    node.db.execute("delete from c; alter table c validate constraint c_tid_fkey")
    assert root.db.value("select count(*) from pgq_node.subscriber_info") == 0


def test_replicate_removes_such_a_node_in_the_same_way(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    root, node = copying(nodes_of, londiste, NodeType.LEAF)
    source, target = (endpoint(one.name, one.dsn, one.worker) for one in (root, node))
    pair = Replication(ReplicateSettings(), QUEUE, source, (target,))
    with pair.sites() as sites:
        execute(remove.targets(sites, [pair], drop_tables=False, warn=pytest.fail), sites)
    assert node.db.execute(INDEXES) == [("t_pkey",), ("ti",)]
    assert node.db.execute(KEYS) == [("c_tid_fkey", False)]


def test_a_key_that_cannot_be_added_is_told_and_stays_stored(
    nodes_of: Nodes, londiste: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    _, node = copying(nodes_of, londiste, NodeType.LEAF)
    node.db.execute("alter table c drop column tid")
    assert londiste(node.db, "drop-node", "node").code == 0
    # No message: that of a cast or a function may contain values of rows.
    assert "foreign key c_tid_fkey is not restored (SQLSTATE 42703): ALTER" in caplog.text
    assert "ALTER TABLE ONLY public.c ADD CONSTRAINT c_tid_fkey" in caplog.text
    assert node.db.value("select fkey_name from londiste.pending_fkeys") == "c_tid_fkey"


def test_the_sql_function_alone_refuses_to_lose_the_indexes(
    nodes_of: Nodes, londiste: CommandLine
) -> None:
    _, node = copying(nodes_of, londiste, NodeType.LEAF)
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match=r"public\.t is being"):
        node.db.execute("select pgq_node.drop_node('q', 'node')")
    node.db.execute("select londiste.release_tables('q')")
    node.db.execute("select pgq_node.drop_node('q', 'node')")
    assert node.db.execute(INDEXES) == [("t_pkey",), ("ti",)]


@pytest.mark.parametrize("command", first(["drop-node node", "remove-table t"]))
def test_rows_that_do_not_fit_a_key_stop_the_command_before_it_changes_anything(
    nodes_of: Nodes, londiste: CommandLine, command: str
) -> None:
    root, node = copying(nodes_of, londiste, NodeType.LEAF)
    node.db.execute("update londiste.table_info set table_attrs = 'skip_truncate=1'")
    node.db.execute(
        "set session_replication_role = replica; insert into t values (7, 'twice');"
        " reset session_replication_role"
    )
    known = "select count(*) from pgq_node.subscriber_info"
    refused = londiste(node.db, *command.split())
    assert refused.code == 1 and "could not create unique index" in refused.err
    assert "hint: correct the rows of this table" in refused.err
    assert root.db.value(known) == 1
    assert londiste(node.db, "members", "--json").code == 0
    node.db.execute(
        "set session_replication_role = replica; delete from t where v = 'twice';"
        " reset session_replication_role"
    )
    assert londiste(node.db, *command.split()).code == 0
    assert node.db.execute(INDEXES) == [("t_pkey",), ("ti",)]
    assert root.db.value(known) == ("remove" in command)


def test_a_copy_that_runs_ends_with_its_node(line: Line) -> None:
    root = line.node("root", NodeType.ROOT, schema=SCHEMA)
    leaf = line.node("leaf", NodeType.LEAF, root, schema=SCHEMA)
    root.database.execute("insert into t select i, 'v' from generate_series(1, 3000) i")
    line.add(root, "public.t")
    line.tick()
    line.once(leaf)
    leaf.database.execute(
        "create function gate() returns trigger language plpgsql as"
        " 'begin perform pg_advisory_xact_lock_shared(42); return null; end';"
        " create trigger gate after insert on t execute function gate();"
        " alter table t enable always trigger gate"
    )
    line.configure(leaf, lock_timeout=60)
    with leaf.database.connect() as holder:
        holder.execute("select pg_advisory_lock(42)")
        line.add(leaf, "public.t", expect_sync=False)
        worker = line.start(leaf)
        line.wait(
            lambda: leaf.database.value(
                "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            ),
            "a chunk to be written",
            60,
        )
        done = line.here(leaf, "drop-node", "leaf")
        assert done.code == 0, str(done)
        holder.execute("select pg_advisory_unlock(42)")
    assert leaf.database.execute(INDEXES) == [("t_pkey",), ("ti",)]
    line.wait(
        lambda: (
            not leaf.database.value(
                "select count(*) from pg_stat_activity where datname = current_database()"
                " and application_name like 'londiste copy%'"
            )
        ),
        "the sessions of the copy to end",
        60,
    )
    assert worker.running()
    worker.stop()
    assert leaf.database.value("select count(*) from t") == 0
