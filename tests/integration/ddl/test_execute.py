"""``londiste execute``: scripts through the cascade, once per node, in order with the rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from londiste.daemon.signals import Signals
from londiste.db.connection import Connection
from londiste.errors import NodeUnreachable
from londiste.orchestration.connections import Connections
from londiste.replication.ddl import execute, publish
from londiste.replication.worker.worker import Worker
from londiste.settings import WorkerSettings, load
from tests.fixtures.line import QUEUE
from tests.fixtures.scripts import Tree
from tests.support import lines
from tests.support.suite.slow import first

#: A leaf lets nobody else write.
REPLICA = "set session_replication_role = replica; "


def test_a_script_runs_once_on_every_node_in_order_with_the_rows(tree: Tree) -> None:
    write = tree.root.database.execute
    write("insert into t values (1, 'before')")
    done = tree.fine(
        "a.sql",
        "alter table t add column n int default 7;\n"
        "update t set v = v || '!';\ncreate index on t (n)",
    )
    assert "root: script a.sql: 3 statements run, sent to all nodes" in done.err
    write("insert into t values (2, 'behind', 8)")
    tree.catch_up()
    assert tree.rows("select * from t order by id") == [(1, "before!", 7), (2, "behind", 8)]
    assert tree.states("a.sql") == ["done", "done", "done"]
    again = tree.fine("a.sql", (tree.line.directory / "a.sql").read_text())
    assert "has run already, skipped" in again.err
    other = tree.execute("a.sql", "select 1")
    assert other.code == 3
    assert "a different script a.sql is recorded" in other.err
    write("update t set n = 9 where id = 1")
    tree.catch_up()
    assert tree.rows("select n from t order by id") == [(9,), (8,)]
    assert tree.root.database.execute("select * from londiste.stale_captures(null)") == []


def test_a_silent_node_is_named_where_no_script_is_listed(tree: Tree) -> None:
    for failed, none in ((), "no script yet"), (("--failed",), "no script waits for a decision"):
        done = tree.run(tree.root, "execute", "status", *failed)
        assert (done.code, done.out) == (0, "")
        assert done.err.startswith(none)
    tree.root.database.execute(
        "update pgq_node.node_location set node_location = 'host=127.0.0.1 port=1 dbname=gone'"
        " where node_name = 'leaf'"
    )
    for failed in ((), ("--failed",)):
        done = tree.run(tree.root, "execute", "status", *failed)
        assert done.err.startswith("warning: node leaf: its scripts are unknown: no response: ")
        assert "no script on the nodes that answer" in done.err.replace(" waits for a decision", "")


def test_the_root_of_two_queues_says_through_which_one_a_script_has_run(tree: Tree) -> None:
    second = ("--set", "queue_name=second")
    assert tree.run(tree.root, *second, "create-root", "root").code == 0
    path = tree.script("c.sql", "alter table t add column n int")
    assert tree.run(tree.root, *second, "execute", path).code == 0
    for node in (tree.branch, tree.leaf):
        assert tree.run(node, "execute", path, "--local").code == 0
    assert tree.states("c.sql") == ["done through queue second", "done", "done"]
    assert tree.run(tree.branch, "execute", tree.script("d.sql", "select 1"), "--local").code == 0
    assert tree.states("d.sql") == ["not run here", "done", "not reached yet"]


def test_rows_behind_a_script_of_the_same_batch_fire_no_trigger_of_the_node(tree: Tree) -> None:
    tree.leaf.database.execute(
        "create table fired (id int);"
        " create function fire() returns trigger language plpgsql as"
        " $$ begin insert into public.fired values (new.id); return null; end $$;"
        " create trigger fire after insert on t for each row execute function fire()"
    )
    root = tree.root.database
    root.execute("insert into t values (1, 'before')")
    # As a command does whose tick comes later than the next writer.
    script = "insert into t values (2, 'script')"
    root.execute(
        f"select londiste.execute_start('{QUEUE}', 'f.sql', $${script}$$, true);"
        " set session_replication_role = local;"
        f" {script}; select londiste.execute_finish('{QUEUE}', 'f.sql')"
    )
    root.execute("insert into t values (3, 'behind')")
    tree.catch_up()
    assert tree.rows("select id from t order by id") == [(1,), (2,), (3,)]
    # The script's own rows fire there as they did on the root.
    assert tree.leaf.database.execute("select id from fired") == [(2,)]


def test_statements_that_run_in_no_transaction_run_behind_their_batch(tree: Tree) -> None:
    tree.root.database.execute("create type mood as enum ('sad')")
    for node in (tree.branch, tree.leaf):
        node.database.execute("create type mood as enum ('sad')")
    tree.fine(
        "b.sql",
        "alter table t add column m mood;\n"
        "alter type mood add value 'glad';\n"
        "create unique index concurrently t_v on t (v);\n"
        "alter table t add constraint t_v_key unique using index t_v;\n"
        "vacuum t",
    )
    tree.root.database.execute("insert into t values (1, 'x', 'glad')")
    tree.catch_up()
    tree.catch_up()
    assert tree.rows("select id, v, m::text from t") == [(1, "x", "glad")]
    assert tree.rows("select conname from pg_constraint where conname = 't_v_key'") == [
        ("t_v_key",)
    ]
    for part in range(1, 6):
        assert tree.states(f"b.sql/{part}") == ["done"] * 3


def test_a_script_that_fails_on_a_node_waits_for_a_person(tree: Tree) -> None:
    tree.leaf.database.execute("alter table t add column n text")
    tree.fine("c.sql", "alter table t add column k int;\nalter table t add column n int")
    tree.root.database.execute("insert into t values (1, 'x', 1, 2)")
    tree.line.tick()
    tree.once(tree.branch)
    failed = tree.run(tree.leaf, "worker", "--once")
    assert failed.code == 5, str(failed)
    assert "script c.sql: statement 2 (line 2) failed on node leaf" in failed.err
    assert "execute retry c.sql" in failed.err
    # Without the words in brackets the work of the hint is refused, and nothing compares it.
    write = "set session_replication_role = {}; insert into t values (8, 'x'); delete from t"
    with pytest.raises(psycopg.Error, match="this table is a replica"):
        tree.leaf.database.execute(write.format("origin"))
    tree.leaf.database.execute(write.format("replica"))
    assert "(below the root rows in a session with set session_replication_role = replica)" in (
        failed.err
    )
    assert "execute mark-done c.sql and londiste compare" in failed.err
    assert tree.states("c.sql") == ["done", "done", "failed"]
    assert tree.leaf.database.execute("select * from t") == []
    again = tree.run(tree.leaf, "worker", "--once")
    assert again.code == 5
    assert "not retried automatically" in again.err
    tree.leaf.database.execute("alter table t drop column n")
    assert tree.run(tree.leaf, "execute", "retry", "c.sql").code == 0
    tree.catch_up()
    assert tree.rows("select * from t") == [(1, "x", 1, 2)]
    assert tree.states("c.sql") == ["done", "done", "done"]
    for script in ("c.sql", "never-seen.sql"):
        refused = tree.run(tree.leaf, "execute", "retry", script)
        assert refused.code == 2 and "hint: londiste execute status" in refused.err, str(refused)


@pytest.mark.parametrize("decision", first(["skip", "mark-done"]))
def test_a_person_may_do_the_work_by_hand(tree: Tree, decision: str) -> None:
    tree.branch.database.execute("alter table t add column n int")
    tree.fine("c.sql", "alter table t add column n int")
    tree.line.tick()
    assert tree.run(tree.branch, "worker", "--once").code == 5
    assert tree.run(tree.branch, "execute", decision, "c.sql").code == 0
    tree.catch_up()
    word = "skipped" if decision == "skip" else "marked"
    assert tree.states("c.sql") == ["done", word, "done"]
    tree.root.database.execute("insert into t values (1, 'x', 2)")
    tree.catch_up()
    assert tree.rows("select * from t") == [(1, "x", 2)]


def test_conditions_and_names_of_the_node(tree: Tree) -> None:
    tree.branch.database.execute("create schema reports")
    tree.fine("e.sql", "--*-- Need-Schema: reports\ncreate table reports.r (i int)")
    tree.fine(
        "f.sql",
        "--*-- Local-Destination: public.t\n-- a comment\n\n"
        "alter table @public.t@ add column f int",
    )
    tree.catch_up()
    there = [n.database.value("select to_regclass('reports.r')") is not None for n in tree.nodes]
    assert there == [False, True, False]
    assert tree.rows("select f from t") == []
    tree.fine("g.sql", "--*-- Need-Schema: public\n--*-- Need-Table: public.t, public.t\nselect 1")
    bad = tree.execute("h.sql", "--*-- Need-Schema: public, reports\nselect 1")
    assert bad.code == 5
    assert "script h.sql partially matches this node" in bad.err


def test_only_the_root_sends_and_others_run_it_for_themselves(tree: Tree) -> None:
    text = "alter table t add column n int"
    done = tree.execute("i.sql", text, node=tree.leaf)
    assert done.code == 3
    assert "hint: run the command on the root, or with --local" in done.err
    assert tree.execute("i.sql", text, "--local", node=tree.leaf).code == 0
    tree.fine("i.sql", text)
    tree.root.database.execute("insert into t values (1, 'x', 2)")
    tree.catch_up()
    assert tree.rows("select * from t") == [(1, "x", 2)]


def test_explain_says_what_is_locked_and_where_it_runs_and_touches_nothing(tree: Tree) -> None:
    text = "alter table t alter v type varchar(10);\ncreate index concurrently i on t (v)"
    done = tree.fine("j.sql", text, "--dry-run", "--json")
    first, second = json.loads(done.out)["scripts"]
    assert first["statements"][0]["lock"] == "ACCESS EXCLUSIVE"
    assert first["statements"][0]["rewrites"].startswith("yes")
    assert first["statements"][0]["replicated"] is True
    assert second["statements"][0]["lock"] == "SHARE UPDATE EXCLUSIVE"
    assert [on["what"] for on in first["nodes"]] == ["runs", "runs", "runs"]
    assert "ACCESS EXCLUSIVE" in tree.fine("j.sql", text, "--dry-run").out
    assert tree.root.database.value("select count(*) from londiste.applied_execute") == 0


def test_a_lock_that_is_not_granted_is_asked_for_again(tree: Tree) -> None:
    tree.line.configure(tree.root, execute_lock_timeout=0.1)
    with tree.root.database.connect() as holder:
        holder.execute("begin; lock table public.t in access share mode")
        user, process = holder.info.user, holder.info.backend_pid
        done = tree.execute("k.sql", "alter table t add column n int", "--timeout", "0.3")
    assert done.code == 6
    assert "script k.sql: no lock on node root" in done.err
    assert f"of {user}, process {process}, for " in done.err
    assert f"end the transaction on node root: select pg_terminate_backend({process})" in done.err
    tree.fine("k.sql", "alter table t add column n int")


def test_an_index_that_an_interrupted_build_left_is_dropped_and_built_again(tree: Tree) -> None:
    def index() -> list[Any]:
        return tree.leaf.database.execute(
            "select c.relname, i.indisvalid from pg_index i"
            " join pg_class c on c.oid = i.indexrelid where c.relname like 't_v%%'"
        )

    tree.root.database.execute("insert into t values (1, 'x')")
    tree.catch_up()
    tree.fine("l.sql", "create unique index concurrently t_v on t (v)")
    # What a server that was killed in the middle of it leaves.
    tree.leaf.database.execute(REPLICA + "insert into t values (2, 'x')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        tree.leaf.database.execute("create unique index concurrently t_v on t (v)")
    assert index() == [("t_v", False)]
    tree.leaf.database.execute(REPLICA + "delete from t where id = 2")
    tree.leaf.database.execute(
        "select londiste.set_script_state(%s, 'l.sql', 'running', 'after',"
        " 'create unique index concurrently t_v on t (v)', null, null, null)",
        QUEUE,
    )
    tree.catch_up()
    assert index() == [("t_v", True)]
    assert tree.states("l.sql") == ["done", "done", "done"]


def test_a_build_that_fails_leaves_nothing_and_stops_the_node(tree: Tree) -> None:
    tree.leaf.database.execute(REPLICA + "insert into t values (8, 'x'), (9, 'x')")
    tree.fine("m.sql", "create unique index concurrently t_v on t (v)")
    tree.line.tick()
    tree.once(tree.branch)
    failed = tree.run(tree.leaf, "worker", "--once")
    assert failed.code == 5
    assert "script m.sql: statement 1 (line 1) failed on node leaf: could not create" in failed.err
    assert tree.leaf.database.value("select to_regclass('t_v')") is None
    tree.leaf.database.execute(REPLICA + "delete from t")
    assert tree.run(tree.leaf, "execute", "retry", "m.sql").code == 0
    tree.catch_up()
    assert tree.states("m.sql") == ["done", "done", "done"]


def test_a_build_that_fails_on_the_root_is_repeated_by_the_command(tree: Tree) -> None:
    tree.root.database.execute("insert into t values (8, 'x'), (9, 'x')")
    text = "create unique index concurrently t_v on t (v)"
    failed = tree.execute("n.sql", text)
    assert failed.code == 5
    assert "remove the cause, then repeat the command" in failed.err
    assert "execute retry" not in failed.err.rpartition("hint: ")[2]
    tree.root.database.execute("delete from t")
    assert tree.execute("n.sql", text).code == 0


@pytest.mark.parametrize(
    ("before", "text", "said"),
    [
        ("create index t_v on t (id)", "create index concurrently t_v on t (v)", "already exists"),
        ("", "drop index concurrently t_v", "does not exist"),
    ],
)
def test_a_statement_that_is_refused_is_refused_again(
    tree: Tree, before: str, text: str, said: str
) -> None:
    if before:
        tree.root.database.execute(before)
    for _ in range(2):
        failed = tree.execute("r.sql", text)
        assert failed.code == 5, str(failed)
        assert said in failed.err
    assert tree.root.database.value("select count(*) from londiste.applied_execute") == 0


def test_a_build_that_was_done_when_it_was_killed_counts_when_repeated(tree: Tree) -> None:
    text = "create index concurrently t_v on t (v)"
    killed = tree.line.run(
        tree.root,
        "execute",
        tree.script("s.sql", text),
        env={"LONDISTE_CRASH": "script.alone-done"},
    )
    assert killed.code != 0
    assert tree.root.database.value("select to_regclass('t_v') is not null")
    assert tree.execute("s.sql", text).code == 0
    assert tree.root.database.value("select count(*) from londiste.applied_execute") == 1


@contextmanager
def leaf_worker(tree: Tree, *copy: str) -> Iterator[Worker]:
    """The worker of the leaf, to be driven unit by unit; ``copy`` is its copy process."""
    with closing(Signals()) as signals:
        worker = Worker(lambda: load(WorkerSettings, tree.leaf.config), signals, copy_argv=copy)
        try:
            worker._start()
            yield worker
        finally:
            worker.close()


def test_a_batch_of_joined_ticks_is_taken_tick_by_tick_where_a_script_is_in_it(
    tree: Tree,
) -> None:
    root = tree.root.database
    root.execute("create type mood as enum ('sad')")
    for node in (tree.branch, tree.leaf):
        node.database.execute("create type mood as enum ('sad')")
    for number in range(3):
        root.execute("insert into t values (%s, 'x')", number)
        tree.line.tick()
    tree.fine(
        "o.sql",
        "create table made (m mood);\nalter type mood add value 'new';\n"
        "insert into made values ('new');\ncreate index concurrently made_m on made (m)",
    )
    root.execute("insert into t values (9, 'y')")
    tree.catch_up()
    assert tree.rows("select m::text from made") == [("new",)]
    assert tree.rows("select count(*) from t") == [(4,)]
    assert tree.rows("select count(*) from pg_class where relname = 'made_m'") == [(1,)]
    assert tree.states("o.sql/4") == ["done"] * 3


def test_a_script_in_a_batch_for_the_engine_is_met_by_the_worker(tree: Tree) -> None:
    tree.line.configure(tree.leaf, parallel_apply_min_events=10)
    root = tree.root.database
    for number in range(40):
        root.execute("insert into t values (%s, 'x')", number)
        if number == 20:
            tree.fine("p.sql", "alter table t add column n int default 3")
    tree.catch_up()
    assert tree.rows("select count(*), sum(n) from t") == [(40, 120)]


@pytest.mark.parametrize("decision", first(["retry", "mark-done"]))
def test_another_text_of_a_script_that_ran_early_fails(tree: Tree, decision: str) -> None:
    early = tree.execute("k.sql", "create table early (i int)", "--local", node=tree.leaf)
    assert early.code == 0, str(early)
    tree.fine("k.sql", "alter table t add column n int")
    tree.line.tick()
    tree.once(tree.branch)
    failed = tree.run(tree.leaf, "worker", "--once")
    assert failed.code == 5, str(failed)
    assert "a different script of this name is recorded here, done since" in failed.err
    assert tree.states("k.sql") == ["done", "done", "failed"]
    if decision == "mark-done":
        tree.leaf.database.execute("alter table t add column n int")
    assert tree.run(tree.leaf, "execute", decision, "k.sql").code == 0
    tree.root.database.execute("insert into t values (1, 'x', 2)")
    tree.catch_up()
    assert tree.rows("select * from t") == [(1, "x", 2)]


def test_a_decision_about_one_text_is_none_about_another(tree: Tree) -> None:
    early = tree.execute("n.sql", "reindex table concurrently nope", "--local", node=tree.branch)
    assert early.code == 5, str(early)
    assert tree.run(tree.branch, "execute", "skip", "n.sql").code == 0
    tree.fine("n.sql", "alter table t add column n int")
    tree.line.tick()
    assert tree.run(tree.branch, "worker", "--once").code == 5
    assert tree.states("n.sql")[1] == "failed"
    assert tree.run(tree.branch, "execute", "retry", "n.sql").code == 0
    tree.catch_up()
    assert tree.rows("select n from t") == []


def test_a_script_whose_client_or_link_falls_silent_keeps_no_lock(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tree.root.database
    script = "alter table t alter v set default 'x'"
    limits: list[str] = []
    real = execute.run_statement
    with lines.Line(root.dsn) as line, Connections(name="test") as sites:

        def fall_silent(conn: Connection, *args: Any, **options: Any) -> None:
            real(conn, *args, **options)
            row = conn.execute("show idle_in_transaction_session_timeout").fetchone()
            limits.extend(row or ())
            line.stall()

        monkeypatch.setattr(execute, "run_statement", fall_silent)
        runner = publish.Runner(sites, line.dsn, QUEUE, False, 1.0, 0.0, 1.0, limits.append)
        with pytest.raises(NodeUnreachable):
            runner.run(publish.plan([("silent.sql", script)]))
    # A process that has stopped is not there to end its session: the server does.
    assert limits == ["10s"]
    root.execute("set lock_timeout = '5s'; insert into t values (1, 'a')")
    assert root.execute("select * from londiste.get_scripts('line')") == []
