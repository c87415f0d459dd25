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
from tests.fixtures.line import QUEUE, Line, LineNode
from tests.fixtures.scripts import Tree, three_nodes
from tests.integration.ddl.test_script_effects import LOG, added
from tests.support.servers.kept_nodes import kept_nodes

_WAITS = """
select count(*) > 0 from pg_stat_activity
where wait_event_type = 'Lock' and starts_with(application_name, 'londiste execute')
"""

AFTER = "; select pg_advisory_xact_lock(4711)"

#: The lock of the second one is released when its block ends by an exception.
READERS = """
create function public.known(int) returns bigint stable language sql as
    'select count(*) from public.t where id = $1';
create function public.found(int) returns bigint stable language plpgsql as $$
declare i int; begin
    select id into strict i from public.t where id = $1; return i;
exception when no_data_found then return 0; end $$;
create view public.seen as select * from public.t;
create view public.seen_twice as select * from public.seen
"""


@kept_nodes
def _read_in_many_ways(
    line: Line, capsys: pytest.CaptureFixture[str]
) -> tuple[LineNode, LineNode, LineNode]:
    nodes = three_nodes(line, capsys)
    tree = Tree(line, capsys, *nodes)
    added(tree, LOG, "public.log")
    for node in nodes:
        node.database.execute(READERS)
    tree.root.database.execute("insert into log values (0, 'old')")
    tree.catch_up()
    return nodes


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
        pytest.param("insert into log select id, v from t", id="read", marks=pytest.mark.slow),
        pytest.param(
            "do $$ begin delete from public.t where id = 1; end $$",
            id="in-a-block",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "do $$ begin if exists (select from public.t) then insert into public.log values (1);"
            " end if; end $$",
            id="on-a-condition",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "do $$ begin execute 'insert into public.log select id from public.t'; end $$",
            id="in-dynamic-sql",
        ),
        pytest.param(
            "do $$ declare n int; begin for n in execute 'select id from public.' ||"
            " left('tx', 1) || ' for key share' loop insert into public.log values (n);"
            " end loop; end $$",
            id="with-locks-of-rows",
        ),
        pytest.param(
            "insert into log select 1 where known(1) = 1",
            id="in-a-function",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "insert into log select 1 where found(1) = 1", id="in-a-handler", marks=pytest.mark.slow
        ),
        pytest.param(
            "insert into log select id, v from seen", id="in-a-view", marks=pytest.mark.slow
        ),
        pytest.param(
            "do $$ declare n int; begin begin n := (select count(*) from public.seen_twice);"
            " raise exception 'x'; exception when others then null; end;"
            " if n > 0 then insert into public.log values (n); end if; end $$",
            id="in-a-view-in-a-handler",
        ),
        pytest.param(
            "alter table log add column n bigint default known(1)",
            id="in-a-default",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "alter table log alter x type bigint using found(1)",
            id="in-a-conversion",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "update log set x = 'a'; delete from public.T where id >= (select count(*) from log)",
            id="in-two-statements",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_script_sees_the_rows_of_transactions_that_were_open_before_it(
    line: Line, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    tree = Tree(line, capsys, *_read_in_many_ways(line, capsys=capsys))
    with open_transaction(tree, "insert into public.t values (1, 'open')"):
        tree.fine("w.sql", script + AFTER)
    tree.catch_up()
    assert tree.states("w.sql") == ["done", "done", "done"]
    gone = "delete" in script
    assert tree.rows("select id from t") == ([] if gone else [(1,)])
    kept = gone or "alter" in script
    assert [row[0] for row in tree.rows("select * from log order by 1")] == (
        [0] if kept else [0, 1]
    )


def test_a_view_on_a_partition_is_read_with_the_rows_of_open_transactions(tree: Tree) -> None:
    parted = (
        "create table p (id int primary key) partition by range (id);"
        "create table p1 partition of p for values from (0) to (9);"
        "create view v as select * from p1"
    )
    added(tree, parted, "public.p")
    added(tree, LOG, "public.log")
    tree.root.database.execute("insert into public.p values (1)")
    tree.catch_up()
    with open_transaction(tree, "insert into public.p values (2)"):
        tree.fine("p.sql", "insert into log select count(*) from v" + AFTER)
    tree.catch_up()
    assert tree.rows("select id from log") == [(2,)]


def test_a_statement_that_changes_a_table_asks_for_its_own_lock_alone(tree: Tree) -> None:
    text = "alter table t add column n bigint default 1; alter table t alter v type int using 1"
    statements = split(text)
    with tree.root.database.connect() as conn, conn.transaction():
        writers = WriterLock.of(conn, QUEUE, text, statements)
        writers.begin(conn)
        for one in statements:
            writers.before(conn, one)
        held = "select mode from pg_locks where relation = 'public.t'::regclass and pid = %s"
        assert conn.execute(held, [conn.info.backend_pid]).fetchall() == []


def test_a_check_of_a_foreign_key_waits_for_no_writer(tree: Tree) -> None:
    added(tree, "create table u (id int primary key, t int references t)", "public.u")
    tree.root.database.execute("insert into public.t values (1, 'new')")
    tree.catch_up()
    tree.line.configure(tree.root, execute_lock_timeout=0.1)
    with tree.root.database.connect() as writer:
        writer.execute("begin; insert into public.t values (2, 'open')")
        tree.fine("u.sql", "insert into u values (1, 1)")


def test_a_read_with_locks_of_rows_is_no_check_of_a_foreign_key(tree: Tree) -> None:
    added(tree, "create table u (id int primary key, t int references t, n int)", "public.u")
    tree.root.database.execute("insert into public.t values (1, 'new')")
    tree.catch_up()
    text = (
        "do $$ declare n int; begin execute 'select count(*) from (select from public.' ||"
        " left('tx', 1) || ' for share) x' into n; insert into u values (1, 1, n); end $$"
    )
    with open_transaction(tree, "insert into public.t values (2, 'open')"):
        tree.fine("u.sql", text + AFTER)
    tree.catch_up()
    assert tree.rows("select n from u") == [(2,)]


def test_an_attempt_is_shorter_than_deadlock_timeout(tree: Tree) -> None:
    with tree.root.database.connect() as conn, conn.transaction():
        conn.execute("set local deadlock_timeout = '200ms'")
        assert WriterLock.of(conn, QUEUE, "", []).seconds == pytest.approx(0.18)


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
    text = "insert into log select id, v from t"
    with tree.root.database.connect() as conn:
        conn.execute("drop role if exists script_reader; create role script_reader")
        try:
            with conn.transaction():
                writers = WriterLock.of(conn, QUEUE, text, split(text))
                conn.execute("grant select on public.t to script_reader")
                conn.execute("set local role script_reader")
                writers.begin(conn)
                conn.execute("select from public.t")
                conn.execute("reset role")
                assert not writers.missed(conn, wrote=True)
                raise psycopg.Rollback
        finally:
            conn.execute("drop role script_reader")
    assert "table public.t: role " in caplog.text and "may not lock it" in caplog.text


def test_captured_partitions_are_nothing_that_a_script_has_used(tree: Tree) -> None:
    parted = (
        "create table p (id int primary key) partition by range (id);"
        "create table p1 partition of p for values from (0) to (9);"
        "create view v as select * from t"
    )
    added(tree, parted, "public.p")
    tree.root.database.execute("insert into public.p values (1)")
    tree.line.configure(tree.root, execute_lock_timeout=0.1)
    with tree.root.database.connect() as writer:
        writer.execute("begin; insert into public.p values (2)")
        # Views can be read and written though partitions with rows were counted.
        tree.fine("v.sql", "update v set v = 'x'; delete from t", "--timeout", "0")


def test_a_role_of_the_script_decides_about_no_lock(tree: Tree) -> None:
    tree.root.database.execute("drop role if exists script_reader; create role script_reader")
    try:
        for node in tree.nodes:
            node.database.execute("grant select on public.t to script_reader")
        script = "set role script_reader; select count(*) from public.t; reset role;"
        with open_transaction(tree, "insert into public.t values (1, 'open')"):
            tree.fine("r.sql", f"{script} delete from public.t where id = 1{AFTER}")
        tree.catch_up()
        assert tree.rows("select * from t") == []
    finally:
        for node in tree.nodes:
            node.database.execute("drop owned by script_reader")
        tree.root.database.execute("drop role script_reader")


def test_a_limit_of_the_script_itself_names_the_script(tree: Tree) -> None:
    done = tree.execute("l.sql", "set statement_timeout = '1ms';\nselect pg_sleep(9)")
    assert done.code != 0
    assert "script l.sql, line 2: select pg_sleep(9)" in done.err
