"""Scripts on a root into whose tables applications write at the same time."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator

import psycopg
import pytest

from londiste.replication.ddl.split import split
from londiste.replication.ddl.writers import WriterLock
from tests.fixtures.line import QUEUE
from tests.fixtures.scripts import Tree
from tests.integration.ddl.test_script_effects import LOG, added

_WAITS = """
select count(*) > 0 from pg_stat_activity
where wait_event_type = 'Lock' and starts_with(application_name, 'londiste execute')
"""

AFTER = "; select pg_advisory_xact_lock(4711)"

READER = """
create function public.known(int) returns bigint stable language sql as
    'select count(*) from public.t where id = $1'
"""


@contextlib.contextmanager
def open_transaction(tree: Tree, statement: str) -> Iterator[None]:
    """A transaction that is open until a script waits: for its locks, or at ``AFTER``.

    So it is open during the statements, and over before the script is committed.
    """
    root = tree.root.database
    with root.connect() as writer, root.connect() as gate:
        gate.execute("select pg_advisory_lock(4711)")
        writer.execute("begin")
        writer.execute(statement.encode())
        over = threading.Event()

        def commit() -> None:
            while not over.wait(0.01) and not root.value(_WAITS):
                pass
            writer.execute("commit")
            gate.execute("select pg_advisory_unlock(4711)")

        thread = threading.Thread(target=commit)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("delete from t where id = 1", id="written"),
        pytest.param("insert into log select id, v from t", id="read"),
        pytest.param("do $$ begin delete from public.t where id = 1; end $$", id="in-a-block"),
        pytest.param("insert into log select 1 where known(1) = 1", id="in-a-function"),
        pytest.param(
            "update log set x = 'a'; delete from public.T where id >= (select count(*) from log)",
            id="in-two-statements",
        ),
    ],
)
def test_a_script_sees_the_rows_of_transactions_that_were_open_before_it(
    tree: Tree, script: str
) -> None:
    added(tree, LOG, "public.log")
    for node in tree.nodes:
        node.database.execute(READER)
    tree.root.database.execute("insert into log values (0, 'old')")
    tree.catch_up()
    with open_transaction(tree, "insert into public.t values (1, 'open')"):
        tree.fine("w.sql", script + AFTER)
    tree.catch_up()
    assert tree.states("w.sql") == ["done", "done", "done"]
    t, log = tree.rows("select id from t"), tree.rows("select id from log order by id")
    assert (t, log) in [([], [(0,)]), ([(1,)], [(0,), (1,)])]


def test_a_transaction_that_does_not_end_is_named(tree: Tree) -> None:
    tree.line.configure(tree.root, execute_lock_timeout=0.1)
    with tree.root.database.connect() as writer:
        writer.execute("begin; insert into public.t values (1, 'open')")
        done = tree.execute("w.sql", "delete from t where id = 1", "--timeout", "0.3")
        assert done.code == 6
        assert "script w.sql: no lock on node root" in done.err
        assert f"process {writer.info.backend_pid}, for " in done.err
    assert tree.states("w.sql") == ["", "", ""]


def test_a_script_that_writes_no_rows_waits_for_no_writer(tree: Tree) -> None:
    tree.line.configure(tree.root, execute_lock_timeout=0.1)
    with tree.root.database.connect() as writer:
        writer.execute("begin; insert into public.t values (1, 'open')")
        tree.fine("v.sql", "create view v as select * from t; select count(*) from v")


def test_a_dry_run_foresees_the_lock_of_the_root(tree: Tree) -> None:
    def lock(*more: str) -> str:
        done = tree.fine("d.sql", "delete from t where id = 1", "--dry-run", "--json", *more)
        one = json.loads(done.out)["scripts"][0]["statements"][0]
        assert one["replicated"] is False
        return f"{one['lock']}: {one['keeps_out']}"

    assert lock() == "SHARE ROW EXCLUSIVE: writers"


def test_a_table_that_the_role_may_not_lock_is_said_and_passed_over(
    tree: Tree, caplog: pytest.LogCaptureFixture
) -> None:
    (statement,) = split("insert into log select id, v from t")
    with tree.root.database.connect() as conn:
        writers = WriterLock.of(conn, QUEUE)
        conn.execute("drop role if exists script_reader; create role script_reader")
        try:
            with conn.transaction():
                conn.execute("grant select on public.t to script_reader")
                conn.execute("set local role script_reader")
                writers.before(conn, statement)
                conn.execute("select from public.t")
                conn.execute("reset role")
                assert not writers.missed(conn, wrote=True)
                raise psycopg.Rollback
        finally:
            conn.execute("drop role script_reader")
    assert "table public.t: role " in caplog.text and "may not lock it" in caplog.text
