"""Half-open connections: every command ends in time and reports the reason."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from londiste.cascade.switching import operation_log
from londiste.cascade.switching.operation_log import OperationKind
from londiste.cli import options
from londiste.cli.queue import common as queue_commands
from londiste.cli.setup import common as setup
from londiste.db import call, connection
from londiste.db.connection import Connection, limit_answers, session
from londiste.errors import NodeUnreachable
from londiste.orchestration.connections import Connections
from londiste.pgq import rebase
from tests.fixtures.cascade import QUEUE, Nodes
from tests.fixtures.cluster import Database
from tests.support.lines import Line
from tests.support.waiting import wait_for


@pytest.fixture
def line(pgq_db: Database) -> Iterator[Line]:
    with Line(pgq_db.dsn) as made:
        yield made


def test_a_server_that_is_not_heard_of_any_more_is_unreachable(line: Line) -> None:
    with Connections(name="test", answer_seconds=1.0) as sites:
        conn = sites.at(line.dsn)
        assert call.value(conn, "pgq.version")
        line.cut()
        began = time.monotonic()
        with pytest.raises(NodeUnreachable, match=r"127\.0\.0\.1.*not responded for 1 s"):
            call.value(conn, "pgq.version")
        assert time.monotonic() - began < 20
        assert conn.closed


def test_a_session_for_which_nobody_has_set_a_limit_has_one(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "SILENT_SECONDS", 0.3)
    with session(line.dsn, autocommit=True) as conn:
        assert conn.execute("select 'done' from pg_sleep(0.7)").fetchone() == ("done",)
        # Nothing is asked.
        assert list(conn.notifies(timeout=0.7)) == []
        line.stall()
        with pytest.raises(psycopg.OperationalError, match=r"has not responded for 0\.3 s"):
            conn.execute("select 1")


def test_a_server_that_waits_for_what_was_sent_does_not_work(line: Line, pgq_db: Database) -> None:
    pgq_db.execute("create table public.t (a text)")
    ends = pytest.raises(psycopg.OperationalError, match=r"has not responded for 0\.5 s")
    with session(line.dsn, autocommit=True, silent_seconds=0.5) as conn, ends, conn.pipeline():
        conn.execute("select 1").fetchone()
        line.stall()
        conn.execute("select 2")
    with session(line.dsn, autocommit=True, silent_seconds=0.5) as conn, ends:
        with conn.cursor() as cursor, cursor.copy("copy public.t from stdin") as copy:
            copy.write_row(["x"])
            line.stall()


def test_a_slow_line_is_waited_for_as_long_as_something_arrives(
    line: Line, pgq_db: Database
) -> None:
    pgq_db.execute("create table public.t (a text)")
    with session(line.dsn, autocommit=True, silent_seconds=0.3) as conn:
        with conn.pipeline():
            conn.execute("select 1").fetchone()
            line.slow(0.2)
            for _ in range(12):
                conn.execute("insert into public.t values (%s)", ["x" * 4000])
    with session(line.dsn, autocommit=True, silent_seconds=0.3) as conn, conn.cursor() as cursor:
        with cursor.copy("copy public.t from stdin") as copy:
            line.slow(0.2)
            copy.write(("y" * 4000 + "\n") * 12)
    assert pgq_db.value("select count(*) from public.t") == 24


def test_a_server_that_refuses_the_question_may_be_working(pgq_db: Database) -> None:
    role = f"busy_{pgq_db.name}"
    pgq_db.execute(f"create role {role} login connection limit 1")
    try:
        dsn = make_conninfo(pgq_db.dsn, user=role)
        with session(dsn, autocommit=True, silent_seconds=0.3) as conn:
            assert conn.execute("select 'done' from pg_sleep(1)").fetchone() == ("done",)
            # As after a change of its password.
            pgq_db.execute(f"alter role {role} nologin connection limit -1")
            assert conn.execute("select 'done' from pg_sleep(1)").fetchone() == ("done",)
    finally:
        pgq_db.execute(f"drop role {role}")


def test_a_server_that_tracks_no_activities_may_be_working(line: Line) -> None:
    dsn = make_conninfo(line.dsn, options="-c track_activities=off")
    with session(dsn, autocommit=True, silent_seconds=0.3) as conn:
        assert conn.execute("select 'done' from pg_sleep(1)").fetchone() == ("done",)
        line.stall()
        with pytest.raises(psycopg.OperationalError, match="has not responded"):
            conn.execute("select 1")


def test_what_is_said_of_a_session_names_its_node(line: Line) -> None:
    with Connections(name="test", answer_seconds=1.0) as sites:
        sites.call_them({line.dsn: "branch7"})
        conn = sites.at(line.dsn)
        line.cut()
        with pytest.raises(NodeUnreachable, match=r"^node branch7 .*not responded"):
            call.value(conn, "pgq.version")
        line.close()
        with pytest.raises(NodeUnreachable, match=r"^node branch7 does not answer"):
            sites.at(line.dsn)


def test_a_session_that_was_given_up_does_nothing_late(line: Line, pgq_db: Database) -> None:
    pgq_db.execute("create table public.done (by text)")
    with Connections(name="test", answer_seconds=1.0) as sites:
        conn = sites.at(line.dsn)
        pid = conn.info.backend_pid
        line.stall()
        with pytest.raises(psycopg.OperationalError, match="not responded"):
            conn.execute("insert into public.done values ('late')")
        again = sites.at(line.dsn)
        assert again.info.backend_pid != pid
        there = "select count(*) from pg_stat_activity where pid = %s"
        wait_for(lambda: pgq_db.value(there, pid) == 0, what="the end of the first session")
        line.mend()
        again.execute("insert into public.done values ('in time')")
    assert pgq_db.execute("select by from public.done") == [("in time",)]


def test_a_root_is_closed_by_one_message_and_no_lock_waits_for_another(nodes_of: Nodes) -> None:
    root = nodes_of.root()
    with Line(root.dsn) as line, session(line.dsn, autocommit=True) as conn:
        token, begun = operation_log.begin(conn, QUEUE, OperationKind.SWITCHOVER, "root", "branch")
        assert begun
        limit_answers(conn, 1.0)
        line.deafen()
        with pytest.raises(NodeUnreachable):
            operation_log.close_root(conn, QUEUE, token, 1.0)
        closed = "select last_tick is not null from pgq_node.operation"
        wait_for(lambda: root.db.value(closed), what="the last tick")
        with pytest.raises(psycopg.Error, match="disallowed"):
            root.db.execute("set lock_timeout = '5s'; select pgq.insert_event('q', 't', 'd')")


def test_a_long_statement_is_waited_for_as_long_as_the_server_is_at_work(line: Line) -> None:
    with Connections(name="test", answer_seconds=1.0) as sites:
        conn = sites.at(line.dsn)
        with sites.at_length():
            row = conn.execute("select 7 from pg_sleep(2.5)").fetchone()
            assert row == (7,)
            line.stall()
            with pytest.raises(psycopg.OperationalError, match="not responded for 1 s"):
                conn.execute("select 1")
        line.mend()
        with pytest.raises(psycopg.OperationalError, match="not responded for 1 s"):
            sites.at(line.dsn).execute("select pg_sleep(30)")


_CONTEXT = options.Context.make(None, quiet=True, verbose=0, overrides=[])


@contextlib.contextmanager
def _of_step(dsn: str) -> Iterator[Connection]:
    with Connections(name="test") as sites:
        yield sites.at(dsn)


@pytest.mark.parametrize(
    "opened",
    [
        pytest.param(_of_step, id="a change of nodes"),
        pytest.param(lambda dsn: closing(setup.connection(_CONTEXT, dsn)), id="install"),
        pytest.param(lambda dsn: queue_commands.opened(_CONTEXT, dsn), id="queue"),
        pytest.param(lambda dsn: rebase.opened(dsn, 1.0), id="rebase"),
    ],
)
def test_the_server_ends_a_session_that_is_left_in_a_transaction(
    pgq_db: Database, opened: Callable[[str], contextlib.AbstractContextManager[Connection]]
) -> None:
    with opened(pgq_db.dsn) as conn:
        row = conn.execute("show idle_in_transaction_session_timeout").fetchone()
    assert row == ("10s",)
